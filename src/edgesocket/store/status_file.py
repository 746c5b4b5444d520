"""`status.json` in the state directory: what the running job last said of itself, for `edgesocket status`.

It matters most when something is wrong, such as a full disk. So it is padded to whole blocks, and where a new file
cannot be written the old one is written over, which needs no more room.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

STATUS_FILE = "status.json"
_BLOCK_BYTES = 4096
_READS = 5


def write_status(state_dir: Path, status: dict[str, Any]) -> None:
    """Replace the status. One that cannot be written is no reason to stop: the disk's trouble shows elsewhere."""
    path = state_dir / STATUS_FILE
    fresh = state_dir / f".{STATUS_FILE}-{os.getpid()}"
    text = json.dumps({"time": time.time(), **status}).encode()
    try:
        _write(fresh, os.O_CREAT | os.O_TRUNC, _padded(text))
        fresh.replace(path)
    except OSError:
        try:
            fresh.unlink(missing_ok=True)
            _write(path, 0, _padded(text).ljust(path.stat().st_size))
        except OSError:
            return


def read_status(state_dir: Path) -> dict[str, Any] | None:
    """The last status written, or None."""
    for _ in range(_READS):
        try:
            status: dict[str, Any] = json.loads((state_dir / STATUS_FILE).read_bytes())
            return status
        except OSError:
            return None
        except ValueError:
            time.sleep(0.01)  # it is being written over in this moment
    return None


def _padded(text: bytes) -> bytes:
    return text.ljust(-(-len(text) // _BLOCK_BYTES) * _BLOCK_BYTES)


def _write(path: Path, flags: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
