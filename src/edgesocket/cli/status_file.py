"""`status.json` in the state directory: what the running job last said of itself, for `edgesocket status`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

STATUS_FILE = "status.json"


def write_status(state_dir: Path, status: dict[str, Any]) -> None:
    """Replace the status. A status that cannot be written is no reason to stop: the disk's trouble shows elsewhere."""
    fresh = state_dir / f".{STATUS_FILE}-{os.getpid()}"
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"time": time.time(), **status}, file)
        fresh.replace(state_dir / STATUS_FILE)
    except OSError:
        return


def read_status(state_dir: Path) -> dict[str, Any] | None:
    """The last status written, or None."""
    try:
        status: dict[str, Any] = json.loads((state_dir / STATUS_FILE).read_text(encoding="utf-8"))
        return status
    except (OSError, ValueError):
        return None
