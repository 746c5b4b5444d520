"""The contract of a source.

A source receives records on threads of its own and hands them to the engine's pump in blocks. The engine calls,
from the pump thread unless said otherwise::

    open(context, restored)   everything restored, nothing listening yet
    start()                   the port is open
    ( poll* | cut -> complete or abort )*
    stop()                    no new records; what is queued can still be polled
    close()

Guarantees a source owes: what `poll` returned before `cut` is *captured* by that cut, what it returns later is not;
the cut is one moment for everything the source remembers; `complete` is the only thing that moves what it confirms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from edgesocket.components.dead_letter import DeadLetter
from edgesocket.components.state import VitalNotes
from edgesocket.rows import Rows

SourceState = dict[str, Any]
"""What a source remembers at a cut, as JSON: it is written into the commit record."""


@dataclass(frozen=True, slots=True)
class SourceCut:
    """A source as of one moment.

    Attributes:
        state: goes into the commit record.
        encode: called once, on another thread, for the bytes that go into state blobs: blob kind -> byte strings to
            be joined. What it refers to must not change any more.
        log_index: the newest operator's entry of the commit log that is applied in it.
    """

    state: SourceState
    encode: Callable[[], dict[str, list[bytes | memoryview]]]
    log_index: int


@dataclass(frozen=True, slots=True)
class OperatorSettlement:
    """An operator's word on batches that hold the watermark.

    Attributes:
        log_index: its place in the commit log.
        ranges: id ranges, first and last inclusive.
        ends_unclean: True when the operator says that nothing is missing after an unclean end.
    """

    log_index: int
    ranges: tuple[tuple[int, int], ...]
    ends_unclean: bool = False


@dataclass(frozen=True, slots=True)
class RestoredSource:
    """What the commit log knows when an incarnation starts.

    Attributes:
        state: state of the newest record N, or None where there is none.
        blob_state: state of the record whose blob could be read: N's own, or that of an older M; None without any.
        blobs: the bytes of those blobs, by kind; a kind is missing where no valid blob was found.
        rolled_back: the operator went back to an older checkpoint: what was accepted after it is unknown.
        unclean_floors: K as each incarnation after that of record N started with it, by epoch.
        previous_end_known: whether the arrival log of the incarnation before is complete.
        settlements: operator entries newer than record N.
        arrivals_here: whether the arrival log of the incarnation before is here; of one that is not, what was kept
            in the store is all there is (`SourceContext.vital`).
    """

    state: SourceState | None = None
    blob_state: SourceState | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    rolled_back: bool = False
    unclean_floors: dict[int, int | None] = field(default_factory=dict)
    previous_end_known: bool = True
    settlements: tuple[OperatorSettlement, ...] = ()
    arrivals_here: bool = True


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """How fast records may be handed to the engine; 0 is without limit.

    Attributes:
        rows_per_second: records.
        bytes_per_second: bytes of their payloads, as they are queued.
    """

    rows_per_second: int = 0
    bytes_per_second: int = 0


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the engine tells a source when it opens it.

    Attributes:
        job: job name.
        epoch: number of this incarnation.
        state_dir: where the source may keep files of its own (the arrival log).
        still_owner: whether this incarnation may send another byte; cheap, safe on any thread.
        report: tells the engine of something that happened (a past-tense event, or a sentence), for the log; safe
            on any thread.
        failed: tells the engine that the source cannot go on; safe on any thread.
        give_up_s: a store that fails for this long fails the job.
        dead_letter: takes a record that cannot become a row, on the pump's thread, from within `poll`.
        read_limit: what `poll` keeps to until `stop`; None: as fast as it goes.
        vital: keeps notes that must outlive `state_dir`; None where that is part of the state.
    """

    job: str
    epoch: int
    state_dir: Path
    still_owner: Callable[[], bool]
    report: Callable[[object], None]
    failed: Callable[[BaseException], None]
    give_up_s: float = 600.0
    dead_letter: Callable[[DeadLetter], None] = lambda _: None
    read_limit: ReadLimit | None = None
    vital: VitalNotes | None = None


class Source(Protocol):
    """Where records come from. See the module's text for the order of calls."""

    schema: pa.Schema
    """Names and types of the columns of its rows."""

    def open(self, context: SourceContext, restored: RestoredSource) -> int | None:
        """Take over what is restored. Returns K, the id above which ids that are passed over count as lost."""

    def start(self) -> None:
        """Open the port. Raises ListenerError when it cannot be bound."""

    def poll(self, timeout_s: float) -> Iterable[Rows]:
        """Rows for the sinks; nothing after `timeout_s` without any, or when woken.

        Rows are made as they are asked for; all are asked for before anything else is called.

        Raises:
            BadRecordError: a record cannot become a row, and the job is to fail.
        """

    def wake(self) -> None:
        """End a `poll` that waits. Safe on any thread."""

    def cut(self) -> SourceCut:
        """Checkpoint step 1."""

    def complete(self) -> None:
        """Checkpoint steps 7 and 8: the last cut is covered by a completed checkpoint."""

    def abort(self) -> None:
        """The last cut will not complete; what it captured belongs to the next one."""

    def settle(self, settlement: OperatorSettlement) -> None:
        """Apply an operator's word while running."""

    def tick(self) -> None:
        """Called about every second, from a housekeeping thread."""

    def stop(self, grace_s: float) -> None:
        """Close the listener, end reading at a line end, send owed replies for at most `grace_s` seconds.

        Safe on any thread; a `start` under way ends with ListenerError, and one that comes later opens nothing.
        """

    def silence(self) -> None:
        """Close the listener and the conversation at once, without another byte (fenced). Safe on any thread."""

    def close(self, *, clean: bool) -> bool:
        """Release everything. `clean`: nothing failed, so what is remembered of arrivals can be closed as complete.

        Returns whether it is complete and durable.
        """

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON. Safe on any thread."""
