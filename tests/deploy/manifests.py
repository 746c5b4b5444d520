"""Kubernetes objects as the tests see them: rendered by Helm and kustomize, checked against schemas, taken apart."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgesocket.cli.main import EXTRA_OF_MODULE, VERBS, verb_module

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/edgesocket"
KUSTOMIZATION = ROOT / "deploy/kubernetes"
RAYCLUSTER_SCHEMA = Path(__file__).with_name("raycluster.schema.json")

OLDEST, NEWEST = "1.29", "1.37"
"""Versions of Kubernetes whose schemas objects are checked against; the first is that of Chart.yaml."""

JOB = """
env {
  job.mode = STREAMING
  tag_filter { edge-ingress = true }
}
source {
  EdgeSocket {
    port = 10091
    token_file = /run/secrets/edgesocket/clicks
  }
}
sink { Console {} }
"""
LEAST: dict[str, Any] = {"state": {"s3": {"url": "s3://edge-state/prod"}}}
ONE_JOB: dict[str, Any] = {**LEAST, "jobs": {"clicks": {"port": 10091, "config": JOB}}}
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "example.com/edge", "tag": "2", "pullSecrets": [{"name": "registry"}]},
    "state": {
        "s3": {
            "url": "s3://edge-state/prod",
            "endpoint": "https://minio.example.com",
            "region": "eu-central-1",
            "credentialsSecret": "edge-s3",
        }
    },
    "jobs": {
        "clicks": {"port": 10091, "config": JOB, "service": {"annotations": {"a.example.com/b": "c"}}},
        "no": {"port": 10092, "config": JOB, "service": {"type": "NodePort"}},
        "taps": {"port": 10091, "config": JOB, "service": {"type": "ClusterIP"}},
    },
    "env": [{"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "password"}}}],
    "volumes": [{"name": "tls", "secret": {"secretName": "edge-tls"}}],
    "volumeMounts": [{"name": "tls", "mountPath": "/run/tls", "readOnly": True}],
    "service": {"loadBalancerClass": "example.com/nlb", "allowFrom": ["10.0.0.0/8", "fd00::/8"]},
    "tokens": {"existingSecret": "edge-tokens"},
    "ray": {"existingTokenSecret": "ray-token", "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
    "head": {"nodeSelector": {"pool": "head"}, "tolerations": [{"key": "head", "operator": "Exists"}]},
    "workers": [
        {"name": "a", "replicas": 2, "labels": {"zone": "a"}, "nodeSelector": {"zone": "a"}},
        {"name": "b", "replicas": 1, "labels": {"zone": "b"}, "tolerations": [{"key": "edge", "operator": "Exists"}]},
    ],
    "networkPolicy": {"monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
}
ON_A_VOLUME: dict[str, Any] = {"state": {"volume": {"enabled": True}}, "jobs": ONE_JOB["jobs"]}


class _OnceLoader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which most readers take the last in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]  # type: ignore[no-untyped-call]
        twice = {key for key in keys if keys.count(key) > 1}
        assert not twice, f"{node.start_mark}: {twice} twice"
        return super().construct_mapping(node, deep)


def objects_of(text: str) -> list[dict[str, Any]]:
    """The objects of a text of YAML documents."""
    return [one for one in yaml.load_all(text, _OnceLoader) if one]


class ValuesRefusedError(Exception):
    """Helm refused the values, or a template did."""


def render(values: Mapping[str, Any], release: str = "edge", namespace: str = "ns") -> dict[str, str]:
    """What Helm makes of the chart: the text of each template. Raises ValuesRefusedError."""
    helm = pytest.importorskip("helm_python", reason="needs Helm: pip install helm-python-sdk")
    try:
        made: dict[str, str] = helm.Chart.load(CHART).render(dict(values), name=release, namespace=namespace)
    except helm.HelmError as error:
        raise ValuesRefusedError(str(error)) from error
    return {name.rpartition("/")[2]: text for name, text in made.items()}


@cache
def _chart(values: str) -> tuple[dict[str, Any], ...]:
    made = render(json.loads(values))
    return tuple(one for name, text in made.items() if name.endswith(".yaml") for one in objects_of(text))


def chart(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects of the chart with these values."""
    return list(_chart(json.dumps(values)))


