"""What an operator wants to know of a running job, as JSON."""

from __future__ import annotations

import os
from typing import Any

from edgesocket.components.source import Source
from edgesocket.components.state import Host
from edgesocket.engine.checkpoints import CheckpointFigures
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.sink_group import SinkGroup


def describe(
    plan: JobPlan, host: Host, sinks: SinkGroup, figures: CheckpointFigures | None, source: Source | None, now: float
) -> dict[str, Any]:
    """The job, and how its parts fare, as far as there are any yet."""
    status: dict[str, Any] = {
        "job": plan.name,
        "source_id": plan.source_id,
        "pid": os.getpid(),
        "host": host.name,
        "endpoint": plan.endpoint,
        "sinks": describe_sinks(sinks, now),
    }
    if figures is not None:
        status["checkpoints"] = {**describe_checkpoints(figures, now), "interval_s": plan.checkpoint_interval_s}
    if source is not None:
        status["source"] = source.status()
    return status


def describe_checkpoints(figures: CheckpointFigures, now: float) -> dict[str, Any]:
    """How checkpoints fare."""
    return {
        "completed": figures.completed,
        "failed": figures.failed,
        "last_number": figures.last_number,
        "last_completed_ago_s": _ago(figures.last_completed_at, now),
        "last_duration_s": round(figures.last_duration_s, 3),
        "last_state_bytes": figures.last_state_bytes,
        "large_state": figures.large_state,
        "failing_for_s": _ago(figures.failing_since, now),
        "last_failure": figures.last_failure,
    }


def describe_sinks(sinks: SinkGroup, now: float) -> dict[str, Any]:
    """Whether sinks take rows, and what is counted of each."""
    return {
        "failing_for_s": _ago(sinks.failing_since, now),
        "last_failure": sinks.last_failure,
        "dead_letters": sinks.dead_letters,
        "each": {sink_id: figures.as_json() for sink_id, figures in sinks.figures.items()},
    }


def _ago(moment: float | None, now: float) -> float | None:
    return None if moment is None else round(now - moment, 1)
