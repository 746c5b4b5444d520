"""Keeps the memory of a process that runs for months where it is.

The C library's allocator (glibc) gives each thread an arena of its own, and keeps in it what was freed: a process with
a dozen threads grows for an hour although it holds no more than before. Two arenas are enough for threads that share
one interpreter.

And what was freed stays in the process for as long as anything above it in the heap is in use: each backlog that is
larger than all before it would be paid for ever. `SpareMemory` hands it back now and then.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_M_ARENA_MAX = -8
ARENAS = 2

TRIM_EVERY_S = 60.0
"""How often spare memory is handed back: the next backlog takes a page fault for each page of it."""


def keep_memory_steady() -> None:
    """Call it early: arenas that are there stay. Does nothing where the C library is another one, or where its own
    variables (`MALLOC_ARENA_MAX` and so on) say something."""
    mallopt = _of_library("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)


class SpareMemory:
    """Hands freed memory back to the system, where `keep_memory_steady` does something too.

    Args:
        now: a steady clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next = now() + TRIM_EVERY_S
        self._trim = _of_library("malloc_trim")

    def hand_back(self) -> None:
        """Call it as often as you like; it does something once in `TRIM_EVERY_S`, for some milliseconds."""
        if self._trim is not None and self._now() >= self._next:
            self._next = self._now() + TRIM_EVERY_S
            self._trim(0)


def _of_library(name: str) -> Any:
    """A function of glibc; None where it is not to be called."""
    if not sys.platform.startswith("linux") or any(variable.startswith("MALLOC_") for variable in os.environ):
        return None
    return getattr(ctypes.CDLL(None), name, None)  # musl has neither
