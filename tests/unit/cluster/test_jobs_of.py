"""How a job of a cluster fares, in one word, from what the store tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgesocket.cluster.attempts import Attempt
from edgesocket.cluster.jobs_of import JobView
from edgesocket.cluster.submitting import submit
from edgesocket.store.ownership import Beat
from tests.unit.cluster.cluster_kit import CLUSTER, some_jobs, submission


@pytest.mark.parametrize(
    ("status", "attempt_order", "age_s", "state"),
    [
        (None, None, None, "PENDING"),
        ({"pid": 7, "host_start": 2, "state": "running"}, 0, 0.1, "PENDING"),
        (None, 1, None, "STARTING"),
        ({"pid": 7, "host_start": 2, "state": "starting"}, 1, 0.1, "STARTING"),
        ({"pid": 6, "host_start": 1, "state": "running"}, 1, 0.1, "STARTING"),  # the process before it still speaks
        ({"pid": 7, "host_start": 1, "state": "running"}, 1, 0.1, "STARTING"),  # the same, and it was in another pod
        ({"pid": 7, "host_start": 2, "state": "running"}, 1, 0.1, "RUNNING"),
        ({"pid": 7, "host_start": 2, "state": "running"}, 1, 60.0, "LOST"),
    ],
)
def test_the_state_of_a_job_that_is_to_run(
    tmp_path: Path, status: dict[str, Any] | None, attempt_order: int | None, age_s: float | None, state: str
) -> None:
    order = submit(some_jobs(tmp_path / "states"), submission(), CLUSTER)
    attempt = (
        None
        if attempt_order is None
        else Attempt(time_ms=1, host="edge", start=2, node="n", address="10.0.0.2", pid=7, order=attempt_order)
    )
    beat = Beat("edge", "h", "b", 7, 1, 1, 1, locked=True)
    assert JobView("edge", order, attempt, beat, status, age_s).state == state
