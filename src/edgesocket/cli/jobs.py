"""From a checked job to what the engine runs."""

from __future__ import annotations

import hashlib
from functools import partial

from edgesocket.components.registry import sinks as sink_registry
from edgesocket.components.registry import transforms as transform_registry
from edgesocket.components.sink import Sink
from edgesocket.components.source import ReadLimit
from edgesocket.components.state import Host
from edgesocket.components.transform import Transform
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.config.env import EnvSpec
from edgesocket.config.specs import JobSpec, SinkSpec, TransformSpec
from edgesocket.engine.plan import JobPlan, SinkPlan, TransformPlan
from edgesocket.ingress.service import RepeatedId
from edgesocket.sources.edge_socket import EdgeSocketSource
from edgesocket.store.identity import host_identity
from edgesocket.store.lease import LEASE_MS
from edgesocket.store.place import Place


def this_host() -> Host:
    """This host, as claims name it."""
    identity = host_identity()
    return Host(identity.host, identity.boot)


def make_plan(
    spec: JobSpec,
    state: Place,
    *,
    take_over: bool = False,
    drop_sink_state: frozenset[str] = frozenset(),
) -> JobPlan:
    """The engine's plan for a job."""
    env, source = spec.env, spec.sources[0]
    exactly_once = any(sink.exactly_once for sink in spec.sinks)
    repeated_id = RepeatedId.RESEND if exactly_once else RepeatedId.RECORD
    return JobPlan(
        name=spec.name,
        state_dir=state.scratch,
        state=state.text,
        apart=state.apart,
        source_id=source.id,
        make_source=partial(EdgeSocketSource, spec.name, source.options, repeated_id),
        sinks=tuple(_sink_plan(sink) for sink in spec.sinks),
        transforms=tuple(TransformPlan(one.id, partial(_make_transform, one), one.inputs) for one in spec.transforms),
        dead_letter=None if spec.dead_letter is None else _sink_plan(spec.dead_letter),
        schema_hash=_schema_hash(source.options),
        endpoint=source.options.endpoint or "",
        checkpoint_interval_s=max(env.checkpoint_interval_ms, env.min_pause_ms) / 1000,
        checkpoint_timeout_s=env.checkpoint_timeout_ms / 1000,
        read_limit=_read_limit(env),
        flush_interval_s=env.flush_interval_ms / 1000,
        checkpoints_kept=env.checkpoints_kept,
        lease_ms=env.lease_ms or LEASE_MS,
        arrival_sync_ms=source.options.arrival_sync_ms,
        retry_times=env.retry_times,
        retry_interval_s=env.retry_interval_s,
        retry_reset_s=env.retry_reset_s,
        give_up_s=env.checkpoint_failure_timeout_ms / 1000,
        take_over=take_over,
        drop_sink_state=drop_sink_state,
    )


def _sink_plan(spec: SinkSpec) -> SinkPlan:
    to_dead_letter = spec.on_rejected_row == "dead_letter"
    return SinkPlan(spec.id, partial(_make_sink, spec), spec.inputs, rejects_to_dead_letter=to_dead_letter)


def _read_limit(env: EnvSpec) -> ReadLimit | None:
    limit = ReadLimit(env.rows_per_second, env.bytes_per_second)
    return None if limit == ReadLimit() else limit


def _schema_hash(options: EdgeSocketOptions) -> str:
    """Identifies the row type; empty for rows that are the payload and nothing else."""
    parts = []
    if options.schema is not None:
        parts.append(f"{options.json_mode} {options.schema.fingerprint}")
    parts += [f"{field}={column}" for field, column in options.metadata_fields]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16] if parts else ""


def _make_transform(spec: TransformSpec) -> Transform:
    return transform_registry.factory(spec.plugin)(**spec.arguments)


def _make_sink(spec: SinkSpec) -> Sink:
    return sink_registry.factory(spec.plugin)(**spec.arguments)
