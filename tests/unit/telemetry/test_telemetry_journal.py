"""The journal: bounded, numbered, masked, and right about sessions and checkpoints."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from edgesocket.net.events import CollectorConnected, CollectorDisconnected, DisconnectReason, PeerNotAllowed
from edgesocket.telemetry import journal as module
from edgesocket.telemetry.events import CheckpointAborted, CheckpointCompleted, SinkFailed, SinkRecovered
from edgesocket.telemetry.journal import (
    CHECKPOINTS_KEPT,
    LINE_CHARACTERS,
    LINES_A_WINDOW,
    LOG_LINES,
    SESSIONS_KEPT,
    WINDOW_MS,
    CheckpointRecord,
    Journal,
    SessionRecord,
)
from edgesocket.telemetry.masking import Mask


class Clock:
    ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(clock: Clock) -> Journal:
    return Journal(threading.Lock(), clock)


def gone(peer: str, received: int = 5) -> CollectorDisconnected:
    return CollectorDisconnected(peer, DisconnectReason.PEER_CLOSED, "", received, 1)


def test_lines_carry_number_time_level_and_text(journal: Journal, clock: Clock) -> None:
    journal("first")
    clock.ms += 5
    journal(SinkFailed("s", "no room"))
    first, second = journal.lines()
    assert (first.seq, first.time_ms, first.level, first.text) == (1, 1_000_000, "info", "first")
    assert (second.seq, second.time_ms, second.level) == (2, 1_000_005, "warning")
    assert "no room" in second.text
    assert journal.last_seq == 2


def test_lines_after_a_number_are_the_oldest_of_the_newer_ones(journal: Journal) -> None:
    for n in range(1, 11):
        journal(f"line {n}")
    assert [line.seq for line in journal.lines(after=4)] == [5, 6, 7, 8, 9, 10]
    assert [line.seq for line in journal.lines(after=4, limit=2)] == [5, 6]
    assert journal.lines(after=10) == []
    assert journal.lines(after=99) == [], "of an earlier process"
    assert [line.seq for line in journal.lines(after=-3, limit=1)] == [1]


def test_only_the_newest_lines_are_kept(journal: Journal) -> None:
    for n in range(LOG_LINES + 5):
        journal(f"line {n}")
    lines = journal.lines(limit=LOG_LINES * 2)
    assert len(lines) == LOG_LINES
    assert (lines[0].seq, lines[-1].seq) == (6, LOG_LINES + 5)
    assert [line.seq for line in journal.lines(after=2, limit=1)] == [6], "what is gone is passed over"


def test_a_flood_of_one_kind_leaves_the_other_lines_and_is_counted(journal: Journal, clock: Clock) -> None:
    journal("before")
    for n in range(LOG_LINES * 2):
        journal(PeerNotAllowed(f"192.0.2.7:{n}"))
    journal(SinkFailed("s", "no room"))
    assert [line.level for line in journal.lines()] == ["info", *["warning"] * LINES_A_WINDOW, "warning"]
    assert journal.lines()[0].text == "before"
    assert journal.counts()["peer_not_allowed"] == LOG_LINES * 2
    assert [line.seq for line in journal.lines()] == list(range(1, LINES_A_WINDOW + 3)), "without gaps"


@pytest.mark.parametrize("later_ms", [WINDOW_MS, -5], ids=["later", "set-back"])
def test_what_was_left_out_is_said_with_the_next_of_its_kind(journal: Journal, clock: Clock, later_ms: int) -> None:
    for _ in range(LINES_A_WINDOW + 3):
        journal(SinkFailed("s", "no room"))
    clock.ms += later_ms
    journal(SinkFailed("s", "still no room"))
    left_out, last = journal.lines()[-2:]
    assert left_out.text == "(3 more like the next line were left out)"
    assert "still no room" in last.text


def test_a_line_has_a_bound(journal: Journal) -> None:
    journal("x" * (LINE_CHARACTERS * 3))
    assert len(journal.lines()[0].text) == LINE_CHARACTERS


def test_secrets_are_masked_in_lines_and_reasons(clock: Clock) -> None:
    journal = Journal(threading.Lock(), clock, Mask(["s3cret-token"]))
    journal("it said s3cret-token")
    journal(CheckpointAborted(3, 0.5, "s3cret-token is wrong"))
    assert "s3cret-token" not in journal.lines()[0].text
    assert "s3cret-token" not in journal.checkpoints[0].reason


def test_checkpoints_are_remembered_with_when_they_began_and_what_came_of_them(journal: Journal, clock: Clock) -> None:
    journal(CheckpointCompleted(1, 0.25, 100))
    clock.ms += 10_000
    journal(CheckpointAborted(2, 1.5, "the disk is full"))
    assert journal.checkpoints == [
        CheckpointRecord(1, 1_000_000 - 250, 0.25, 100, "completed"),
        CheckpointRecord(2, 1_010_000 - 1500, 1.5, 0, "failed", "the disk is full"),
    ]
    assert journal.lines() == [], "what usually happens is no line"
    assert journal.checkpoint_durations()["count"] == 1, "of those that completed"


def test_only_the_newest_checkpoints_are_kept(journal: Journal) -> None:
    for number in range(CHECKPOINTS_KEPT + 3):
        journal(CheckpointCompleted(number, 0.1, 1))
    assert [record.number for record in journal.checkpoints] == list(range(3, CHECKPOINTS_KEPT + 3))


def test_a_session_is_open_until_its_collector_is_gone(journal: Journal, clock: Clock) -> None:
    journal(CollectorConnected("10.0.0.1:5"))
    open_session = SessionRecord("10.0.0.1:5", 1_000_000)
    assert journal.sessions == [open_session]
    clock.ms += 7
    journal(gone("10.0.0.1:5"))
    reason = str(DisconnectReason.PEER_CLOSED)
    assert journal.sessions == [replace(open_session, ended_ms=1_000_007, reason=reason, received_bytes=5)]


def test_the_end_of_a_session_is_that_of_the_newest_with_its_peer(journal: Journal) -> None:
    for peer in ("a:1", "b:2", "a:1"):
        journal(CollectorConnected(peer))
        if peer != "b:2":
            journal(gone(peer))
    journal(gone("nobody:1"))
    assert [session.ended_ms is None for session in journal.sessions] == [False, True, False]


def test_only_the_newest_sessions_are_kept(journal: Journal) -> None:
    for n in range(SESSIONS_KEPT + 2):
        journal(CollectorConnected(f"a:{n}"))
    assert len(journal.sessions) == SESSIONS_KEPT
    assert journal.sessions[-1].peer == f"a:{SESSIONS_KEPT + 1}"


def test_events_are_counted_by_kind_and_by_level(journal: Journal) -> None:
    journal(SinkFailed("s", "x"))
    journal(SinkFailed("s", "x"))
    journal(SinkRecovered("s", 2))
    journal("a note")
    assert journal.counts() == {"sink_failed": 2, "sink_recovered": 1, "note": 1}
    assert journal.level_counts() == {"debug": 0, "info": 2, "warning": 2, "error": 0}


def test_many_threads_leave_no_gap_in_the_numbers(journal: Journal) -> None:
    threads = [threading.Thread(target=lambda: [journal("x") for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [line.seq for line in journal.lines(limit=LOG_LINES)] == list(range(1, 801))
    assert module.LOG_LINES >= 801
