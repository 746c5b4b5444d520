"""The rounds of the intake thread: what is stored when, and what happens while the spool is full or fails."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence

import pytest

from edgesocket.collector.agent_intake import MOST_DRAIN_BYTES, QUIET_S, REOPEN_S, IntakeLoop
from edgesocket.collector.agent_writer import LEAST_ROOM_BYTES, TRY_AGAIN_S, Feed, WriterOptions
from edgesocket.collector.intake.contract import Intake
from edgesocket.errors import CollectorError, SpoolFullError


class FakeSpool:
    """A spool in memory that can be told to fail."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.marks: dict[str, str] = {}
        self.room = room
        self.lines: list[bytes] = []
        self.synced = 0
        self.durable_marks: dict[str, str] = {}
        self.syncs = 0
        self.append_error: Exception | None = None
        self.sync_error: OSError | None = None

    def room_bytes(self) -> int:
        return self.room

    def append(self, lines: list[bytes], marks: dict[str, str]) -> object:
        if self.append_error is not None:
            raise self.append_error
        self.lines += lines
        self.marks = {**self.marks, **marks}
        return None

    def sync(self, now: float) -> object:
        self.syncs += 1
        if self.sync_error is not None:
            raise self.sync_error
        self.synced = len(self.lines)
        self.durable_marks = self.marks
        return None


class FakeInput:
    """An input that gives what it was told to."""

    def __init__(self, name: str = "in", *given: Sequence[bytes]) -> None:
        self.name = name
        self.given = [list(lines) for lines in given]
        self.counts: dict[str, int] = {"odd": 1}
        self.calls: list[str] = []
        self.stored_lines: list[bytes] = []
        self.open_error: CollectorError | None = None
        self.marks: dict[str, str] = {}
        self.at_close: list[bytes] = []
        self.ended = False
        self.read_bytes = 0
        self.on_read: list[str] = []

    def open(self, marks: Mapping[str, str], now: float) -> None:
        self.calls.append("open")
        if self.open_error is not None:
            raise self.open_error
        self.marks = dict(marks)

    def descriptors(self) -> Sequence[int]:
        return []

    def next_time(self, now: float) -> float | None:
        return None

    def discover(self, now: float) -> None:
        self.calls.append("discover")

    def read(self, budget_bytes: int, now: float) -> Intake | None:
        self.calls.append("read")
        if not self.given:
            return None
        lines = self.given.pop(0)
        self.read_bytes += sum(map(len, lines))
        return Intake(lines, {f"{self.name}/a": str(self.read_bytes)})

    def stored(self, intake: Intake, now: float) -> None:
        self.stored_lines += intake.lines

    def close(self, now: float) -> Intake | None:
        self.calls.append("close")
        return Intake(self.at_close) if self.at_close else None


class Kit:
    """A loop with its surroundings."""

    def __init__(self, *inputs: FakeInput, rereadable: bool = False, **options: object) -> None:
        self.spool = FakeSpool()
        self.now = 100.0
        self.said: list[str] = []
        self.wakes = 0
        self.loop = IntakeLoop(
            self.spool,
            [Feed(one, "fake", rereadable=rereadable) for one in inputs],
            on_durable=self._woken,
            report=self.said.append,
            clock=lambda: self.now,
            drain_timeout_s=0.0,
            **options,  # type: ignore[arg-type]
        )

    def _woken(self) -> None:
        self.wakes += 1


@pytest.fixture
def kits() -> Iterator[list[Kit]]:
    made: list[Kit] = []
    yield made
    for kit in made:
        kit.loop.close()


def opened(kits: list[Kit], *inputs: FakeInput, **options: object) -> Kit:
    kit = Kit(*inputs, **options)  # type: ignore[arg-type]
    kits.append(kit)
    kit.loop.open()
    return kit


def test_inputs_are_told_after_one_sync_for_all(kits: list[Kit]) -> None:
    one, two = FakeInput("one", [b"a"], [b"b"]), FakeInput("two", [b"c"])
    kit = opened(kits, one, two)
    assert kit.loop.round()
    assert kit.spool.lines == [b"a", b"c", b"b"], "each has its turn"
    assert kit.spool.syncs == 1
    assert (one.stored_lines, two.stored_lines) == ([b"a", b"b"], [b"c"])
    assert kit.wakes == 1
    assert not kit.loop.round()
    assert kit.spool.syncs == 1, "nothing was appended"


def test_an_input_begins_behind_its_own_marks(kits: list[Kit]) -> None:
    kit = Kit(subject := FakeInput("app"))
    kits.append(kit)
    kit.loop.writer._marks = {"app/x": "1", "app2/x": "2", "ap/x": "3"}
    kit.loop.open()
    assert subject.marks == {"app/x": "1"}


