"""The system wakes the input where `watchfiles` is installed; without it, looking at intervals does."""

from __future__ import annotations

import builtins
import select
from pathlib import Path
from typing import Any

import pytest

from tests.support.tail_kit import TailRig, append


def test_a_change_wakes_and_is_read(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    append(tmp_path / "a.log", b"1\n")
    rig = TailRig(str(tmp_path / "*.log"), watch=True)
    try:
        rig.drain()
        assert rig.tail is not None
        (descriptor,) = rig.tail.descriptors()
        # The watch begins in a thread of its own: write until it is there.
        for number in range(100):
            append(tmp_path / "a.log", b"%d\n" % number)
            if select.select([descriptor], [], [], 0.2)[0]:
                break
        else:
            pytest.fail("nothing wakes")
        rig.tail.discover(rig.now)  # no time has passed: only the news makes it look
        assert rig.read() is not None
    finally:
        rig.crash()


def test_without_the_package_it_looks_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "watchfiles":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    append(tmp_path / "a.log", b"1\n")
    rig = TailRig(str(tmp_path / "*.log"), watch=True)
    assert rig.tail is not None
    assert rig.tail.descriptors() == []
    assert rig.drain() == [b"1"]
    append(tmp_path / "a.log", b"2\n")
    assert rig.tail.next_time(rig.now) == pytest.approx(rig.now + 0.5)
    assert rig.drain() == [b"2"]
    rig.crash()
