"""A file in the state directory that asks the running job to stop.

It works for one job of several in a process, and from another host that sees the directory, where a signal would not;
and a signal could meet a process that got the number of a dead one. The request names the process it is for, as its
`status.json` does; every other process ignores it, so one that was left behind does no harm.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

REQUEST_FILE = "stop-request.json"


def ask_to_stop(state_dir: Path, instance: str, by: str) -> None:
    """Ask the process whose status carries `instance` to stop the job gracefully. Raises OSError."""
    fresh = state_dir / f".{REQUEST_FILE}-{os.getpid()}"
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump({"instance": instance, "by": by}, stream)
        fresh.replace(state_dir / REQUEST_FILE)
    finally:
        fresh.unlink(missing_ok=True)


def asked_to_stop(state_dir: Path, instance: str) -> str:
    """Who asks the process `instance` to stop; an empty string if nobody does."""
    try:
        request = json.loads((state_dir / REQUEST_FILE).read_bytes())
        return str(request["by"]) if request["instance"] == instance else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def clear_request(state_dir: Path, instance: str) -> None:
    """Take a request for this process away."""
    if asked_to_stop(state_dir, instance):
        (state_dir / REQUEST_FILE).unlink(missing_ok=True)
