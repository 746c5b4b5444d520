"""Files and directories that must still be there after a power cut."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS: fsync(2) leaves the data in the drive's cache there, this does not."""


def sync_file(fd: int) -> None:
    """Make what was written to `fd`, and its length, durable."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(fd, _FULL_SYNC)
    else:
        os.fsync(fd)


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable, whoever made them."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(fd)
    finally:
        os.close(fd)


def make_directory(directory: Path) -> None:
    """Make `directory` and what is missing above it, private and durable."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for step in reversed(missing):
        step.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        try:
            sync_directory(step.parent)
        except OSError:
            # So that the next try makes and syncs it again, and does not take it for durable.
            step.rmdir()
            raise


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte of `data`; the kernel may take it in pieces. Raises OSError with a part written."""
    written = os.write(fd, data)
    if written < len(data):
        view = memoryview(data)[written:]
        while view:
            view = view[os.write(fd, view) :]
