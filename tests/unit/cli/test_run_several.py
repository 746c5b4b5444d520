"""A process with several jobs: exit codes, and a job that was fenced and never comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from edgesocket.cli import together
from edgesocket.errors import ExitCode, NotOwnerError, StoreError


class FakeJob:
    def __init__(self, name: str, end: Callable[[], int]) -> None:
        self.name = name
        self.run = end
        self.runner = SimpleNamespace(fenced=False)
        self.lines: list[str] = []

    def report(self, line: object) -> None:
        self.lines.append(str(line))


def raising(error: BaseException) -> Callable[[], int]:
    def end() -> int:
        raise error

    return end


def run_all(*jobs: Any) -> int:
    return together.JobsTogether(jobs).run()


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([lambda: 0, lambda: 0], ExitCode.OK),
        ([lambda: 0, lambda: ExitCode.TRY_LATER], ExitCode.TRY_LATER),
        ([raising(StoreError("x")), lambda: ExitCode.TRY_LATER], ExitCode.UNAVAILABLE),
        ([raising(NotOwnerError("x")), lambda: 0], ExitCode.TRY_LATER),
        ([raising(ZeroDivisionError()), raising(StoreError("x"))], ExitCode.BUG),
    ],
)
def test_the_exit_code_is_that_of_the_job_which_fared_worst(ends: list[Callable[[], int]], code: int) -> None:
    jobs = [FakeJob(str(number), end) for number, end in enumerate(ends)]
    assert run_all(*jobs) == code


def test_a_fenced_job_that_does_not_come_back_is_given_up_and_the_others_run_to_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(together, "LOOK_S", 0.01)
    monkeypatch.setattr(together, "FENCED_GRACE_S", 0.01)
    exits: list[int] = []
    monkeypatch.setattr(together.os, "_exit", exits.append)
    given_up, come_back = threading.Event(), threading.Event()

    def stuck() -> int:
        come_back.wait(30)
        return 0

    def others() -> int:
        assert given_up.wait(30), "the fenced job is given up while this one still runs"
        assert exits == [], "and the process goes on"
        return ExitCode.OK

    fenced = FakeJob("fenced", stuck)
    fenced.runner.fenced = True
    fenced.report = lambda line: given_up.set()  # type: ignore[method-assign]
    try:
        assert run_all(fenced, FakeJob("other", others)) == ExitCode.TRY_LATER
    finally:
        come_back.set()
    assert exits == [ExitCode.TRY_LATER], "at the end nothing waits for the thread that is stuck"
