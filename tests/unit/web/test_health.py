"""Whether a job lives and whether it is ready, with the reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgesocket.web.health import LIVE_WITHIN_S, Seen, why_not_alive, why_not_ready
from tests.support.web import status_of


def seen(state: str = "running", **changes: Any) -> Seen:
    fields = {name: changes.pop(name) for name in ("silent_s", "running_s", "last_error") if name in changes}
    values: dict[str, Any] = {"silent_s": 0.5, "running_s": 100.0, "last_error": "", **fields}
    return Seen(state=state, status=status_of(state, **changes), interval_s=10.0, timeout_s=60.0, **values)


def test_a_job_that_streams_and_checkpoints_is_alive_and_ready() -> None:
    assert why_not_alive(seen()) == []
    assert why_not_ready(seen()) == []
    assert why_not_ready(seen(source__listener={"state": "listening"})) == []


def test_a_job_that_says_nothing_for_long_is_not_alive() -> None:
    assert why_not_alive(seen(silent_s=LIVE_WITHIN_S)) == []
    (reason,) = why_not_alive(seen(silent_s=LIVE_WITHIN_S + 1))
    assert "said nothing for 61 s" in reason
    assert why_not_ready(seen(silent_s=LIVE_WITHIN_S + 1)) == [reason]


def test_a_job_that_waits_for_its_next_start_may_be_silent_for_as_long_as_that_takes() -> None:
    waiting = replace(seen("restarting", silent_s=LIVE_WITHIN_S + 100), retry_s=120.0)
    assert why_not_alive(waiting) == []
    assert why_not_alive(replace(waiting, silent_s=LIVE_WITHIN_S + 121)) != []
    assert why_not_alive(replace(waiting, state="running")) != []


@pytest.mark.parametrize("state", ["starting", "stopping", "restarting"])
def test_a_job_on_its_way_is_alive_and_not_ready(state: str) -> None:
    assert why_not_alive(seen(state)) == []
    assert why_not_ready(seen(state, last_error="the disk is full")) == [f"it is {state}: the disk is full"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [("failed", "it has failed: why"), ("fenced", "another process: why"), ("ended", "it has ended")],
)
def test_a_job_that_is_over_says_so(state: str, reason: str) -> None:
    (found,) = why_not_alive(seen(state, last_error="why"))
    assert reason in found


def test_a_port_that_cannot_be_had_is_named() -> None:
    listener = {"state": "binding", "state_since_s": 30.0, "bind_problem": "address already in use"}
    assert why_not_ready(seen(source__listener=listener)) == [
        "its port is not open (binding): address already in use"
    ] or ("address already in use" in why_not_ready(seen(source__listener=listener))[0])


def test_a_port_that_opens_again_after_a_collector_is_no_trouble_yet() -> None:
    assert why_not_ready(seen(source__listener={"state": "binding", "state_since_s": 0.2})) == []


def test_a_job_without_a_port_is_not_ready() -> None:
    assert why_not_ready(seen(source={})) == ["its port is not open yet"]


def test_a_checkpoint_that_is_late_is_named_with_the_failure() -> None:
    fresh = seen(checkpoints__last_completed_ago_s=89.0)
    assert why_not_ready(fresh) == [], "three intervals and a timeout are allowed"
    (reason,) = why_not_ready(seen(checkpoints__last_completed_ago_s=95.0, checkpoints__last_failure="disk full"))
    assert reason == "no checkpoint has completed for 96 s (90 s are allowed): disk full"


def test_the_first_checkpoint_has_as_long_as_any_other() -> None:
    assert why_not_ready(seen(checkpoints__last_completed_ago_s=None, running_s=80.0)) == []
    assert why_not_ready(seen(checkpoints__last_completed_ago_s=None, running_s=91.0)) != []


def test_a_status_of_nothing_yet_is_no_bug() -> None:
    empty = Seen("running", {}, 0.0, 0.0, 10.0, 60.0)
    assert why_not_ready(empty) == ["its port is not open yet"]
