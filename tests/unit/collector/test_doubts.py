"""The note of what is in doubt: never too little, never too much, written before a batch goes out."""

from __future__ import annotations

import pytest

from edgesocket.collector.doubts import (
    MAX_DOUBT,
    MAX_RANGES,
    MAX_WINDOW,
    NOTE_AHEAD,
    NOTE_EVERY,
    SYNC_EVERY,
    DoubtNote,
    Doubts,
)
from edgesocket.collector.retention import Retention
from edgesocket.collector.window import WindowLimits
from edgesocket.ids import MAX_BATCH_ID, IdRanges
from edgesocket.protocol.replies import RECEIVED

FIRST = 1_700_000_000_000_000


class Notes(list[tuple[str, bool]]):
    """What was remembered."""

    def remember(self, text: str, durable: bool) -> None:
        self.append((text, durable))


def started(text: str = "") -> tuple[Retention, Doubts, Notes]:
    notes = Notes()
    retention = Retention(WindowLimits(batches=MAX_WINDOW), commit=True)
    doubts = Doubts(text, notes.remember)
    if text:
        retention.resume(FIRST, doubts.note.open_from, doubts.note.ranges)
    else:
        retention.missing(1, FIRST - 1)
    return retention, doubts, notes


def send(retention: Retention, doubts: Doubts, first: int, count: int) -> int:
    """Send as much of it as is admitted."""
    last = doubts.admit(first, first + count - 1, retention)
    if last >= first:
        retention.sent(first, last - first + 1, 1)
    return max(0, last - first + 1)


def test_a_note_is_read_as_it_was_written() -> None:
    note = DoubtNote(500, IdRanges([(3, 9), (20, 20)]))
    assert note.encode() == "doubt1 500 3-9 20-20"
    assert DoubtNote.parse(note.encode()) == note
    assert DoubtNote.parse(DoubtNote(7).encode()) == DoubtNote(7)


@pytest.mark.parametrize(
    "text", ["", "doubt1", "doubt1 ", "doubt1 x", "doubt1 5 3", "doubt1 5 3-4-5", "doubt2 5", "\x00"]
)
def test_what_is_no_note_puts_everything_in_doubt(text: str) -> None:
    assert DoubtNote.parse(text) == DoubtNote(1)
    assert DoubtNote.parse(text).covered_to(1) == MAX_BATCH_ID


def test_a_note_says_up_to_where_it_covers() -> None:
    note = DoubtNote(500, IdRanges([(3, 9)]))
    assert [note.covered_to(id_) for id_ in (2, 3, 9, 10, 499)] == [1, 9, 9, 9, 498]
    assert note.covered_to(500) == MAX_BATCH_ID


def test_doubts_that_reach_the_newest_batch_lower_the_beginning() -> None:
    assert DoubtNote.of(IdRanges([(3, 9), (15, 19)]), 20) == DoubtNote(15, IdRanges([(3, 9)]))
    assert DoubtNote.of(IdRanges(), 20) == DoubtNote(20)


def test_a_note_stays_short_and_covers_all_the_same() -> None:
    many = IdRanges((n, n) for n in range(1, 2000, 2))
    note = DoubtNote.of(many, 5000)
    assert len(note.ranges) == MAX_RANGES
    assert len(note.encode()) < 4096
    assert len(DoubtNote.of(IdRanges((FIRST + n, FIRST + n) for n in range(1, 2000, 2)), FIRST * 2).encode()) < 4096
    assert all(note.covered_to(n) >= n for n in range(1, 2000, 2))


def test_the_first_batch_makes_the_note_durable() -> None:
    retention, doubts, notes = started()
    assert send(retention, doubts, FIRST, 1) == 1
    assert notes == [(f"doubt1 {FIRST}", True)]


def test_also_where_the_note_that_was_found_says_the_same() -> None:
    """It may not have outlived a loss of power."""
    retention, doubts, notes = started(f"doubt1 {FIRST}")
    assert send(retention, doubts, FIRST, 1) == 1
    assert notes == [(f"doubt1 {FIRST}", True)]


def test_a_note_is_written_now_and_then_and_made_durable_more_rarely() -> None:
    retention, doubts, notes = started()
    for first in range(FIRST, FIRST + 200_000, 1000):
        assert send(retention, doubts, first, 1000) == 1000
        retention.answered(first, 1000, RECEIVED, 0.0)
    assert 200_000 // NOTE_EVERY - 4 <= len(notes) <= 200_000 // NOTE_EVERY + 4
    assert 200_000 // SYNC_EVERY <= sum(durable for _, durable in notes) <= 200_000 // SYNC_EVERY + 2


def test_with_a_full_window_no_more_than_the_bound_is_ever_in_doubt_on_disk() -> None:
    retention, doubts, notes = started()
    sent = answered = FIRST
    for _ in range(400):
        while sent - answered < MAX_WINDOW:
            sent += send(retention, doubts, sent, 1000)
            durable = [DoubtNote.parse(text) for text, is_durable in notes if is_durable]
            assert sent - durable[-1].open_from <= MAX_DOUBT
        retention.answered(answered, 1000, RECEIVED, 0.0)
        answered += 1000
    assert len(notes) < 100


def test_sending_waits_where_too_much_would_be_in_doubt() -> None:
    retention, doubts, _ = started()
    retention_sent = 0
    while count := send(retention, doubts, FIRST + retention_sent, 1000):
        retention_sent += count
    assert retention_sent == MAX_DOUBT


def test_batches_that_go_out_again_are_put_in_doubt_first_and_durably() -> None:
    retention, doubts, notes = started(f"doubt1 {FIRST + 100_000}")
    assert send(retention, doubts, FIRST, 500) == 500
    assert notes == [(f"doubt1 {FIRST + 100_000} {FIRST}-{FIRST + NOTE_AHEAD - 1}", True)]
    retention.answered(FIRST, 500, RECEIVED, 0.0)
    assert send(retention, doubts, FIRST + 500, NOTE_AHEAD) == NOTE_AHEAD - 500
    assert len(notes) == 1
    assert send(retention, doubts, FIRST + NOTE_AHEAD, 10) == 10
    assert notes[-1] == (f"doubt1 {FIRST + 100_000} {FIRST + 500}-{FIRST + 2 * NOTE_AHEAD - 1}", True)


def test_a_batch_that_goes_out_again_above_the_beginning_stays_in_doubt_when_a_note_is_written() -> None:
    retention, doubts, _ = started()
    for n in range(NOTE_EVERY + 10):
        send(retention, doubts, FIRST + n, 1)
    retention.answered(FIRST, NOTE_EVERY + 10, RECEIVED, 0.0)
    retention.send_all_again()
    send(retention, doubts, FIRST, NOTE_EVERY + 5)
    retention.answered(FIRST, NOTE_EVERY + 5, RECEIVED, 0.0)
    again = FIRST + NOTE_EVERY + 5
    assert send(retention, doubts, again, 1) == 1
    assert doubts.note.covered_to(again) >= again


def test_where_no_note_can_be_written_nothing_goes_out() -> None:
    def full(text: str, durable: bool) -> None:
        raise OSError(28, "No space left on device")

    retention = Retention(WindowLimits(), commit=True)
    doubts = Doubts("", full)
    with pytest.raises(OSError, match="No space"):
        doubts.admit(1, 5, retention)
    assert doubts.note == DoubtNote(1)
