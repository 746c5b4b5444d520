"""The library that makes one process's disk fail and its clock jump does so, and only where it is told to."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.shim import Shim, ShimMissingError, library

PROGRAM = """
import json, os, sys, time
def tried(what):
    try:
        return what() or 0
    except OSError as error:
        return error.errno
def sync(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
inside, outside = sys.argv[1:]
print(json.dumps({
    "time": time.time(),
    "sync": tried(lambda: sync(inside + "/a")),
    "rename": tried(lambda: os.rename(inside + "/a", inside + "/b")),
    "link": tried(lambda: os.link(outside + "/there", inside + "/c")),
    "outside": tried(lambda: sync(outside + "/a")),
}))
"""


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    try:
        library()
    except ShimMissingError as missing:
        pytest.skip(str(missing))
    for name in ("inside", "inside-not"):
        (tmp_path / name).mkdir()
    (tmp_path / "inside-not" / "there").touch()
    made = Shim(tmp_path / "control", tmp_path / "inside")
    yield made
    made.close()


def look(shim: Shim, directory: Path) -> dict[str, Any]:
    """What a process sees."""
    arguments = [sys.executable, "-c", PROGRAM, str(directory / "inside"), str(directory / "inside-not")]
    done = subprocess.run(arguments, env={**os.environ, **shim.env}, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_orders_everything_is_as_it_is(shim: Shim, tmp_path: Path) -> None:
    seen = look(shim, tmp_path)
    assert abs(seen["time"] - time.time()) < 60
    assert [seen[name] for name in ("sync", "rename", "link", "outside")] == [0, 0, 0, 0]
    assert shim.failed == 0


def test_a_disk_fails_below_its_directory_and_nowhere_else(shim: Shim, tmp_path: Path) -> None:
    shim.fail(1000, errno.EIO)
    seen = look(shim, tmp_path)
    assert [seen[name] for name in ("sync", "rename", "link", "outside")] == [errno.EIO] * 3 + [0]
    assert shim.failed == 3


@pytest.mark.parametrize("hours", [-24, -0.01, 1])
def test_the_time_of_day_is_off_as_told(shim: Shim, tmp_path: Path, hours: float) -> None:
    shim.step_clock(hours * 3600)
    assert look(shim, tmp_path)["time"] - time.time() == pytest.approx(hours * 3600, abs=30)
