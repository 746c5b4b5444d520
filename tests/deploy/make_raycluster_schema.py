"""Makes `raycluster.schema.json` from the definition of RayCluster that KubeRay ships (Apache-2.0).

    go mod download -json github.com/ray-project/kuberay/ray-operator@v1.6.2      (prints "Dir")
    python tests/deploy/make_raycluster_schema.py v1.6.2 DIR/config/crd/bases/ray.io_rayclusters.yaml

Of the 900 KB that it has, what says nothing about form is left out: descriptions, and pod templates, which the tests
check against Kubernetes' own schema. What is not named is refused, where a Kubernetes server would drop it in silence.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).with_name("raycluster.schema.json")
POD_TEMPLATE = {"$comment": "a PodTemplateSpec", "type": "object"}
_KEPT = ("type", "enum", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "required")


def shortened(schema: dict[str, Any], name: str = "") -> dict[str, Any]:
    """The schema without what says nothing about form, and with nothing allowed that it does not name."""
    if name == "template" and "spec" in schema.get("properties", {}):
        return POD_TEMPLATE
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        found["properties"] = {key: shortened(value, key) for key, value in schema["properties"].items()}
        found["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    elif isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = shortened(schema["additionalProperties"])
    if "items" in schema:
        found["items"] = shortened(schema["items"])
    return found


def main(version: str, path: str) -> None:
    """Write the schema."""
    definition = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    served = {one["name"]: one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["served"]}
    schema = shortened(served["v1"])
    schema["properties"]["metadata"] = {"type": "object"}
    del schema["properties"]["status"]
    origin = (
        f"Made by {Path(__file__).name} from KubeRay {version}, RayCluster v1. Licence of the original: Apache-2.0."
    )
    TARGET.write_text(json.dumps({"$comment": origin, **schema}, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
