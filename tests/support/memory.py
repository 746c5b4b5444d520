"""How much memory and how many descriptors another process uses, from /proc."""

from __future__ import annotations

import re
from pathlib import Path

MIB = 1024 * 1024
HAS_PROC = Path("/proc/self/status").exists() and "VmHWM" in Path("/proc/self/status").read_text()


class Meter:
    """Measures one process from here on.

    Attributes:
        base: resident bytes when this was made.
    """

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        (self._proc / "clear_refs").write_text("5")  # the peak starts at what is resident now
        self.base = self._read("VmRSS")

    def grown(self) -> int:
        """Bytes that the largest resident size since the start lies above `base`."""
        return self._read("VmHWM") - self.base

    def resident(self) -> int:
        """Bytes resident now, above `base`."""
        return self._read("VmRSS") - self.base

    def descriptors(self) -> int:
        """Open file descriptors."""
        return len(list((self._proc / "fd").iterdir()))

    def _read(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", (self._proc / "status").read_text())
        assert found, f"no {name} in {self._proc}/status"
        return int(found[1]) * 1024
