"""A process that hangs is killed by the kernel, even a stopped one; one that shows signs of life is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the timer is Linux's")

PROGRAM = """
import os, signal, sys, time
from edgesocket.cluster.watchdog import Watchdog
watchdog = Watchdog(0.3)
assert watchdog.armed
watchdog.feed()
for _ in range(4):
    time.sleep(0.1)
    watchdog.feed()
print("alive", flush=True)
{then}
time.sleep(20)
"""


def outcome(then: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(then=then)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.strip()


def test_a_stopped_process_is_killed() -> None:
    assert outcome("os.kill(os.getpid(), signal.SIGSTOP)") == (-9, "alive")


def test_a_process_that_ends_in_good_order_may_take_its_time() -> None:
    assert outcome("watchdog.stop(); time.sleep(0.6); sys.exit(3)") == (3, "alive")
