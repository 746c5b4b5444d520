"""Driving an input as the intake thread does, with a clock that only moves when told."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

from edgesocket.collector.intake.contract import Input, Intake

BUDGET = 256 * 1024


class Driver:
    """One input and what it gave. The clock stands still between `wait` and `tick`."""

    def __init__(self, subject: Input, marks: dict[str, str] | None = None) -> None:
        self.input = subject
        self.now = 1000.0
        self.records: list[bytes] = []
        self.open_intakes: list[Intake] = []
        self.closed = False
        subject.open(marks or {}, self.now)

    def round(self, budget: int = BUDGET, *, full: bool = False, store: bool = True) -> bool:
        """One round; `full`: only discovery. Whether something was read."""
        self.input.discover(self.now)
        if full:
            return False
        intake = self.input.read(budget, self.now)
        if intake is None:
            return False
        self.records += intake.lines
        if store:
            self.input.stored(intake, self.now)
        else:
            self.open_intakes.append(intake)
        return True

    def store(self) -> None:
        """What was read before is durable."""
        for intake in self.open_intakes:
            self.input.stored(intake, self.now)
        self.open_intakes.clear()

    def tick(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def until(self, condition: Callable[[], Any], timeout_s: float = 10.0, **how: Any) -> Any:
        """Rounds, woken by descriptors, until the condition holds; returns what it returned."""
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"it did not happen; records: {self.records[:5]}"
            if not self.round(**how):
                poller = select.poll()
                for descriptor in self.input.descriptors():
                    poller.register(descriptor, select.POLLIN)
                poller.poll(10)
        return found

    def close(self) -> list[bytes]:
        """Close; returns what was left over."""
        self.closed = True
        intake = self.input.close(self.now)
        return [] if intake is None else intake.lines

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.closed:
            self.close()
