"""Who looks for new entries of the commit log: the pump, and while no rows come the housekeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgesocket.checkpoint.effects import List, Read
from edgesocket.checkpoint.entries import Placed, Settle, entry_name
from edgesocket.checkpoint.log_view import Log
from edgesocket.engine.log_watch import GLANCED_WATCH_S, LOG_WATCH_S, QUIET_WATCH_S, LogWatch
from edgesocket.errors import DamagedStateError, StoreError


class Look:
    """A look that finds nothing, and notes what it asked the store for."""

    result: tuple[Any, ...] = ()

    def __init__(self, procedure: Any, takes: int) -> None:
        self.takes = takes
        self.listed = False
        answer: Any = None
        try:
            while True:
                effect = procedure.send(answer)
                self.listed |= isinstance(effect, List)
                answer = None if isinstance(effect, Read) else [entry_name(7)]
        except StopIteration:
            pass

    def advance(self, now: float) -> bool:
        self.takes -= 1
        return self.takes < 0


class Store:
    """A store whose next entry is what `answer` gives."""

    def __init__(self, answer: Callable[[], bytes | None]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def perform(self, effect: Any) -> bytes | None:
        self.asked.append(effect)
        return self.answer()


def raising(error: Exception) -> Callable[[], bytes | None]:
    def answer() -> bytes | None:
        raise error

    return answer


class Watched:
    """A watch on a log with seven entries, whose looks are noted."""

    def __init__(self, *, glances: bool) -> None:
        self.log = Log()
        self.log.head, self.log.epoch = 7, 1
        self.looks: list[Look] = []
        self.takes = 0
        """How often a look has to be moved on before it is over."""
        source: Any = None
        self.watch = LogWatch(self.log, self._begin, source, print, glances=glances)

    def _begin(self, procedure: Any) -> Any:
        self.looks.append(Look(procedure, self.takes))
        return self.looks[-1]

    def looks_until(self, end: float) -> list[float]:
        """Times of the looks, where the pump goes round ten times a second."""
        times = []
        for tenth in range(int(end * 10)):
            before = len(self.looks)
            self.watch.advance(tenth / 10, may_begin=True)
            if len(self.looks) > before:
                times.append(tenth / 10)
        return times


@pytest.mark.parametrize(
    ("glances", "came", "period_s"),
    [
        (False, True, LOG_WATCH_S),
        (False, False, QUIET_WATCH_S),
        (True, True, GLANCED_WATCH_S),
        (True, False, GLANCED_WATCH_S),
    ],
)
def test_how_often_the_pump_looks(glances: bool, came: bool, period_s: float) -> None:
    watched = Watched(glances=glances)
    watched.watch.rows_came(came)
    assert watched.looks_until(3 * period_s + 0.05) == pytest.approx([0.0, period_s, 2 * period_s])


def test_rows_that_come_bring_the_next_look_forward() -> None:
    watched = Watched(glances=False)
    watched.watch.rows_came(False)
    watched.watch.advance(0.0, may_begin=True)
    watched.watch.rows_came(True)
    watched.watch.advance(LOG_WATCH_S, may_begin=True)
    assert len(watched.looks) == 2


def test_looks_that_are_far_apart_list_the_directory_each_time() -> None:
    watched = Watched(glances=True)
    watched.looks_until(2 * GLANCED_WATCH_S)
    assert [look.listed for look in watched.looks] == [True, True]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda: None, False),
        (lambda: b"{}", True),
        (raising(DamagedStateError("log/8.json", "is a directory")), True),
        (raising(StoreError("the disk does not answer")), False),
    ],
    ids=["nothing", "an entry", "an unreadable one", "no answer"],
)
@pytest.mark.parametrize("came", [False, True])
def test_a_glance_that_finds_something_brings_the_next_look_forward(
    answer: Callable[[], bytes | None], found: bool, came: bool
) -> None:
    watched, store = Watched(glances=True), Store(answer)
    watched.watch.rows_came(came)
    watched.watch.advance(0.0, may_begin=True)
    assert watched.watch.glance(store) is found
    assert store.asked == [Read(entry_name(8))]
    watched.watch.advance(1.0, may_begin=True)
    assert len(watched.looks) == (2 if found else 1)
    watched.watch.advance(2.0, may_begin=True)
    assert len(watched.looks) == (2 if found else 1), "once is enough"


def test_what_is_found_while_a_look_runs_gets_a_look_of_its_own() -> None:
    watched, store = Watched(glances=True), Store(lambda: b"{}")
    watched.takes = 1
    assert watched.watch.advance(0.0, may_begin=True), "it is under way"
    assert watched.watch.glance(store)
    watched.watch.advance(0.1, may_begin=True)
    watched.takes = 0
    watched.watch.advance(0.2, may_begin=True)
    assert len(watched.looks) == 2


def test_a_glance_sees_what_a_checkpoint_met_in_the_log() -> None:
    """Its append has moved the head beyond the entry, and nobody has told the source of it."""
    watched, store = Watched(glances=True), Store(lambda: None)
    entry = Settle(0, 1, ((3, 5),), "lost", "ann")
    watched.log.add(Placed(8, entry, "", ""), news=True)
    assert watched.watch.glance(store)
    assert store.asked == []


def test_nobody_glances_where_that_is_dear() -> None:
    watched, store = Watched(glances=False), Store(lambda: b"{}")
    assert not watched.watch.glance(store)
    assert store.asked == []
