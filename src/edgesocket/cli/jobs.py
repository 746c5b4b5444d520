"""From a checked job to what the engine runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from edgesocket.components.registry import sinks as sink_registry
from edgesocket.components.sink import Sink
from edgesocket.components.state import Host
from edgesocket.config.job import JobSpec, SinkSpec
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.sources.edge_socket import EdgeSocketSource
from edgesocket.store.identity import host_identity


def this_host() -> Host:
    """This host, as claims name it."""
    identity = host_identity()
    return Host(identity.host, identity.boot)


def make_plan(
    spec: JobSpec,
    state_dir: Path,
    *,
    take_over: bool = False,
    drop_sink_state: frozenset[str] = frozenset(),
) -> JobPlan:
    """The engine's plan for a job."""
    env, source = spec.env, spec.sources[0]
    return JobPlan(
        name=spec.name,
        state_dir=state_dir,
        source_id=source.id,
        make_source=partial(EdgeSocketSource, spec.name, source.options),
        sinks=tuple(SinkPlan(sink.id, partial(_make_sink, sink)) for sink in spec.sinks),
        endpoint=source.options.endpoint or "",
        checkpoint_interval_s=env.checkpoint_interval_ms / 1000,
        checkpoint_timeout_s=env.checkpoint_timeout_ms / 1000,
        checkpoints_kept=env.checkpoints_kept,
        lease_ms=env.lease_ms,
        arrival_sync_ms=source.options.arrival_sync_ms,
        retry_times=env.retry_times,
        retry_interval_s=env.retry_interval_s,
        retry_reset_s=env.retry_reset_s,
        give_up_s=env.checkpoint_failure_timeout_ms / 1000,
        take_over=take_over,
        drop_sink_state=drop_sink_state,
    )


def _make_sink(spec: SinkSpec) -> Sink:
    return sink_registry.factory(spec.plugin)(**spec.arguments)