@cache
def _kustomized(directory: Path) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl, for kustomize")
    done = subprocess.run(
        [kubectl, "kustomize", str(directory)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": "/dev/null"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kustomized(directory: Path = KUSTOMIZATION) -> list[dict[str, Any]]:
    """The objects of the recipe without Ray."""
    return objects_of(_kustomized(directory))


def check(one: dict[str, Any], version: str) -> None:
    """Check an object against the schema of its kind, which names every field there is."""
    validate = pytest.importorskip("kubernetes_validate", reason="needs schemas: pip install kubernetes-validate")
    if one["kind"] != "RayCluster":
        validate.validate(one, version, strict=True)
        return
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(one, json.loads(RAYCLUSTER_SCHEMA.read_text()))
    for template in pod_templates(one):
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": template}
        validate.validate(pod, version, strict=True)


def one_of(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The only object of that kind whose name ends so."""
    found = [one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(name)]
    assert len(found) == 1, [one["metadata"]["name"] for one in found]
    return found[0]


def pod_templates(one: dict[str, Any]) -> list[dict[str, Any]]:
    """The pods that an object makes. Those of a RayCluster have the labels that KubeRay adds."""
    spec = one.get("spec", {})
    if one["kind"] == "RayCluster":
        groups = [("head", spec["headGroupSpec"]), *(("worker", group) for group in spec["workerGroupSpecs"])]
        made = []
        for kind, group in groups:
            template = json.loads(json.dumps(group["template"]))
            template["metadata"]["labels"] |= {"ray.io/cluster": one["metadata"]["name"], "ray.io/node-type": kind}
            made.append(template)
        return made
    if one["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return [spec["template"]] if "template" in spec else []


def containers(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All containers."""
    pods = [template["spec"] for one in objects for template in pod_templates(one)]
    return [container for pod in pods for container in [*pod.get("initContainers", ()), *pod["containers"]]]


def command_line(container: dict[str, Any]) -> list[str]:
    """The arguments of `edgesocket` in a container; the image's entry point is that."""
    assert "command" not in container
    return list(container["args"])


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read a command line of `edgesocket` as it would. Fails where it has no such verb or option."""
    verb = arguments[0]
    assert verb in VERBS, f"there is no edgesocket {verb}"
    subparsers = argparse.ArgumentParser(exit_on_error=False).add_subparsers()
    try:
        module = verb_module(verb)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in EXTRA_OF_MODULE:
            pytest.skip(f"{error.name} is not installed")
        raise
    module.add_parser(subparsers)
    try:
        return subparsers.choices[verb].parse_args(arguments[1:])
    except (SystemExit, argparse.ArgumentError) as error:
        raise AssertionError(f"edgesocket {' '.join(arguments)}: {error}") from error


def command_lines(text: str) -> Iterator[list[str]]:
    """Command lines of `edgesocket` in a text: a page, or what Helm prints."""
    text = re.sub(r"\\\n\s*", " ", text)
    found = re.findall(r"^(?:.* -- )?\s*edgesocket (\w[^`|\n#]*)", text, re.MULTILINE)
    found += re.findall(r"`edgesocket\s+(\w[^`]*)`", text)
    for line in found:
        words = [word.strip("'\"") for word in line.split()]
        if len(words) > 1 or words[0] == "jobs":  # a verb alone is a name
            yield words


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector (or the plain one of a Service) selects these labels."""
    wanted = selector.get("matchLabels", selector)
    return all(labels.get(name) == value for name, value in wanted.items())