def test_while_the_spool_is_full_there_is_only_discovery(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"])
    kit = opened(kits, subject)
    kit.spool.room = LEAST_ROOM_BYTES - 1
    subject.calls.clear()
    for _ in range(3):
        assert not kit.loop.round()
    assert subject.calls == ["discover"] * 3
    assert kit.loop.writer.full_since == 100.0
    assert len(kit.said) == 1, "said once"
    kit.now += 7
    kit.spool.room = 1 << 30
    assert kit.loop.round()
    assert kit.loop.writer.full_since is None
    assert "7 s" in kit.said[1]


def test_an_intake_that_found_no_room_is_kept_and_appended_once(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"], [b"b"])
    kit = opened(kits, subject)
    kit.spool.append_error = SpoolFullError("full")
    kit.loop.round()
    kit.loop.round()
    assert subject.given == [[b"b"]], "nothing more was read"
    kit.spool.append_error = None
    kit.loop.round()
    assert kit.spool.lines == [b"a", b"b"]
    assert subject.stored_lines == [b"a", b"b"]


def test_a_full_disk_is_said_since_when_and_ends_by_itself(kits: list[Kit]) -> None:
    subject, other = FakeInput("in", [b"a"], [b"b"]), FakeInput("other")
    kit = opened(kits, subject, other)
    kit.spool.append_error = OSError(errno.ENOSPC, "No space left on device")
    kit.loop.round()
    assert (kit.loop.writer.failing_since, kit.loop.writer.failure) == (100.0, "No space left on device")
    subject.calls.clear()
    for _ in range(5):
        kit.loop.round()
    assert subject.calls == ["discover"] * 5, "discovery goes on, nothing is read"
    kit.spool.append_error = None
    kit.loop.round()
    assert kit.spool.lines == [], "tried again only after a while"
    kit.now += TRY_AGAIN_S
    kit.loop.round()
    assert kit.spool.lines == [b"a", b"b"]
    assert kit.loop.writer.failing_since is None
    assert kit.loop.writer.failure == ""
    assert ["No space left" in kit.said[0], "again" in kit.said[1], len(kit.said)] == [True, True, 2]


def test_nobody_is_told_before_a_sync_works_and_nothing_is_appended_twice(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"], [b"b"])
    kit = opened(kits, subject)
    kit.spool.sync_error = OSError(errno.EIO, "Input/output error")
    kit.loop.round()
    kit.now += TRY_AGAIN_S
    kit.loop.round()
    assert subject.stored_lines == []
    assert kit.wakes == 0
    kit.spool.sync_error = None
    kit.now += TRY_AGAIN_S
    kit.loop.round()
    assert subject.stored_lines == [b"a", b"b"]
    assert kit.spool.lines == [b"a", b"b"]


def test_a_spool_that_drops_is_never_full(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"])
    kit = opened(kits, subject, writing=WriterOptions(blocks_when_full=False))
    kit.spool.room = 0
    kit.loop.round()
    assert kit.spool.lines == [b"a"]


def test_a_policy_that_syncs_by_time_is_given_its_time(kits: list[Kit]) -> None:
    kit = opened(kits, FakeInput("in"), writing=WriterOptions(sync_every_s=1.0))
    kit.loop.round()
    kit.loop.round()
    assert kit.spool.syncs == 1
    kit.now += 1.0
    kit.loop.round()
    assert kit.spool.syncs == 2


def test_where_one_input_cannot_open_the_others_are_closed_again(kits: list[Kit]) -> None:
    good, bad = FakeInput("good"), FakeInput("bad")
    bad.open_error = CollectorError("the port is taken")
    kit = Kit(good, bad)
    kits.append(kit)
    with pytest.raises(CollectorError, match="taken"):
        kit.loop.open()
    assert good.calls == ["open", "close"]


def test_inputs_are_replaced_with_what_they_had_in_hand_in_the_spool(kits: list[Kit]) -> None:
    old, new = FakeInput("app"), FakeInput("app", [b"new"])
    old.at_close = [b"begun"]
    kit = opened(kits, old)
    kit.loop.replace([kit.loop.feeds[0]], [Feed(new)])
    kit.loop.round()
    assert kit.spool.lines == [b"begun", b"new"]
    assert old.calls[-1] == "close"
    assert [feed.input for feed in kit.loop.feeds] == [new]


def test_a_replaced_input_goes_on_where_the_old_one_was(kits: list[Kit]) -> None:
    old, new = FakeInput("app", [b"1234"]), FakeInput("app")
    kit = opened(kits, old, rereadable=True)
    kit.loop.round()
    kit.loop.replace([kit.loop.feeds[0]], [Feed(new)])
    kit.loop.round()
    assert new.marks == {"app/a": "4"}


def test_a_new_input_that_cannot_open_is_tried_again_and_shown(kits: list[Kit]) -> None:
    new = FakeInput("new", [b"x"])
    new.open_error = CollectorError("input new: the port is taken")
    kit = opened(kits, FakeInput("in"))
    kit.loop.replace([], [Feed(new)])
    kit.loop.round()
    feed = kit.loop.feeds[1]
    assert feed.problem == "input new: the port is taken"
    new.open_error = None
    kit.loop.round()
    assert new.calls == ["open"]
    kit.now += REOPEN_S
    kit.loop.round()
    assert feed.problem == ""
    kit.loop.round()
    assert kit.spool.lines == [b"x"]


def test_a_stop_reads_what_cannot_be_read_again_and_closes(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"], [b"b"])
    subject.at_close = [b"begun"]
    kit = opened(kits, subject)
    kit.loop.stop()
    kit.loop.run()
    assert kit.spool.lines == [b"a", b"b", b"begun"]
    assert kit.spool.synced == 3
    assert subject.calls[-1] == "close"


def test_a_stop_leaves_in_files_what_is_in_files(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"])
    kit = opened(kits, subject, rereadable=True)
    kit.loop.stop()
    kit.loop.run()
    assert kit.spool.lines == []
    assert subject.calls == ["open", "close"]


def test_a_stream_without_an_end_does_not_keep_a_stop_from_ending(kits: list[Kit]) -> None:
    subject = FakeInput("in", *([b"x" * 100_000] for _ in range(1000)))
    kit = opened(kits, subject)
    kit.loop.stop()
    kit.loop.run()
    assert MOST_DRAIN_BYTES <= subject.read_bytes < MOST_DRAIN_BYTES + 200_000


def test_what_cannot_be_written_at_the_end_is_said_to_be_lost(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a", b"b"])
    kit = opened(kits, subject)
    kit.spool.append_error = OSError(errno.ENOSPC, "No space left on device")
    kit.loop.round()
    kit.loop.stop()
    kit.loop.run()
    assert kit.loop.writer.lost_at_stop == 2
    assert any("2 records" in line and "lost" in line for line in kit.said)


def test_it_ends_by_itself_when_all_inputs_have_ended(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"])
    kit = opened(kits, subject)
    subject.ended = True
    kit.loop.run()
    assert kit.spool.lines == [b"a"]


def test_once_ends_when_nothing_came_for_a_while(kits: list[Kit]) -> None:
    subject = FakeInput("in", [b"a"])
    kit = opened(kits, subject, once=True)
    kit.loop.round()
    assert not kit.loop._all_read()
    kit.now += QUIET_S
    assert kit.loop._all_read()


def test_what_an_input_counts_is_taken_down_for_other_threads(kits: list[Kit]) -> None:
    kit = opened(kits, FakeInput("in"))
    kit.loop.round()
    assert kit.loop.feeds[0].counts == {"odd": 1, "records_left_out": 0}


@pytest.mark.parametrize("error", [ValueError("too large"), SpoolFullError("full")])
def test_a_record_that_never_fits_does_not_hold_up_the_others(kits: list[Kit], error: Exception) -> None:
    subject = FakeInput("in", [b"a", b"x" * 101, b"b"])
    kit = opened(kits, subject, writing=WriterOptions(most_record_bytes=100))
    append = kit.spool.append

    def picky(lines: list[bytes], marks: dict[str, str]) -> object:
        if max(map(len, lines)) > 100:
            raise error
        return append(lines, marks)

    kit.spool.append = picky  # type: ignore[method-assign]
    kit.loop.round()
    assert kit.spool.lines == [b"a", b"b"]
    assert kit.spool.durable_marks == {"in/a": "103"}, "the position goes on"
    assert kit.loop.feeds[0].left_out == 1
    assert "larger than 100 bytes" in kit.said[0]


def test_what_a_spool_refuses_otherwise_is_a_bug(kits: list[Kit]) -> None:
    kit = opened(kits, FakeInput("in", [b"a"]))
    kit.spool.append_error = ValueError("too many marks")
    with pytest.raises(ValueError, match="marks"):
        kit.loop.round()


def test_a_replaced_file_is_read_again_and_not_written_twice(kits: list[Kit]) -> None:
    old, new = FakeInput("app", [b"1234"]), FakeInput("app", [b"1234"])
    kit = opened(kits, old, rereadable=True)
    kit.spool.append_error = OSError(errno.ENOSPC, "No space left on device")
    kit.loop.round()
    kit.loop.replace([kit.loop.feeds[0]], [Feed(new, rereadable=True)])
    kit.loop.round()
    assert new.marks == {}, "what is not in the spool is read again"
    kit.spool.append_error = None
    kit.now += TRY_AGAIN_S
    kit.loop.round()
    assert kit.spool.lines == [b"1234"]


def test_a_replaced_file_goes_on_behind_what_is_in_the_spool_but_not_yet_durable(kits: list[Kit]) -> None:
    old, new = FakeInput("app", [b"1234"]), FakeInput("app")
    kit = opened(kits, old, rereadable=True)
    kit.spool.sync_error = OSError(errno.EIO, "Input/output error")
    kit.loop.round()
    kit.loop.replace([kit.loop.feeds[0]], [Feed(new, rereadable=True)])
    kit.loop.round()
    assert new.marks == {"app/a": "4"}
