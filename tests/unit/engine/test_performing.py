"""A procedure stepped by the pump: what is slow runs on the store thread, and the pump is never held up by it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from edgesocket.engine.performing import Beside, ProcedureRun
from edgesocket.errors import ComponentError


class Pump:
    """Steps a procedure whose only effect leaves work to do."""

    def __init__(self, executor: ThreadPoolExecutor, error: Exception | None = None) -> None:
        self.begun, self.go_on, self.woken = threading.Event(), threading.Event(), threading.Event()
        self.worked_on: int | None = None
        self.error = error
        self.run = ProcedureRun(self._procedure(), self._here, lambda _: None, executor, self.woken.set)

    def _procedure(self) -> Generator[Any, Any, Any]:
        try:
            answer = yield "an effect"
        except ComponentError as error:
            return f"caught {error}"
        return answer

    def _here(self, effect: Any) -> Any:
        assert effect == "an effect"
        return Beside("its result", self._work)

    def _work(self) -> None:
        self.worked_on = threading.get_ident()
        self.begun.set()
        assert self.go_on.wait(10)
        if self.error is not None:
            raise self.error


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_work_beside_the_pump_does_not_hold_it_up_and_its_result_counts_when_it_is_done(
    executor: ThreadPoolExecutor,
) -> None:
    pump = Pump(executor)
    assert not pump.run.advance(1.0)
    assert pump.begun.wait(10)
    assert not pump.run.advance(2.0), "the work is under way"
    pump.go_on.set()
    assert pump.woken.wait(10)
    assert pump.run.advance(3.0)
    assert pump.run.result == "its result"
    assert pump.worked_on not in (None, threading.get_ident())


def test_what_the_work_raises_is_thrown_into_the_procedure(executor: ThreadPoolExecutor) -> None:
    pump = Pump(executor, ComponentError("the disk is gone"))
    assert not pump.run.advance(1.0)
    pump.go_on.set()
    assert pump.woken.wait(10)
    assert pump.run.advance(2.0)
    assert pump.run.result == "caught the disk is gone"


def test_before_there_is_a_pump_the_work_is_done_at_once() -> None:
    done: list[bool] = []
    assert Beside("its result", lambda: done.append(True)).done_here() == "its result"
    assert done == [True]
