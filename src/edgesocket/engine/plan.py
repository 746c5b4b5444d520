"""What the engine needs to know of one job. Made by the command line from the job file; knows no plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgesocket.components.sink import Sink
from edgesocket.components.source import ReadLimit, Source
from edgesocket.components.state import Scratch
from edgesocket.components.transform import Transform
from edgesocket.engine.helpers import Helpers
from edgesocket.engine.rounds import SharedHelpers
from edgesocket.engine.tap import Tap


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink of a job.

    Attributes:
        sink_id: names it in commit records, so it must not change between runs.
        make: makes the sink.
        inputs: ids of the source or the transforms it takes rows from; empty: the source.
        rejects_to_dead_letter: a row it refuses for good goes to the job's dead letters, instead of ending the job.
    """

    sink_id: str
    make: Callable[[], Sink]
    inputs: tuple[str, ...] = ()
    rejects_to_dead_letter: bool = False


@dataclass(frozen=True, slots=True)
class TransformPlan:
    """One transform of a job: its id, whose rows it takes (ids of the source or of transforms), and what makes it."""

    transform_id: str
    make: Callable[[], Transform]
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job, ready to run. Sources and sinks are made anew for each incarnation.

    Attributes:
        name: job name; the state belongs to it.
        state_dir: the local directory of the arrival log, and of whatever else the source keeps in files of its own.
        state: where the state lies, for messages; empty: in `state_dir`.
        apart: what looks after `state_dir` where the state lies elsewhere; None where it is part of the state.
        source_id, make_source: the source.
        sinks: where rows go.
        transforms: what happens to rows on their way, each behind those it takes rows from.
        dead_letter: the sink of records and rows that were refused for good.
        schema_hash: identifies the row type; a change goes on, logged.
        endpoint: the address collectors dial, for the claim and the status.
        checkpoint_interval_s: from the end of one checkpoint to the start of the next.
        checkpoint_timeout_s: a checkpoint that has not reached step 4 by then is aborted.
        read_limit: how fast records are read out of the source.
        flush_interval_s: how often sinks send what they hold back, besides at checkpoints; 0: never.
        checkpoints_kept: how many stay restorable.
        lease_ms: an owner that could not beat for this long is gone.
        arrival_sync_ms: how often the arrival log is synced (0: before every reply).
        retry_times, retry_interval_s, retry_reset_s: the restart budget.
        give_up_s: a store or sink that fails for this long fails the job.
        take_over: do not wait for the beat of another owner.
        drop_sink_state: sinks whose prepared work may be forgotten.
        file_label: what sinks put into names of files; see SinkContext.
        tap: where somebody may look at rows in flight.
        make_helpers: makes what beats, looks after the source and publishes the status; arguments as of `Helpers`.
    """

    name: str
    state_dir: Path
    source_id: str
    make_source: Callable[[], Source]
    sinks: tuple[SinkPlan, ...]
    transforms: tuple[TransformPlan, ...] = ()
    dead_letter: SinkPlan | None = None
    schema_hash: str = ""
    endpoint: str = ""
    checkpoint_interval_s: float = 10.0
    checkpoint_timeout_s: float = 60.0
    read_limit: ReadLimit | None = None
    flush_interval_s: float = 0.0
    checkpoints_kept: int = 3
    lease_ms: int = 3000
    arrival_sync_ms: int = 1000
    retry_times: int = 3
    retry_interval_s: float = 3.0
    retry_reset_s: float = 600.0
    give_up_s: float = 600.0
    take_over: bool = False
    drop_sink_state: frozenset[str] = frozenset()
    state: str = ""
    apart: Scratch | None = None
    file_label: str = ""
    tap: Tap = field(default_factory=Tap, compare=False)
    make_helpers: Callable[..., Helpers | SharedHelpers] = Helpers
