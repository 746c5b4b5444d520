"""A job in the JSON of SeaTunnel's REST API v2. Pure.

The id of a job is its name. Counts are texts, as there. What nobody measures here is left out, not made up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import edgesocket
from edgesocket.config.env import ENV
from edgesocket.config.options import Kind
from edgesocket.config.specs import JobSpec
from edgesocket.web.board import JobOnBoard
from edgesocket.web.views import CheckpointView, JobView

FINISHED_STATES = ("FINISHED", "CANCELED", "FAILED", "SAVEPOINT_DONE", "UNKNOWABLE")

_STATES = {
    "starting": "INITIALIZING",
    "running": "RUNNING",
    "stopping": "DOING_SAVEPOINT",
    "restarting": "FAILING",
    "ended": "SAVEPOINT_DONE",
    "failed": "FAILED",
    "fenced": "UNKNOWABLE",
}
"""SeaTunnel's word for each state. UNKNOWABLE: another process owns the job now, and knows."""


class Vertex(TypedDict):
    """A plugin of a job."""

    vertexId: int
    type: str
    vertexName: str
    tablePaths: list[str]


class Edge(TypedDict):
    """Whose rows go where."""

    inputVertexId: str
    targetVertexId: str


class JobDag(TypedDict):
    """The plugins of a job and the way rows go between them; `pipelineEdges` by the number of the pipeline."""

    jobId: str
    envOptions: dict[str, Any]
    vertexInfoMap: list[Vertex]
    pipelineEdges: dict[str, list[Edge]]


class JobInfo(TypedDict, total=False):
    """A job. Of an id that is not known there is nothing but the id."""

    jobId: str
    jobName: str
    jobStatus: str
    envOptions: dict[str, Any]
    createTime: str
    finishTime: str | None
    finishedTime: str | None
    errorMsg: str | None
    jobDag: JobDag
    pluginJarsUrls: list[str]
    isStartWithSavePoint: bool
    metrics: dict[str, str]


class Overview(TypedDict):
    """The process as if it were a cluster of one worker. Slots are dynamic, which SeaTunnel shows as 0."""

    projectVersion: str
    gitCommitAbbrev: str
    totalSlot: str
    unassignedSlot: str
    works: str
    runningJobs: str
    pendingJobs: str
    finishedJobs: str
    failedJobs: str
    cancelledJobs: str


class CheckpointEntry(TypedDict):
    """One checkpoint; times are milliseconds since 1970."""

    checkpointId: int
    checkpointType: str
    status: str
    triggerTimestamp: int
    completedTimestamp: int | None
    durationMillis: int
    stateSize: int
    failureReason: str | None


class CheckpointCounts(TypedDict):
    """Since the job's incarnation began."""

    triggered: int
    completed: int
    failed: int
    inProgress: int
    restored: int


class PipelineCheckpoints(TypedDict):
    """The checkpoints of the one pipeline that a job has; `history` newest first."""

    pipelineId: int
    counts: CheckpointCounts
    latestCompleted: CheckpointEntry | None
    latestFailed: CheckpointEntry | None
    latestSavepoint: CheckpointEntry | None
    inProgress: list[CheckpointEntry]
    history: list[CheckpointEntry]


class CheckpointsInfo(TypedDict):
    """The checkpoints of a job."""

    jobId: str
    pipelines: list[PipelineCheckpoints]
    message: NotRequired[str]


def seatunnel_state(one: JobOnBoard) -> str:
    """SeaTunnel's word for the state of a job."""
    return _STATES[one.state]


def job_info(one: JobOnBoard, view: JobView) -> JobInfo:
    """A job as /running-jobs, /job-info and /finished-jobs show it."""
    job = one.job
    if "dag" not in one.kept:
        one.kept["env"] = env_options(job.spec)
        one.kept["dag"] = job_dag(job.spec, one.kept["env"])
    info: JobInfo = {
        "jobId": job.name,
        "jobName": job.name,
        "jobStatus": seatunnel_state(one),
        "envOptions": one.kept["env"],
        "createTime": _time(job.created_ms),
        "jobDag": one.kept["dag"],
        "pluginJarsUrls": [],
        "isStartWithSavePoint": job.restored,
        "metrics": _metrics(view),
    }
    outcome = job.outcome
    if outcome is not None:
        finished = _time(outcome.time_ms)
        info |= {"finishTime": finished, "finishedTime": finished, "errorMsg": outcome.reason or None}
    return info


