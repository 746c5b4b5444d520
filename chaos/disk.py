"""A small file system of its own that can be filled. Linux, root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

_BLOCK = bytes(1 << 16)


def why_no_disk() -> str:
    """Why there can be none here; "" where there can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a small tmpfs is mounted, which takes root on Linux"
    return ""


class SmallDisk:
    """A tmpfs of `size` bytes, mounted at `path`, which must be an empty directory."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(path)],
            check=True,
            capture_output=True,
        )

    def fill(self, leave_bytes: int = 0) -> None:
        """Take the room there is, but that much."""
        with contextlib.suppress(OSError), (self.path / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(_BLOCK)
        with contextlib.suppress(OSError):
            os.truncate(self.path / "filler", max(0, (self.path / "filler").stat().st_size - leave_bytes))

    def heal(self) -> None:
        """Give it back."""
        (self.path / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Take it away."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)
