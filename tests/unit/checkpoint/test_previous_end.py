"""When it is known what the incarnation before has answered."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from edgesocket.checkpoint.commit_log import append, claim, read_log
from edgesocket.checkpoint.entries import Claim, Commit, Ended, Started
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import arrivals_here, previous_end_is_known
from edgesocket.testing.memory_store import MemoryStore

STATE = frozenset({""})
"""Of an arrival log that is part of the state."""


class Lives:
    """A commit log, incarnation by incarnation."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def live(
        self,
        *,
        scratch: str = "",
        host: str = "here",
        sync_ms: int = 1000,
        commits: bool = False,
        ended: Ended | None = None,
        starts: bool = True,
    ) -> None:
        log = self.store.run(read_log())
        self.store.run(claim(log, Claim(0, 0, "", host, host, 1, "job", "s", (), "", "")))
        if not starts:
            return
        self.store.run(append(log, Started(log.epoch, 0, None, sync_ms, host, host, scratch)))
        if commits:
            self.store.run(append(log, Commit(log.epoch, 0, log.epoch, {})))
        if ended is not None:
            entry = Ended(log.epoch, 0, ended.clean, ended.reason, ended.batch_id, ended.covered)
            self.store.run(append(log, entry))

    def log(self) -> Log:
        return self.store.run(read_log())

    def known(self, marks: Collection[str] = STATE, host: str = "here") -> bool:
        return previous_end_is_known(self.log(), host, host, marks)


CLEAN = Ended(0, 0, clean=True, reason="batch 9: bad", batch_id=9)
COVERED = Ended(0, 0, clean=True, covered=True)


@pytest.fixture
def lives() -> Lives:
    return Lives()


def test_of_nobody_everything_is_known(lives: Lives) -> None:
    assert lives.known()
    assert lives.known(frozenset())
    lives.live(starts=False)
    assert lives.known(frozenset())


def test_with_the_log_in_the_state_the_same_kernel_knows(lives: Lives) -> None:
    lives.live()
    assert lives.known()
    assert not lives.known(host="elsewhere")


@pytest.mark.parametrize("end", [CLEAN, COVERED])
def test_with_the_log_in_the_state_everybody_knows_after_a_clean_end(lives: Lives, end: Ended) -> None:
    lives.live(ended=end)
    assert lives.known(host="elsewhere")


def test_the_right_disk_on_the_same_kernel_knows(lives: Lives) -> None:
    lives.live(scratch="a")
    assert lives.known({"a"})
    assert lives.known({"a", "died before it started"})
    assert not lives.known({"a"}, host="rebooted")


def test_another_disk_does_not_know_not_even_on_the_same_kernel(lives: Lives) -> None:
    lives.live(scratch="a")
    assert not lives.known(frozenset())
    assert not lives.known({"b"})
    assert not lives.known(STATE), "a state that was copied out of a bucket has no arrival log beside it"


def test_a_state_that_was_copied_into_a_bucket_leaves_its_arrival_log_behind(lives: Lives) -> None:
    lives.live(sync_ms=0)
    assert not lives.known({"a"})


def test_an_old_disk_does_not_know_what_was_done_on_another_one_meanwhile(lives: Lives) -> None:
    lives.live(scratch="a")
    lives.live(scratch="b")
    assert not lives.known({"a"})
    assert lives.known({"b"})


def test_a_clean_end_without_a_last_checkpoint_needs_its_disk(lives: Lives) -> None:
    lives.live(scratch="a", ended=CLEAN)
    assert not lives.known(frozenset())
    assert lives.known({"a"}, host="rebooted")


def test_an_end_that_a_checkpoint_covers_needs_no_disk(lives: Lives) -> None:
    lives.live(scratch="a", commits=True, ended=COVERED)
    assert lives.known(frozenset(), host="elsewhere")
    lives.live(scratch="b")
    assert not lives.known(frozenset(), host="elsewhere"), "it is the end of the last one that counts"


def test_with_every_burst_kept_in_the_store_no_disk_is_needed(lives: Lives) -> None:
    lives.live(scratch="a", sync_ms=0)
    assert lives.known(frozenset(), host="elsewhere")


def test_every_burst_must_be_kept_by_all_since_the_last_checkpoint(lives: Lives) -> None:
    lives.live(scratch="a", sync_ms=1000)
    lives.live(scratch="a2", sync_ms=0)
    assert not lives.known(frozenset()), "what the first one had on the disk is gone with it"
    lives.live(scratch="a3", sync_ms=0, commits=True)
    assert lives.known(frozenset())
    lives.live(scratch="a4", sync_ms=0)
    assert lives.known(frozenset())
    lives.live(scratch="a5", sync_ms=1000)
    assert not lives.known(frozenset())


def test_whose_arrival_log_is_here(lives: Lives) -> None:
    assert arrivals_here(lives.log(), STATE) is None
    lives.live(scratch="a")
    assert arrivals_here(lives.log(), {"a", "b"}) == "a"
    assert arrivals_here(lives.log(), {"b"}) is None
    lives.live(starts=False)
    assert arrivals_here(lives.log(), {"a"}) == "a", "who died before it started has not written"
