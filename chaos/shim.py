"""A library in front of the C library of one process: its disk fails or is slow, its time of day is off (shim.c).

The file systems and clocks of the machine stay as they are; only the process that is started with `Shim.env` sees it.
Times of files are the kernel's, so after a step of the clock they and the time of day disagree, as on a network share.
"""

from __future__ import annotations

import functools
import mmap
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

_LAYOUT = struct.Struct("<qIIII512s")
_FAILED_AT = 16


class ShimMissingError(Exception):
    """There can be no shim here; says why."""


@functools.cache
def library() -> Path:
    """The shim, compiled once a process into a directory of its own. Raises ShimMissingError."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        raise ShimMissingError(
            "failing disks and clock steps need Linux and a C compiler: apt-get install gcc libc6-dev"
        )
    made = Path(tempfile.mkdtemp(prefix="edgesocket-shim-")) / "shim.so"
    source = Path(__file__).with_name("shim.c")
    built = subprocess.run(
        [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode:
        raise ShimMissingError(f"the shim cannot be compiled: {built.stderr[-500:]}")
    return made


class Shim:
    """What one process, and those that follow it, see of disk and clock.

    Args:
        control: a file for it, made here.
        directory: only files below it are touched.
    """

    def __init__(self, control: Path, directory: Path) -> None:
        self._directory = str(directory).encode()
        self._clock_s = 0.0
        self._per_mille = self._error = self._ns_a_byte = 0
        control.write_bytes(bytes(_LAYOUT.size))
        with control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self.env = {"LD_PRELOAD": str(library()), "CHAOS_SHIM": str(control)}
        self._write()

    @property
    def failed(self) -> int:
        """Calls that failed so far."""
        return int(struct.unpack_from("<I", self._map, _FAILED_AT)[0])

    def fail(self, per_mille: int, error: int) -> None:
        """Let so many of 1,000 writes, syncs, links and renames fail with that errno. 0: none."""
        self._per_mille, self._error = per_mille, error
        self._write()

    def slow(self, bytes_a_second: int) -> None:
        """Let writes get no more than that through. 0: as fast as they can."""
        self._ns_a_byte = 10**9 // bytes_a_second if bytes_a_second else 0
        self._write()

    def step_clock(self, seconds: float) -> None:
        """Let the time of day be off by so much."""
        self._clock_s = seconds
        self._write()

    def close(self) -> None:
        """Give the memory back."""
        self._map.close()

    def _write(self) -> None:
        values = _LAYOUT.pack(
            int(self._clock_s * 1e9), self._per_mille, self._error, self.failed, self._ns_a_byte, self._directory
        )
        self._map[:] = values