def job_dag(spec: JobSpec, env: dict[str, Any]) -> JobDag:
    """The plugins of a job, numbered from 1: source, transforms, sinks."""
    source = spec.sources[0]
    plugins: list[tuple[str, str, str, tuple[str, ...]]] = [("source", source.id, source.plugin, ())]
    plugins += [("transform", one.id, one.plugin, one.inputs) for one in spec.transforms]
    plugins += [("sink", one.id, one.plugin, one.inputs or (source.id,)) for one in spec.sinks]
    numbers = {id_: number for number, (_, id_, _, _) in enumerate(plugins, 1)}
    seen = {"source": 0, "transform": 0, "sink": 0}
    vertices: list[Vertex] = []
    edges: list[Edge] = []
    for number, (kind, id_, plugin, inputs) in enumerate(plugins, 1):
        name = f"{kind.capitalize()}[{seen[kind]}]-{plugin}"
        seen[kind] += 1
        vertices.append({"vertexId": number, "type": kind, "vertexName": name, "tablePaths": [id_]})
        edges += [{"inputVertexId": str(numbers[before]), "targetVertexId": str(number)} for before in inputs]
    return {"jobId": spec.name, "envOptions": env, "vertexInfoMap": vertices, "pipelineEdges": {"1": edges}}


def env_options(spec: JobSpec) -> dict[str, Any]:
    """The env block as it counts, defaults included."""
    shown: dict[str, Any] = {}
    for option in ENV.options:
        if option.kind is Kind.LATER or option.secret:
            continue
        value = getattr(spec.env, option.key)
        if isinstance(value, Mapping):
            value = dict(value)
        if value not in (None, {}, ()):
            shown[option.name] = list(value) if isinstance(value, tuple) else value
    shown["job.name"] = spec.name
    return shown


def overview(jobs: list[JobOnBoard]) -> Overview:
    """How many jobs there are of each kind."""
    states = [seatunnel_state(one) for one in jobs]
    ended = sum(state in FINISHED_STATES for state in states)
    return {
        "projectVersion": edgesocket.__version__,
        "gitCommitAbbrev": "",
        "totalSlot": "0",
        "unassignedSlot": "0",
        "works": "1",
        "runningJobs": str(len(states) - ended),
        "pendingJobs": "0",
        "finishedJobs": str(states.count("SAVEPOINT_DONE") + states.count("FINISHED")),
        "failedJobs": str(states.count("FAILED")),
        "cancelledJobs": str(states.count("CANCELED")),
    }


def checkpoints_info(one: JobOnBoard, history: list[CheckpointView]) -> CheckpointsInfo:
    """The checkpoints of a job; `history` oldest first."""
    entries = [_entry(view) for view in reversed(history)]
    figures = one.status.get("checkpoints") or {}
    completed, failed = int(figures.get("completed", 0)), int(figures.get("failed", 0))
    good = [entry for entry in entries if entry["status"] == "COMPLETED"]
    ended = one.job.outcome is not None and good
    pipeline: PipelineCheckpoints = {
        "pipelineId": 1,
        "counts": {
            "triggered": completed + failed,
            "completed": completed,
            "failed": failed,
            "inProgress": 0,
            "restored": 1 if one.job.restored else 0,
        },
        "latestCompleted": good[0] if good else None,
        "latestFailed": next((entry for entry in entries if entry["status"] == "FAILED"), None),
        "latestSavepoint": {**good[0], "checkpointType": "SAVEPOINT_TYPE"} if ended else None,
        "inProgress": [],
        "history": entries,
    }
    return {"jobId": one.job.name, "pipelines": [pipeline]}


def _entry(view: CheckpointView) -> CheckpointEntry:
    done = view["status"] == "completed"
    millis = round(view["duration_s"] * 1000)
    return {
        "checkpointId": view["number"],
        "checkpointType": "CHECKPOINT_TYPE",
        "status": "COMPLETED" if done else "FAILED",
        "triggerTimestamp": view["started_ms"],
        "completedTimestamp": view["started_ms"] + millis if done else None,
        "durationMillis": millis,
        "stateSize": view["state_bytes"],
        "failureReason": view["reason"] or None,
    }


def _metrics(view: JobView) -> dict[str, str]:
    source, rates = view["status"].get("source") or {}, view["rates"]
    return {
        "SourceReceivedCount": str((source.get("replies") or {}).get("RECEIVED", 0)),
        "SourceReceivedBytes": str((source.get("listener") or {}).get("received_bytes", 0)),
        "SourceReceivedQPS": f"{rates['received_records_per_s']:.1f}",
        "SourceReceivedBytesPerSeconds": f"{rates['received_bytes_per_s']:.1f}",
        "SinkWriteCount": str(view["status"].get("rows_written", 0)),
        "SinkWriteQPS": f"{rates['written_rows_per_s']:.1f}",
        "IntermediateQueueSize": str((source.get("queue") or {}).get("records", 0)),
    }


def _time(time_ms: int) -> str:
    """As SeaTunnel writes times: without a zone, that of the host."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))
