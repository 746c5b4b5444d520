"""Notes in the state store: kept before they are answered, found by the next machine, gone once they are covered."""

from __future__ import annotations

import pytest

from edgesocket.checkpoint.arrival_log import BurstEncoder, decode_segment
from edgesocket.checkpoint.effects import Create, List
from edgesocket.engine.stored_notes import REMOVALS_AT_ONCE, StoredNotes
from edgesocket.errors import StoreError
from edgesocket.testing.memory_store import Fault, MemoryStore


def burst(first_sequence: int, id_: int) -> bytes:
    return BurstEncoder(first_sequence).accepted(id_, id_)


def names(store: MemoryStore) -> list[str]:
    found: list[str] = store.perform(List("arrivals"))  # type: ignore[assignment]
    return found


def test_what_is_kept_is_a_segment_that_the_next_incarnation_finds() -> None:
    store = MemoryStore()
    StoredNotes(store, epoch=3, oldest_epoch=1).keep(7, 7, burst(7, 40))
    [(name, data)] = StoredNotes(store, epoch=4, oldest_epoch=1).kept()
    assert name == f"{3:020d}-{7:020d}.log"
    segment = decode_segment(data)
    assert (segment.epoch, segment.first_sequence, [event.lo for event in segment.events]) == (3, 7, [40])


def test_the_same_call_again_does_no_harm_and_other_notes_of_the_same_number_are_refused() -> None:
    store = MemoryStore({0: Fault.UNKNOWN})
    notes = StoredNotes(store, epoch=1, oldest_epoch=1)
    with pytest.raises(StoreError):
        notes.keep(1, 1, burst(1, 5))
    notes.keep(1, 1, burst(1, 5))
    with pytest.raises(StoreError, match="other notes"):
        notes.keep(1, 1, burst(1, 6))


def test_notes_of_incarnations_before_the_checkpoint_are_part_of_it() -> None:
    store = MemoryStore()
    for epoch in (1, 2, 3):
        StoredNotes(store, epoch, oldest_epoch=1).keep(epoch, epoch, burst(epoch, epoch))
    store.perform(Create("arrivals/not one of ours", b""))
    notes = StoredNotes(store, epoch=4, oldest_epoch=2)
    assert [name[:20] for name, _ in notes.kept()] == [f"{2:020d}", f"{3:020d}"]
    assert notes.forget_through(0) is False
    assert names(store) == ["arrivals/not one of ours"], "a completed checkpoint covers all earlier incarnations"


def test_own_notes_go_when_a_checkpoint_covers_their_last_number() -> None:
    store = MemoryStore()
    notes = StoredNotes(store, epoch=1, oldest_epoch=1)
    notes.keep(1, 3, burst(1, 1))
    notes.keep(4, 4, burst(4, 4))
    notes.forget_through(2)
    assert len(names(store)) == 2
    notes.forget_through(3)
    assert names(store) == [f"arrivals/{1:020d}-{4:020d}.log"]


def test_one_call_removes_a_few_and_one_that_fails_is_made_up_for() -> None:
    store = MemoryStore()
    notes = StoredNotes(store, epoch=1, oldest_epoch=1)
    for sequence in range(1, REMOVALS_AT_ONCE + 11):
        notes.keep(sequence, sequence, burst(sequence, sequence))
    store.faults[len(store.effects)] = Fault.REFUSED
    with pytest.raises(StoreError):
        notes.forget_through(1000)
    assert notes.forget_through(1000) is True
    assert len(names(store)) == 10
    assert notes.forget_through(1000) is False
    assert names(store) == []
