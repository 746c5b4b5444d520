"""`status.json` in the state directory: what the running job last said of itself, for `edgesocket status`.

It matters most when something is wrong, such as a full disk. So it is padded to whole blocks, and written over: that
needs no more room, and a fraction of the time of a new file. Who reads it in that very moment looks again.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from edgesocket.store.durable import PRIVATE_FILE, write_all

STATUS_FILE = "status.json"
_BLOCK_BYTES = 4096
_READS = 5


def write_status(state_dir: Path, status: dict[str, Any]) -> None:
    """Replace the status. One that cannot be written is no reason to stop: the disk's trouble shows elsewhere."""
    path = state_dir / STATUS_FILE
    data = _padded(json.dumps({"time": time.time(), **status}).encode())
    try:
        if not _write_over(path, data):
            _write_fresh(path, data)
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


def _write_over(path: Path, data: bytes) -> bool:
    """Write into the file that is there. Returns False where there is none, or one that is too small."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # none, or somebody else's
        return False
    try:
        size = os.fstat(descriptor).st_size
        if size < len(data):
            return False
        write_all(descriptor, data.ljust(size))
        return True
    finally:
        os.close(descriptor)


def _write_fresh(path: Path, data: bytes) -> None:
    """Put a new file there, whole from its first moment on."""
    fresh = path.with_name(f".{STATUS_FILE}-{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
