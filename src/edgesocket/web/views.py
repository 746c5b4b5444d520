"""A job as the JSON of `/api/jobs`: from what it published, its journal and its picture. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from edgesocket.hosting.dead_letters import can_be_read
from edgesocket.web.hosted import HostedJob
from edgesocket.web.pipeline import Pipeline

MAX_CHECKPOINTS = 32
MAX_SESSIONS = 16

BATCH_REPLIES = ("RECEIVED", "QUEUE_FULL", "DECODE_FAILED", "DECRYPT_FAILED", "INVALID_BATCH_ID")
"""Replies that answer a batch, and no poll for a confirmation."""


class Rates(TypedDict):
    """Means over a few seconds, per second."""

    received_records_per_s: float
    received_bytes_per_s: float
    batches_per_s: float
    written_rows_per_s: float


class HoldView(TypedDict):
    """The batch that holds the confirmed watermark."""

    id: int
    state: str
    since_s: float
    what_to_do: str


class CheckpointView(TypedDict):
    """One checkpoint."""

    number: int
    started_ms: int
    duration_s: float
    state_bytes: int
    status: str
    reason: str


class SessionView(TypedDict):
    """One conversation with a collector; `ended_ms` is null while it lasts."""

    peer: str
    connected_ms: int
    ended_ms: int | None
    reason: str
    received_bytes: int


class DeadLettersView(TypedDict):
    """How many records were kept aside since the start, and whether they can be read back."""

    count: int
    can_be_read: bool


class JobView(TypedDict):
    """One job. `status` is what `edgesocket status --format json` calls `live`."""

    name: str
    state: Literal["starting", "running", "stopping", "restarting", "ended", "failed", "fenced"]
    status: dict[str, Any]
    rates: Rates
    pipeline: Pipeline
    holds: HoldView | None
    checkpoints: list[CheckpointView]
    sessions: list[SessionView]
    dead_letters: DeadLettersView
    last_error: str
    restarts: int


class JobsView(TypedDict):
    """Every job of the process. `time` is in seconds since 1970."""

    version: str
    time: float
    host: str
    jobs: list[JobView]


def counters_of(status: Mapping[str, Any]) -> dict[str, float]:
    """Counters from which rates are made, by the rates' names."""
    source = status.get("source") or {}
    replies = source.get("replies") or {}
    return {
        "received_records_per_s": replies.get("RECEIVED", 0),
        "received_bytes_per_s": (source.get("listener") or {}).get("received_bytes", 0),
        "batches_per_s": sum(replies.get(word, 0) for word in BATCH_REPLIES),
        "written_rows_per_s": status.get("rows_written", 0),
    }


def view_of(
    job: HostedJob, state: Any, status: Mapping[str, Any], rates: Mapping[str, float], pipeline: Pipeline, error: str
) -> JobView:
    """Everything there is to show of one job."""
    return {
        "name": job.name,
        "state": state,
        "status": _without_buckets(status),
        "rates": {
            "received_records_per_s": rates["received_records_per_s"],
            "received_bytes_per_s": rates["received_bytes_per_s"],
            "batches_per_s": rates["batches_per_s"],
            "written_rows_per_s": rates["written_rows_per_s"],
        },
        "pipeline": pipeline,
        "holds": _hold(job, status) if state in ("running", "stopping") else None,
        "checkpoints": checkpoint_views(job, MAX_CHECKPOINTS),
        "sessions": session_views(job, MAX_SESSIONS),
        "dead_letters": _dead_letters(job, status),
        "last_error": error,
        "restarts": int(status.get("restarts") or 0),
    }


def checkpoint_views(job: HostedJob, most: int) -> list[CheckpointView]:
    """The newest checkpoints, the newest last."""
    return [
        {
            "number": one.number,
            "started_ms": one.started_ms,
            "duration_s": round(one.duration_s, 6),
            "state_bytes": one.state_bytes,
            "status": str(one.status),
            "reason": one.reason,
        }
        for one in list(job.journal.checkpoints)[-most:]
    ]


def session_views(job: HostedJob, most: int) -> list[SessionView]:
    """The newest sessions, the newest last."""
    return [
        {
            "peer": one.peer,
            "connected_ms": one.connected_ms,
            "ended_ms": one.ended_ms,
            "reason": str(one.reason or ""),
            "received_bytes": one.received_bytes,
        }
        for one in list(job.journal.sessions)[-most:]
    ]


def _hold(job: HostedJob, status: Mapping[str, Any]) -> HoldView | None:
    holder = (status.get("source") or {}).get("holder")
    if not holder:
        return None
    state = str(holder["state"])
    names = {"job": shlex.quote(job.name), "id": holder["id"], "state_dir": shlex.quote(job.state.text)}
    told = _WHAT_TO_DO.get(state, _SETTLE).format_map(names)
    return {"id": holder["id"], "state": state, "since_s": holder["since_s"], "what_to_do": told}


def _without_buckets(status: Mapping[str, Any]) -> dict[str, Any]:
    """The status without the buckets of histograms: they are most of it, and /metrics has them."""
    sinks = status.get("sinks") or {}
    if "each" not in sinks:
        return dict(status)
    slim = {id_: {name: _slim(value) for name, value in figures.items()} for id_, figures in sinks["each"].items()}
    return {**status, "sinks": {**sinks, "each": slim}}


def _slim(value: Any) -> Any:
    return {name: inner for name, inner in value.items() if name != "buckets"} if isinstance(value, dict) else value


def _dead_letters(job: HostedJob, status: Mapping[str, Any]) -> DeadLettersView:
    count = int((status.get("sinks") or {}).get("dead_letters") or 0)
    return {"count": count, "can_be_read": can_be_read(job.spec)}


_WHAT_TO_DO = {
    "received": "it is queued and waits for the sinks",
    "captured": "it went to the sinks and waits for a checkpoint to complete",
}
_SETTLE = (
    "if the collector will not send it (again), run: edgesocket settle {job} {id} --state-dir {state_dir} --reason TEXT"
)
"""For a batch that only the collector or an operator can move."""
