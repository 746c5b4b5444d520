"""The threads beside the pump: a status that is due is written at once, and whatever ends one of them ends the job."""

from __future__ import annotations

import threading
import time

import pytest

from edgesocket.engine.helpers import Helpers, beat_s_of
from edgesocket.errors import FencedError

WAIT_S = 10.0


class Told:
    """What the helpers do, and what they fail with."""

    def __init__(self) -> None:
        self.published = threading.Event()
        self.ticks = 0
        self.failed = threading.Event()
        self.failures: list[BaseException] = []
        self.beat_error: Exception | None = None
        self.publish_error: Exception | None = None

    def beat(self) -> None:
        if self.beat_error is not None:
            raise self.beat_error

    def tick(self) -> None:
        self.ticks += 1

    def publish(self) -> None:
        if self.publish_error is not None:
            raise self.publish_error
        self.published.set()

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.failed.set()

    def helpers(self) -> Helpers:
        return Helpers(self.beat, self.tick, self.publish, self.fail, time.monotonic)


def test_a_status_that_is_due_is_written_at_once_and_without_a_tick() -> None:
    told = Told()
    helpers = told.helpers()
    helpers.start()
    helpers.publish_soon()
    assert told.published.wait(0.9), "it does not wait for the next second"
    helpers.stop()
    helpers.stop()
    assert told.ticks == 0
    assert told.failures == []


@pytest.mark.parametrize(("lease_ms", "beat_s"), [(2000, 0.5), (2800, 0.7), (3000, 1.0), (10_000, 1.0)])
def test_an_owner_beats_every_second_and_four_times_in_a_short_lease(lease_ms: int, beat_s: float) -> None:
    assert beat_s_of(lease_ms) == beat_s


def test_a_beat_that_fails_ends_the_job() -> None:
    told = Told()
    told.beat_error = FencedError("another one")
    helpers = told.helpers()
    helpers.start()
    assert told.failed.wait(WAIT_S)
    helpers.stop()
    assert told.failures == [told.beat_error]


def test_so_does_a_status_that_fails() -> None:
    told = Told()
    told.publish_error = RuntimeError("a bug")
    helpers = told.helpers()
    helpers.start()
    helpers.publish_soon()
    assert told.failed.wait(WAIT_S)
    helpers.stop()
    assert told.failures == [told.publish_error]


def test_nothing_is_left_running_after_a_stop() -> None:
    told = Told()
    helpers = told.helpers()
    helpers.start()
    helpers.stop()
    assert not [
        thread for thread in threading.enumerate() if thread.name in ("edgesocket-keeper", "edgesocket-housekeeper")
    ]
