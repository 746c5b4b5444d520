"""Keeps the memory of a process that runs for months where it is.

The C library's allocator (glibc) gives each thread an arena of its own, and keeps in it what was freed: a process with
a dozen threads grows for an hour although it holds no more than before. Two arenas are enough for threads that share
one interpreter.
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_ARENA_MAX = -8
ARENAS = 2


def keep_memory_steady() -> None:
    """Call it early: arenas that are there stay. Does nothing where the C library is another one, or where its own
    variables (`MALLOC_ARENA_MAX` and so on) say something."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
