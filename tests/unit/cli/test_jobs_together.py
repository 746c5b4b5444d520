"""Jobs that come while the process runs, and a process that does not end with its last job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from edgesocket.cli import together
from edgesocket.cli.together import JobsTogether
from edgesocket.errors import ExitCode, NotOwnerError


class PlayedJob:
    """A job that ends when it is told to."""

    def __init__(self, name: str, code: int = ExitCode.OK) -> None:
        self.name = name
        self.ending = threading.Event()
        self.runner = SimpleNamespace(fenced=False, stop=self.ending.set)
        self._code = code

    def run(self) -> int:
        assert self.ending.wait(30)
        return self._code

    def report(self, line: object) -> None:
        """Nobody listens."""


class Running:
    """`run` on a thread of its own."""

    def __init__(self, jobs: JobsTogether) -> None:
        self.code: int | None = None
        self._thread = threading.Thread(target=self._work, args=(jobs,), daemon=True)
        self._thread.start()

    def _work(self, jobs: JobsTogether) -> None:
        self.code = jobs.run()

    def wait(self) -> int | None:
        self._thread.join(30)
        return self.code

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "LOOK_S", 0.01)


def make(*jobs: Any, endless: bool = False) -> JobsTogether:
    return JobsTogether(jobs, endless=endless)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


def test_a_job_that_comes_later_is_waited_for_too() -> None:
    first, second = PlayedJob("first"), PlayedJob("second", ExitCode.TRY_LATER)
    jobs = make(first)
    running = Running(jobs)
    jobs.start(second)  # type: ignore[arg-type]
    first.ending.set()
    until(lambda: [job.name for job in jobs.running()] == ["second"])
    assert running.goes_on
    assert [job.name for job in jobs.jobs()] == ["first", "second"], "the one that ended is still known"
    second.ending.set()
    assert running.wait() == ExitCode.TRY_LATER


def test_two_jobs_of_one_name_do_not_run_together_and_one_that_ended_makes_room() -> None:
    first, other = PlayedJob("a"), PlayedJob("b")
    jobs = make(first, other)
    running = Running(jobs)
    with pytest.raises(NotOwnerError, match="job a runs in this process already"):
        jobs.start(PlayedJob("a"))  # type: ignore[arg-type]
    first.ending.set()
    until(lambda: len(jobs.running()) == 1)
    again = PlayedJob("a")
    jobs.start(again)  # type: ignore[arg-type]
    assert jobs.jobs() == [other, again]
    for job in (other, again):
        job.ending.set()
    assert running.wait() == ExitCode.OK


def test_a_process_that_ends_takes_no_more() -> None:
    job = PlayedJob("a")
    jobs = make(job)
    running = Running(jobs)
    assert jobs.stop_taking() == [job]
    with pytest.raises(NotOwnerError, match="about to end"):
        jobs.start(PlayedJob("b"))  # type: ignore[arg-type]
    job.ending.set()
    assert running.wait() == ExitCode.OK


def test_an_endless_process_goes_on_without_jobs_and_forgets_how_they_fared() -> None:
    failed = PlayedJob("failed", ExitCode.BAD_DATA)
    jobs = make(endless=True)
    running = Running(jobs)
    jobs.start(failed)  # type: ignore[arg-type]
    failed.ending.set()
    until(lambda: not jobs.running())
    assert running.goes_on
    assert jobs.stop_taking() == []
    assert running.wait() == ExitCode.OK


def test_a_stop_before_the_start_reaches_jobs_that_are_about_to_run() -> None:
    job = PlayedJob("a")
    jobs = make(job)
    for one in jobs.stop_taking():
        one.runner.stop()
    assert Running(jobs).wait() == ExitCode.OK


def test_of_many_that_ended_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "MAX_ENDED", 2)
    lasting = PlayedJob("lasting")
    jobs = make(lasting)
    running = Running(jobs)
    for number in range(5):
        job = PlayedJob(f"short-{number}")
        job.ending.set()
        jobs.start(job)  # type: ignore[arg-type]
        until(lambda: len(jobs.running()) == 1)
    assert [job.name for job in jobs.jobs()] == ["lasting", "short-2", "short-3", "short-4"]
    lasting.ending.set()
    assert running.wait() == ExitCode.OK
