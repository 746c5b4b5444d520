"""A state that is copied from a directory into a bucket, or out of one: what was received is never forgotten.

The copy is the same directory here: what makes the difference is whether the arrival log lies in it or apart.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.store.scratch import ScratchDirectory
from edgesocket.testing.sinks import ListStorage
from tests.support.rig import Rig


@pytest.fixture
def scratch(tmp_path: Path):
    made = ScratchDirectory(tmp_path / "scratch")
    made.try_lock()
    yield made
    made.unlock()


@pytest.fixture
def rig(tmp_path: Path):
    made = Rig(tmp_path / "state", ListStorage())
    yield made
    if made.incarnation is not None:
        made.source.close(clean=False)


def receive(rig: Rig) -> None:
    """1 and 9 are confirmed, 5 comes late, 10 is new; nothing covers those two."""
    for id_ in (1, 9):
        assert rig.offer(id_) == "RECEIVED"
    rig.pump()
    rig.checkpoint()
    assert rig.offer(5) == "RECEIVED"
    assert rig.offer(10) == "RECEIVED"
    rig.source.close(clean=False)
    rig.crash()


def assert_nothing_is_forgotten(rig: Rig) -> None:
    assert rig.offer(11) == "RECEIVED"
    rig.pump()
    rig.checkpoint()
    assert rig.poll(5) == "RESEND"
    assert rig.poll(10) == "RESEND"
    assert rig.poll(11) == "PENDING"
    for id_ in (5, 10):
        assert rig.offer(id_) == "RECEIVED"
    rig.pump()
    rig.checkpoint()
    assert rig.poll(11) == "ACK:11"


def test_out_of_a_bucket(rig: Rig, scratch: ScratchDirectory) -> None:
    rig.apart = scratch
    receive(rig.start())
    rig.apart = None
    assert_nothing_is_forgotten(rig.start())


def test_into_a_bucket(rig: Rig, scratch: ScratchDirectory) -> None:
    receive(rig.start())
    rig.apart = scratch
    assert_nothing_is_forgotten(rig.start())


def test_after_a_graceful_stop_there_is_nothing_to_forget(rig: Rig, scratch: ScratchDirectory) -> None:
    rig.start()
    rig.offer(1)
    rig.stop()
    rig.apart = scratch
    rig.start()
    assert rig.offer(9) == "RECEIVED"
    rig.stop()
    rig.apart = None
    rig.start()
    assert rig.poll(9) == "ACK:9", "2 to 8 are a legal gap"
