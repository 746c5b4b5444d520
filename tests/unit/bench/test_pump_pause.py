"""The part that times pauses: its percentiles, and that the jobs it runs can run."""

from __future__ import annotations

import pytest

from bench.parts.pump_pause import JOB, QUEUE, RATE, SINKS, percentile
from edgesocket.config.job import load_job


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_a_single_value_is_every_percentile() -> None:
    assert percentile([7.0], 0.99) == 7.0


@pytest.mark.parametrize("sink", SINKS)
def test_its_jobs_can_run_with_the_default_queue(sink: str) -> None:
    text = (JOB % (RATE, SINKS[sink])).format(port=9999, token="t", queue=QUEUE, dir="/tmp/bench")
    spec = load_job(text, "job.conf")
    assert spec.sinks[0].plugin == sink
    assert spec.env.rows_per_second == RATE
    default = load_job("source { EdgeSocket { port = 1, token = t } }", "job.conf").sources[0].options
    assert spec.sources[0].options.local_queue_capacity == default.local_queue_capacity
