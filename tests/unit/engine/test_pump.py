"""The pump between rows: sinks are flushed in time, and what runs comes to an end when the job has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgesocket.engine import pump as pump_module
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.pump import END_LOOK_S, Pump
from edgesocket.errors import StoreError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Standing:
    stop_requested = False

    def raise_failure(self) -> None: ...


class Parts:
    """Source, sinks, checkpoints and watch of a pump, as far as it asks for them."""

    under_way = False
    deciding = None
    last_failure = ""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.standing = Standing()
        self.waits: list[float] = []
        self.flushes: list[float] = []
        self.letters: list[float] = []
        self.advances = 0
        self.ends_after: int | None = None
        self.failure: Exception | None = None
        self.ended_early = 0
        self.ends_run_at = 101.0

    def poll(self, timeout_s: float) -> list[Any]:
        self.waits.append(timeout_s)
        self.clock.now += timeout_s
        self.standing.stop_requested = self.clock.now >= self.ends_run_at
        return []

    def write_letters(self, meanwhile: Any) -> None:
        self.letters.append(self.clock.now)

    def flush(self) -> None:
        self.flushes.append(self.clock.now)

    def seconds_until_due(self, now: float) -> float:
        return 60.0

    def advance(self, now: float, *, may_begin: bool = True) -> bool:
        self.advances += 1
        if self.failure is not None:
            raise self.failure
        if self.ends_after is not None and self.advances >= self.ends_after:
            self.under_way = False
        return False

    def end_early(self, now: float) -> bool:
        self.ended_early += 1
        return True


class Idle:
    """A watch with nothing to look at."""

    period_s = 1.0

    under_way = False

    def rows_came(self, came: bool) -> None: ...

    def advance(self, now: float, *, may_begin: bool) -> bool:
        return False


def _pump(parts: Parts, **plan: Any) -> Pump:
    unused: Any = None
    any_parts: Any = parts
    idle: Any = Idle()
    standing: Any = parts.standing
    job = JobPlan("job", Path(), "in", unused, (), **plan)
    return Pump(job, any_parts, any_parts, any_parts, idle, standing, parts.clock)


def test_sinks_are_flushed_with_a_fixed_delay_and_the_pump_does_not_sleep_over_it() -> None:
    parts = Parts(Clock())
    parts.ends_run_at = 101.05
    _pump(parts, flush_interval_s=0.25).run()
    assert parts.flushes == pytest.approx([100.25, 100.5, 100.75, 101.0])
    assert max(parts.waits) <= 0.25


def test_rows_that_a_flush_refuses_do_not_wait_for_the_next_ones() -> None:
    parts = Parts(Clock())
    parts.ends_run_at = 101.05
    _pump(parts, flush_interval_s=0.25).run()
    assert all(parts.letters.count(at) == 2 for at in parts.flushes), "once for what came before it, once for its own"


def test_without_an_interval_nothing_is_flushed() -> None:
    parts = Parts(Clock())
    _pump(parts).run()
    assert parts.flushes == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pump_module.time, "sleep", clock.sleep)
    return clock


def test_a_checkpoint_that_ends_in_time_is_waited_for(clock: Clock) -> None:
    parts = Parts(clock)
    parts.under_way, parts.ends_after = True, 5
    _pump(parts).end_what_runs(print)
    assert parts.advances == 5
    assert clock.now < 100 + END_LOOK_S


def test_one_that_does_not_is_ended_early(clock: Clock) -> None:
    parts = Parts(clock)
    parts.under_way = True
    _pump(parts).end_what_runs(print)
    assert parts.ended_early == 1
    assert clock.now == pytest.approx(100 + END_LOOK_S, abs=0.01)


def test_one_that_fails_too_does_not_hide_the_first_failure(clock: Clock) -> None:
    parts = Parts(clock)
    parts.under_way, parts.failure = True, StoreError("disk")
    reports: list[str] = []
    _pump(parts).end_what_runs(lambda event: reports.append(str(event)))
    assert parts.ended_early == 1
    assert reports == ["what was under way has failed too: disk"]
