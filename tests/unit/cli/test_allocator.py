"""A process with many threads keeps to two arenas of the C library's allocator, and hands back what it has freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from edgesocket.cli import allocator
from edgesocket.cli.allocator import TRIM_EVERY_S, SpareMemory

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


@pytest.mark.parametrize(("variables", "few"), [({}, True), ({"MALLOC_ARENA_MAX": "6"}, False)], ids=["ours", "theirs"])
def test_arenas(variables: dict[str, str], few: bool) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | variables
    done = subprocess.run(
        [sys.executable, "-c", ARENAS], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout.count("<heap nr=") <= 2) is few


SPARE = """
import os
from edgesocket.cli.allocator import TRIM_EVERY_S, SpareMemory
now = [0.0]
spare = SpareMemory(lambda: now[0])

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

blocks = [bytes(bytearray(100_000)) for _ in range(500)]
del blocks[:-1]  # the one on top keeps the rest of the heap in the process
before = resident_mb()
spare.hand_back()
early = resident_mb()
now[0] = TRIM_EVERY_S
spare.hand_back()
print(before - early, early - resident_mb())
"""


def test_what_was_freed_goes_back_to_the_system_once_in_a_while() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", SPARE], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    early, then = map(float, done.stdout.split())
    assert early < 1
    assert then > 30


def test_spare_memory_is_handed_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, trims = [0.0], []
    monkeypatch.setattr(allocator, "_of_library", lambda name: lambda pad: trims.append((name, pad, now[0])))
    spare = SpareMemory(lambda: now[0])
    for now[0] in range(0, 200, 10):
        spare.hand_back()
    assert trims == [("malloc_trim", 0, TRIM_EVERY_S), ("malloc_trim", 0, 2 * TRIM_EVERY_S), ("malloc_trim", 0, 180)]
