"""The pod of the recipe without Ray, run without Kubernetes: its command, its mounts, a root that cannot be written to.

Needs Linux and root: the pod gets a network and a file system of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from manifests import KUSTOMIZATION, ROOT, kustomized, one_of, pod_templates

_AS_A_POD = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
mkdir -p /var/lib/edgesocket /run/secrets/edgesocket /etc/edgesocket/jobs
cp "$2"/* /etc/edgesocket/jobs
mount --bind /tmp /tmp
mount -o remount,bind,ro /
ip link set lo up
shift 2
exec "$@"
"""


@pytest.mark.slow
def test_the_pod_serves_is_probed_takes_a_new_token_and_ends_in_good_order(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "mount", "ip"))):
        pytest.skip("needs root, and the commands unshare, mount and ip, for something like a pod")
    (template,) = pod_templates(one_of(kustomized(), "StatefulSet"))
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "pod.json").write_text(json.dumps(template))
    inside = [sys.executable, str(Path(__file__).with_name("pod_inside.py")), str(tmp_path / "pod.json")]
    command = ["unshare", "--mount", "--net", "sh", "-c", _AS_A_POD, "sh", str(tmp_path), str(KUSTOMIZATION / "jobs")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("EDGESOCKET_")}
    done = subprocess.run(
        [*command, *inside],
        cwd=ROOT,
        env={**env, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"no such file system here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found == {
        "read_only": True,
        "writable": True,
        "live": 200,
        "ready": 200,
        "without_token": 401,
        "with_token": 200,
        "sent": 0,
        "rotated": 0,
        "old_token": 77,
        "ended": 0,
        "rows": ["a", "b", "c"],
        "states": ["clicks"],
    }, done.stderr
