"""The contract of a sink.

A sink takes row batches and makes them durable in step with checkpoints. The engine calls every method from one
thread (the pump), in this order::

    open(restored) ( write* | prepare(n) -> commit(n) )* close

Guarantees a sink owes:

- after `prepare(n)` returns, everything written before it is flushed and every delivery is confirmed: a checkpoint
  never completes over a row that could still be lost;
- an empty manifest means that there is nothing to commit, and `commit` is not called for it;
- `commit(n)` is idempotent: it is repeated after a restore until it succeeds;
- rows may be written between `prepare(n)` and `commit(n)`: they belong to n + 1. Not to a deciding sink: its
  transaction is open until it commits, so the engine keeps rows back until then, or until n is aborted;
- an aborted checkpoint n is never committed by itself; what `prepare(n)` returned belongs to the next `prepare`;
- a `write` that raises took nothing of its rows, so the same rows are written again (unless the error says `reopen`);
- a row that it refuses for good goes to `SinkContext.reject`, from `write` or from `prepare`: where that returns, the
  row is taken care of and the sink goes on without it; everything that may heal is a `ComponentError`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from edgesocket.errors import BadRecordError
from edgesocket.rows import Rows, text_schema

Manifest = dict[str, Any]
"""What a sink prepared, as JSON: enough to commit it again after a restore."""


class CommitRole(enum.Enum):
    """How a sink takes part in the checkpoint procedure."""

    NONE = "none"
    """Nothing to commit: what is flushed at step 2 is visible at once (at least once)."""
    RECOMMITTABLE = "re-committable"
    """Prepared work is published at step 6; publishing twice is harmless (staged files, prepared transactions)."""
    DECIDING = "deciding"
    """Its own transaction, committed at step 4, carries (job, epoch, n) and decides whether n happened."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that a sink refuses for good.

    Attributes:
        batch_id: the batch it came in.
        reason: what is wrong with it, with at most 200 characters of any value.
        row: the row as JSON text, or the payload where the row is one.
    """

    batch_id: int
    reason: str
    row: bytes


def fail_on_rejected_row(rejected: RejectedRow) -> None:
    """What `on_rejected_row = fail` does: the job ends, and the error names the batch."""
    raise BadRecordError(rejected.batch_id, rejected.reason)


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What the engine tells a sink when it opens it.

    Attributes:
        job: job name.
        epoch: number of this incarnation; higher than every earlier one's.
        sink_id: name of this sink inside the job, stable across restarts.
        schema: names and Arrow types of the columns of every row it will be given.
        last_checkpoint: number of the checkpoint restored from, 0 for none.
        prepared: manifests of prepared work whose commit is not yet known to be done, by checkpoint number, rising.
            The engine calls `commit` for each right after `open`.
        reject: takes a row that the sink refuses for good. Raises BadRecordError under `on_rejected_row = fail`.
        file_label: not empty where two jobs write to one place (a replay beside its job): a sink that makes names of
            epoch and checkpoint puts it into them, as the other job has the same numbers.
    """

    job: str
    epoch: int
    sink_id: str
    schema: pa.Schema = field(default_factory=text_schema)
    last_checkpoint: int = 0
    prepared: dict[int, Manifest] = field(default_factory=dict)
    reject: Callable[[RejectedRow], None] = fail_on_rejected_row
    file_label: str = ""


class Sink(Protocol):
    """A destination for rows. See the module's text for the order of calls and what each owes."""

    commit_role: CommitRole

    def open(self, context: SinkContext) -> None:
        """Get ready to write; drop what an earlier incarnation staged and no record mentions."""

    def write(self, rows: Rows) -> None:
        """Take the rows, in order. All have the schema of the context."""

    def prepare(self, checkpoint: int) -> Manifest:
        """Flush and confirm everything written so far (step 2). Returns what `commit` will need, {} for nothing."""

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Publish prepared work (step 6; step 4 for a deciding sink). Idempotent."""

    def close(self) -> None:
        """Release resources; unprepared work may be thrown away. Called once, also after an error.

        Raises:
            RuleBrokenError: the rows of the whole run break a rule. Everything is released all the same; it ends the
                job as failed where it would have ended well, and changes nothing about what is confirmed.
        """


@runtime_checkable
class FlushingSink(Protocol):
    """What a sink may do besides: send rows that it holds back for a full batch, before a checkpoint asks for them."""

    def flush(self) -> None:
        """Send what is held back (`sink.flush.interval`), between any two other calls. Nothing is confirmed by it.

        Raises: as `write`; what is not sent is held back on.
        """


@runtime_checkable
class StagingSink(Protocol):
    """What a sink may do besides: leave the slow part of a checkpoint to another thread, so that rows go on meanwhile.

    `prepare(n)` of such a sink is `stage(n)` and `settle(n)` one behind the other, and the engine calls those two
    instead. On the other thread it calls `settle(n)`, then `commit(n)`; beside them, on the pump, only `write` and
    `flush`, whose rows belong to n + 1.
    """

    def stage(self, checkpoint: int) -> Manifest:
        """First half of `prepare`: what was written so far is set apart and named. Quick; raises as `prepare`."""

    def settle(self, checkpoint: int) -> None:
        """Second half: what `stage` named is flushed and confirmed. Raises as `prepare`, and the checkpoint aborts."""

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """See Sink; on the other thread."""


class DecidingSink(Sink, Protocol):
    """A sink whose own transaction decides whether a checkpoint happened.

    It is opened before anything is known of earlier checkpoints, then fenced, then asked.
    """

    def fence(self, epoch: int) -> None:
        """Make sure, in a transaction of its own, that no lower epoch can ever commit again."""

    def landed(self) -> int:
        """The highest checkpoint number its transactions carry for this job, 0 for none. Call `fence` first."""
