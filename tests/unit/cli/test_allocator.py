"""A process with many threads keeps to two arenas of the C library's allocator."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")

PROGRAM = """
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
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout.count("<heap nr=") <= 2) is few
