"""The compiled form of the two loops over every byte and line of a chunk, where there is one.

`kernels.c` is compiled when the package is built on a machine with a C compiler (`hatch_build.py`). Without it, numpy
does the same in several passes (`line_ends`, `headers`): the results are equal by test, only the time differs.

The functions are called with Python's lock held: they take microseconds, and to give the lock up is to wait for it.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from edgesocket.records import Bytes, Offsets

LIBRARY = "_kernels.so"
"""Beside this module, where it was compiled."""

_ASCII_ONLY = 1
_ENDS_WITH_CR = 2
_LEAST_ROOM = 1024


class Kernels:
    """The compiled functions, with working memory of their own: not thread-safe, so each conversation has its own."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._library = library
        self._line_feeds = library.edgesocket_line_feeds
        self._line_feeds.restype = ctypes.c_int64
        self._line_feeds.argtypes = [
            ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        ]  # fmt: skip
        self._consecutive = library.edgesocket_consecutive
        self._consecutive.restype = ctypes.c_int64
        self._consecutive.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64
        ]  # fmt: skip
        self._flags = ctypes.c_int64()
        self._flags_at = ctypes.addressof(self._flags)
        self._found: Offsets = np.empty(_LEAST_ROOM, dtype=np.int64)

    def another(self) -> Kernels:
        """The same functions with other working memory."""
        return Kernels(self._library)

    def line_feeds(self, data: Bytes, start: int, end: int) -> tuple[Offsets, bool, bool]:
        """Where the line feeds of `data[start:end]` are; whether all is ASCII; whether any line ends with CR LF."""
        while True:
            room = len(self._found)
            count = self._line_feeds(data.ctypes.data, start, end, self._found.ctypes.data, room, self._flags_at)
            if count >= 0:
                break
            self._found = np.empty(min(4 * room, end - start), dtype=np.int64)
        flags = self._flags.value
        return self._found[:count].copy(), bool(flags & _ASCII_ONLY), bool(flags & _ENDS_WITH_CR)

    def consecutive(self, data: Bytes, starts: Offsets, header: bytes, digits_at: int) -> int:
        """How many of the lines at `starts` have the header of the id that comes next, beginning with `header`."""
        counting = ctypes.create_string_buffer(header, len(header))
        starts = np.ascontiguousarray(starts)
        return int(
            self._consecutive(data.ctypes.data, starts.ctypes.data, len(starts), counting, len(header), digits_at)
        )


def load() -> Kernels | None:
    """The compiled functions, or None where they were not compiled or do not fit this machine."""
    try:
        return Kernels(ctypes.PyDLL(str(Path(__file__).with_name(LIBRARY))))
    except (OSError, AttributeError):
        return None
