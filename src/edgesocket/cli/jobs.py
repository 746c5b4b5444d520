"""What the verbs that deal with jobs share: reading a job file, finding its state, making an engine plan of it."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from edgesocket.components.registry import sinks as sink_registry
from edgesocket.components.sink import Sink
from edgesocket.components.state import Host
from edgesocket.config.document import SourceFile
from edgesocket.config.job import JobSpec, SinkSpec, load_job
from edgesocket.config.variables import parse_variables
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.errors import UsageError
from edgesocket.sources.edge_socket import EdgeSocketSource
from edgesocket.store.identity import host_identity

STATE_DIRECTORY = ".edgesocket"


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a job."""
    parser.add_argument("job", type=Path, metavar="JOB", help="the job file (HOCON, or JSON if it ends in .json)")
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where the job keeps its state (default: .edgesocket/<job name> beside the job file)",
    )
    parser.add_argument(
        "-i", "--variable", action="append", default=[], metavar="KEY=VALUE", help="a variable for ${KEY} in the job"
    )


def read_job(args: argparse.Namespace, *, strict: bool = False) -> JobSpec:
    """The job that the arguments name.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it cannot run as it is.
    """
    path: Path = args.job
    return load_job(
        _read_text(path),
        str(path),
        read_file=_read_included,
        environ=os.environ,
        variables=parse_variables(args.variable),
        strict=strict,
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error


def _read_included(name: str, including: str, /) -> SourceFile | None:
    path = Path(including).parent / name
    try:
        return SourceFile(str(path), path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def state_directory(args: argparse.Namespace, job_name: str) -> Path:
    """Where the job keeps its state."""
    if args.state_dir is not None:
        return Path(args.state_dir).absolute()
    return Path(args.job).absolute().parent / STATE_DIRECTORY / job_name


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
