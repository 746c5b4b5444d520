"""What becomes of a job that has ended in its host."""

from __future__ import annotations

import pytest

from edgesocket.cluster.after_end import BUGS, MOVE_AFTER, Next, Outcome, next_step
from edgesocket.errors import (
    BadRecordError,
    ComponentError,
    ConfigError,
    EdgeSocketError,
    FencedError,
    ListenerError,
    NotOwnerError,
    StoreError,
)


def step(error: Exception, failures: int = 1) -> Next:
    code = error.exit_code if isinstance(error, EdgeSocketError) else 70
    return next_step(Outcome(code, error), failures)


def test_a_job_that_was_asked_to_stop_has_stopped() -> None:
    assert next_step(Outcome(0), 1) is Next.STOPPED
    assert next_step(Outcome(75), 1) is Next.STOPPED


@pytest.mark.parametrize("error", [StoreError("x"), ComponentError("x"), FencedError("x"), NotOwnerError("x")])
def test_what_a_restart_can_heal_is_started_again_for_ever(error: Exception) -> None:
    assert step(error, 1) is Next.AGAIN
    assert step(error, 1000) is Next.AGAIN


@pytest.mark.parametrize("error", [ConfigError([]), BadRecordError(1, "x"), ComponentError("x", retryable=False)])
def test_what_no_restart_heals_fails_at_once(error: Exception) -> None:
    assert step(error) is Next.FAILED


def test_a_taken_port_is_tried_again_and_then_left_to_another_worker() -> None:
    assert step(ListenerError("x"), MOVE_AFTER - 1) is Next.AGAIN
    assert step(ListenerError("x"), MOVE_AFTER) is Next.MOVE


def test_a_bug_is_tried_again_a_few_times() -> None:
    assert step(RuntimeError(), BUGS - 1) is Next.AGAIN
    assert step(RuntimeError(), BUGS) is Next.FAILED
