"""Keeps the memory of a process that runs for months where it is.

The C library's allocator (glibc) gives each thread an arena of its own, and keeps in it what was freed: a process with
a dozen threads grows for an hour although it holds no more than before. Two arenas are enough for threads that share
one interpreter.

And what was freed stays in the process for as long as anything above it in the heap is in use: each backlog that is
larger than all before it would be paid for ever. So once a minute what is free goes back to the system.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

_M_ARENA_MAX = -8
ARENAS = 2

TRIM_EVERY_S = 60.0
"""How often freed memory is handed back. It takes 0.1 to 0.2 ms a megabyte, while which other threads wait where they
allocate from the same arena, and later a page fault for each page that is used again."""


@cache
def keep_memory_steady() -> None:
    """Call it early: arenas that are there stay. Once is enough. Does nothing where the C library is another one, or
    where its own variables (`MALLOC_ARENA_MAX` and so on) say something."""
    mallopt, trim = _of_library("mallopt"), _of_library("malloc_trim")
    if mallopt is not None and trim is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
        threading.Thread(target=_hand_back, args=(trim, time.sleep), name="edgesocket-memory", daemon=True).start()


def _hand_back(trim: Callable[[int], object], sleep: Callable[[float], object]) -> None:
    """Hand freed memory back, again and again."""
    while True:
        sleep(TRIM_EVERY_S)
        trim(0)


def _of_library(name: str) -> Any:
    """A function of glibc; None where it is not to be called."""
    if not sys.platform.startswith("linux") or any(variable.startswith("MALLOC_") for variable in os.environ):
        return None
    return getattr(ctypes.CDLL(None), name, None)  # musl has neither
