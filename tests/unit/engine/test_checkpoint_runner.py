"""How checkpoints end: what a failure means for the job, and a warning where a state passes 10 MB, once a crossing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from edgesocket.checkpoint.effects import CommitDeciding, Wait
from edgesocket.checkpoint.procedure import CheckpointEnd
from edgesocket.engine.checkpoints import CheckpointRunner, describe_large
from edgesocket.errors import BadRecordError, ComponentError, EdgeSocketError
from edgesocket.telemetry.event import Level, kind_of

MB = 1_000_000


def _runner(ends: Iterator[CheckpointEnd], reports: list[str], executor: ThreadPoolExecutor) -> CheckpointRunner:
    def make(number: int, force: bool) -> Any:
        return next(ends)
        yield

    def nothing(effect: Any) -> Any:
        raise AssertionError(effect)

    def report(event: object) -> None:
        if kind_of(event).level > Level.DEBUG:
            reports.append(str(event))

    return CheckpointRunner(
        make,
        nothing,
        nothing,
        executor,
        lambda: None,
        first_number=1,
        interval_s=1.0,
        timeout_s=60.0,
        give_up_s=600.0,
        report=report,
    )


def _end(queue: int, fingerprints: int) -> CheckpointEnd:
    return CheckpointEnd(completed=True, written=True, blob_bytes={"queue": queue, "fingerprints": fingerprints})


def test_one_that_must_not_be_given_up_still_says_why_after_its_time() -> None:
    def waits() -> Iterator[Any]:
        yield CommitDeciding(1, {})
        while True:
            yield Wait(1.0, "commit record 1 cannot be appended: no space")

    with ThreadPoolExecutor(1) as executor:
        runner = CheckpointRunner(
            lambda number, force: waits(), lambda effect: None, lambda effect: None, executor, lambda: None,
            first_number=1, interval_s=1.0, timeout_s=60.0, give_up_s=600.0, report=lambda event: None,
        )  # fmt: skip
        for now in range(70):
            runner.advance(float(now))
    assert runner.figures.last_failure == ("it takes longer than 60 s: commit record 1 cannot be appended: no space")


def test_it_is_told_once_until_the_state_is_small_again() -> None:
    idle = CheckpointEnd(completed=True, written=False)
    sizes = [(8 * MB, 2 * MB), (8 * MB, 2 * MB + 1), (20 * MB, 2 * MB), (1, 2 * MB), (9 * MB, 2 * MB)]
    ends = [_end(*sizes[0]), _end(*sizes[1]), idle, _end(*sizes[2]), _end(*sizes[3]), _end(*sizes[4])]
    reports: list[str] = []
    large: list[bool] = []
    with ThreadPoolExecutor(1) as executor:
        runner = _runner(iter(ends), reports, executor)
        runner.advance(0.0)
        for now in range(1, len(ends) + 1):
            assert runner.advance(float(now) * 2)
            large.append(bool(runner.figures.large_state))

    assert large == [False, True, True, True, False, True], "an idle checkpoint says nothing of the state"
    assert [report.split(":")[0] for report in reports] == ["checkpoint 2", "checkpoint 5", "checkpoint 6"]
    assert "below 10.0 MB again" in reports[1]


@pytest.mark.parametrize(("queue", "large"), [(8 * MB, False), (8 * MB + 1, True)])
def test_fingerprints_count(queue: int, large: bool) -> None:
    assert bool(describe_large({"queue": queue, "fingerprints": 2 * MB})) is large


def test_it_says_how_large_what_is_and_what_to_do() -> None:
    text = describe_large({"queue": 11 * MB, "fingerprints": 1_572_864})
    assert "12.6 MB (queue 11.0 MB, fingerprints 1.6 MB)" in text
    assert "local_queue_capacity" in text
    assert "edgesocket size" in text


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (BadRecordError(5, "no"), True),
        (ComponentError("no", retryable=False), True),
        (ComponentError("open me again", reopen=True), True),
        (ComponentError("later"), False),
    ],
)
def test_what_no_further_checkpoint_heals_ends_the_incarnation(error: EdgeSocketError, ends: bool) -> None:
    end = CheckpointEnd(completed=False, written=False, reason=str(error), error=error)
    with ThreadPoolExecutor(1) as executor:
        runner = _runner(iter([end]), [], executor)
        runner.advance(0.0)
        if ends:
            with pytest.raises(type(error)):
                runner.advance(2.0)
        else:
            assert not runner.advance(2.0)
