"""Writing with patience: what a failing sink does not take is offered to it again, until somebody says stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgesocket.checkpoint.recovery import Recovered
from edgesocket.components.sink import CommitRole, Manifest, RejectedRow, SinkContext
from edgesocket.engine import sink_group
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.engine.sink_group import SinkGroup
from edgesocket.errors import BadRecordError, ComponentError, RuleBrokenError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows, text_schema

ROWS = Rows.of_records(RecordBlock.of_payloads([1], [b"a"]))


class FlakySink:
    """Raises what is in `errors`, one a write; takes the rows when there is nothing left."""

    commit_role = CommitRole.NONE

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.taken: list[Rows] = []

    def open(self, context: SinkContext) -> None: ...

    def write(self, rows: Rows) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(rows)

    def prepare(self, checkpoint: int) -> Manifest:
        return {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None: ...

    def close(self) -> None: ...


class Clock:
    """Moves only when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(sink_group.time, "sleep", self.sleep)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def _group(clock: Clock, *sinks: FlakySink, give_up_s: float = 600.0) -> tuple[SinkGroup, list[str]]:
    reports: list[str] = []
    plans = tuple(SinkPlan(f"sink-{n}", lambda sink=sink: sink) for n, sink in enumerate(sinks))  # type: ignore[misc]
    unused: Any = None
    plan = JobPlan("job", Path(), "source", unused, plans, give_up_s=give_up_s)
    group = SinkGroup(plan, lambda event: reports.append(str(event)), clock)
    group.make()
    group.connect(text_schema())
    return group, reports


class RefusingSink(FlakySink):
    """Refuses every row for good: as it is written, or only when it prepares."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__()
        self.late = late

    def open(self, context: SinkContext) -> None:
        self.context = context

    def write(self, rows: Rows) -> None:
        self.taken.append(rows)
        if not self.late:
            self._refuse()

    def prepare(self, checkpoint: int) -> Manifest:
        if self.late:
            self._refuse()
        return {}

    def _refuse(self) -> None:
        self.context.reject(RejectedRow(1, "no room", b"a"))


class PreparedSink(FlakySink):
    """Remembers how many rows it had when it prepared."""

    had = -1

    def prepare(self, checkpoint: int) -> Manifest:
        self.had = len(self.taken)
        return {}


def _with_dead_letters(clock: Clock, sink: FlakySink, *, to_dead_letter: bool) -> tuple[SinkGroup, PreparedSink]:
    letters = PreparedSink()
    unused: Any = None
    plans = (SinkPlan("sink", lambda: sink, rejects_to_dead_letter=to_dead_letter),)
    dead_letter = SinkPlan("dead_letter", lambda: letters)
    group = SinkGroup(JobPlan("job", Path(), "source", unused, plans, dead_letter=dead_letter), print, clock)
    group.connect(text_schema())
    group.make()
    group.open_others(1, Recovered(), {})
    return group, letters


@pytest.mark.parametrize("late", [False, True])
def test_a_refused_row_is_a_dead_letter_of_the_same_checkpoint(clock: Clock, late: bool) -> None:
    group, letters = _with_dead_letters(clock, RefusingSink(late=late), to_dead_letter=True)
    group.write(ROWS, _always)
    group.prepare(1)
    assert letters.had == 1
    row = letters.taken[0].batch.to_pylist()[0]
    assert (row["batch_id"], row["origin"], row["reason"], row["payload"]) == (1, "sink", "no room", "a")
    assert group.dead_letters == 1


def test_a_refused_row_ends_a_job_that_says_fail(clock: Clock) -> None:
    group, letters = _with_dead_letters(clock, RefusingSink(), to_dead_letter=False)
    with pytest.raises(BadRecordError, match="no room"):
        group.write(ROWS, _always)
    assert letters.taken == []


def _always() -> bool:
    return True


def test_a_write_that_fails_is_repeated_until_it_succeeds(clock: Clock) -> None:
    good, flaky = FlakySink(), FlakySink(*[ComponentError("disk full")] * 5)
    group, reports = _group(clock, good, flaky)

    group.write(ROWS, _always)

    assert good.taken == flaky.taken == [ROWS], "once each"
    assert clock.now == pytest.approx(1005, abs=0.5)
    assert group.failing_since is None
    assert len(reports) == 2, "when it begins, and when it ends"
    assert "disk full" in reports[0]
    assert "sink-1" in reports[0]


def test_what_no_retry_can_heal_is_raised_at_once(clock: Clock) -> None:
    for error in (
        ComponentError("gone", retryable=False),
        ComponentError("unsure", reopen=True),
        BadRecordError(1, "bad"),
    ):
        group, _ = _group(clock, FlakySink(error))
        with pytest.raises(type(error)):
            group.write(ROWS, _always)
        assert clock.now == 1000


def test_it_gives_up_after_a_while(clock: Clock) -> None:
    group, _ = _group(clock, FlakySink(*[ComponentError("disk full")] * 100), give_up_s=10)
    with pytest.raises(ComponentError, match="disk full"):
        group.write(ROWS, _always)
    assert clock.now == pytest.approx(1010, abs=1.1)


def test_it_stops_when_it_is_told(clock: Clock) -> None:
    looks: list[float] = []

    def meanwhile() -> bool:
        looks.append(clock.now)
        return len(looks) < 30

    group, _ = _group(clock, FlakySink(*[ComponentError("disk full")] * 100))
    with pytest.raises(ComponentError):
        group.write(ROWS, meanwhile)
    assert len(looks) == 30
    assert looks[-1] - looks[0] < 2, "it looks many times a second"


def test_what_meanwhile_raises_ends_it(clock: Clock) -> None:
    def meanwhile() -> bool:
        raise KeyError

    group, _ = _group(clock, FlakySink(ComponentError("disk full")))
    with pytest.raises(KeyError):
        group.write(ROWS, meanwhile)


class HoldingSink(FlakySink):
    """Holds rows back until it is flushed."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.held: list[Rows] = []
        self.flush_errors = list(errors)

    def write(self, rows: Rows) -> None:
        self.held.append(rows)

    def flush(self) -> None:
        if self.flush_errors:
            raise self.flush_errors.pop(0)
        self.taken, self.held = self.taken + self.held, []


