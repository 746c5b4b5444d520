"""What happens in the pod of deploy/kubernetes: run by `test_pod.py`, in namespaces that look like that pod.

    python pod_inside.py SPEC DIRECTORY      SPEC: JSON of the pod template; DIRECTORY: scratch of the test

Prints JSON: what probes and the API answered, what `send` said, and how it ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

EDGESOCKET = [sys.executable, "-m", "edgesocket"]
SECRETS = Path("/run/secrets/edgesocket")
TIMEOUT_S = 60.0


def write_secret(version: str, **values: str) -> None:
    """Put a Secret's files where they are, as Kubernetes does: a new directory, then one link is exchanged."""
    fresh = SECRETS / f"..{version}"
    fresh.mkdir()
    for name, value in values.items():
        (fresh / name).write_text(value)
        if not (SECRETS / name).is_symlink():
            (SECRETS / name).symlink_to(f"..data/{name}")
    link = SECRETS / "..data_tmp"
    link.symlink_to(fresh.name)
    link.rename(SECRETS / "..data")


def get(port: int, path: str, token: str = "") -> tuple[int, str]:
    """Status and body of a GET; 0 where nobody listens."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def send(port: int, token: str, lines: list[str]) -> int:
    """The exit code of `edgesocket send`, which waits until all is confirmed."""
    command = [*EDGESOCKET, "send", f"127.0.0.1:{port}", "--commit", "--timeout", "30"]
    env = {**os.environ, "EDGESOCKET_TOKEN": token}
    return subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), text=True, env=env, check=False
    ).returncode


def until(what: str, ready: Any) -> None:
    """Wait."""
    deadline = time.monotonic() + TIMEOUT_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def refused(path: str) -> bool:
    """Whether nothing can be written there."""
    try:
        Path(path, "written").touch()
    except OSError:
        return True
    return False


def main(template: dict[str, Any]) -> dict[str, Any]:
    """Run the pod once."""
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probe = container["readinessProbe"]["httpGet"]
    write_secret("first", clicks="first-token\n", http="h" * 32)
    env = {one["name"]: one["value"] for one in container["env"]}
    process = subprocess.Popen([*EDGESOCKET, *container["args"]], env={**os.environ, **env})
    found: dict[str, Any] = {"read_only": refused("/usr"), "writable": not refused("/var/lib/edgesocket")}
    try:
        until("ready", lambda: get(ports[probe["port"]], probe["path"])[0] == 200 or process.poll() is not None)
        found["live"] = get(ports["http"], container["livenessProbe"]["httpGet"]["path"])[0]
        found["ready"] = get(ports["http"], probe["path"])[0]
        found["without_token"] = get(ports["http"], "/api/jobs")[0]
        found["with_token"] = get(ports["http"], "/api/jobs", "h" * 32)[0]
        edge = ports["edge-clicks"]
        found["sent"] = send(edge, "first-token", ["a", "b"])
        write_secret("second", clicks="second-token\n", http="h" * 32)
        found["rotated"] = 77
        until("rotated", lambda: found.update(rotated=send(edge, "second-token", ["c"])) or found["rotated"] == 0)
        found["old_token"] = send(edge, "first-token", ["d"])
        process.send_signal(signal.SIGTERM)
        found["ended"] = process.wait(TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    out = sorted(Path("/var/lib/edgesocket/out/clicks").glob("part-*"))
    found["rows"] = [line for path in out for line in path.read_text().splitlines()]
    found["states"] = sorted(path.name for path in Path(env["EDGESOCKET_STATE"]).iterdir())
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
