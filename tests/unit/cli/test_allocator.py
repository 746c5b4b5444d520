"""A process with many threads keeps to two arenas of the C library's allocator, and hands back what it has freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from edgesocket.cli import allocator
from edgesocket.cli.allocator import TRIM_EVERY_S

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")

ARENAS = """
import ctypes, threading
from edgesocket.cli.allocator import keep_memory_steady
keep_memory_steady()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
together = threading.Barrier(8)
def work():
    together.wait()
    for _ in range(2000):
        libc.malloc(10_000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
"""


def _run(program: str, variables: dict[str, str]) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | variables
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize(("variables", "few"), [({}, True), ({"MALLOC_ARENA_MAX": "6"}, False)], ids=["ours", "theirs"])
def test_arenas(variables: dict[str, str], few: bool) -> None:
    assert (_run(ARENAS, variables).count("<heap nr=") <= 2) is few


SPARE = """
import os, threading, time
from edgesocket.cli import allocator
allocator.TRIM_EVERY_S = 0.5
allocator.keep_memory_steady()

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

blocks = [bytes(bytearray(100_000)) for _ in range(500)]
del blocks[:-1]  # the one on top keeps the rest of the heap in the process
before = resident_mb()
time.sleep(2)
print(before - resident_mb())
"""


@pytest.mark.parametrize(
    ("variables", "back"), [({}, True), ({"MALLOC_ARENA_MAX": "6"}, False)], ids=["ours", "theirs"]
)
def test_what_was_freed_goes_back_to_the_system(variables: dict[str, str], back: bool) -> None:
    assert (float(_run(SPARE, variables)) > 30) is back


def test_it_does_so_again_and_again() -> None:
    happened: list[float] = []

    def sleep(seconds: float) -> None:
        happened.append(seconds)
        if len(happened) > 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        allocator._hand_back(happened.append, sleep)
    assert happened == [TRIM_EVERY_S, 0, TRIM_EVERY_S, 0, TRIM_EVERY_S, 0, TRIM_EVERY_S]