def test_a_flush_reaches_the_sinks_that_hold_rows_back_and_leaves_the_others_alone(clock: Clock) -> None:
    holding, plain = HoldingSink(), FlakySink()
    group, _ = _group(clock, holding, plain)
    group.write(ROWS, _always)
    assert holding.taken == []
    group.flush()
    assert holding.taken == [ROWS]


def test_a_flush_that_fails_is_tried_again_and_told_of_once(clock: Clock) -> None:
    holding, plain = HoldingSink(ComponentError("down"), ComponentError("down")), FlakySink()
    group, reports = _group(clock, holding, plain)
    group.write(ROWS, _always)
    group.flush()
    group.write(ROWS, _always)  # both take it, which says nothing of what is held back
    group.flush()
    assert group.failing_since is not None
    assert holding.taken == []
    group.flush()
    assert group.failing_since is None
    assert holding.taken == [ROWS, ROWS]
    assert [report.split(" ")[1] for report in reports] == ["sink-0", "sink-0"], "when it begins, and when it ends"


@pytest.mark.parametrize("error", [ComponentError("no", retryable=False), ComponentError("no", reopen=True)])
def test_a_flush_that_no_repetition_heals_ends_the_incarnation(clock: Clock, error: ComponentError) -> None:
    group, _ = _group(clock, HoldingSink(error))
    with pytest.raises(ComponentError):
        group.flush()


class ClosingSink(FlakySink):
    """Raises when it is closed."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        if self.error:
            raise self.error


def test_a_broken_rule_is_told_apart_from_trouble_with_closing_and_every_sink_is_closed_once(clock: Clock) -> None:
    broken = RuleBrokenError("too few")
    sinks = [ClosingSink(ComponentError("gone")), ClosingSink(broken), ClosingSink(None)]
    group, reports = _group(clock, *sinks)
    assert group.close() == [broken]
    assert group.close() == []
    assert [sink.closed for sink in sinks] == [1, 1, 1]
    assert reports == ["closing sink sink-0: gone"]


def test_the_transforms_are_closed_with_the_sinks(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    group, _ = _group(clock, FlakySink())
    closed: list[bool] = []
    monkeypatch.setattr(group._pipeline, "close", lambda: closed.append(True))
    group.close()
    assert closed == [True]
