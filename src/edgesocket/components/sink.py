"""The contract of a sink.

A sink takes row batches and makes them durable in step with checkpoints. The engine calls every method from one
thread (the pump), in this order::

    open(restored) ( write* | prepare(n) -> commit(n) )* close

Guarantees a sink owes:

- after `prepare(n)` returns, everything written before it is flushed and every delivery is confirmed: a checkpoint
  never completes over a row that could still be lost;
- an empty manifest means that there is nothing to commit, and `commit` is not called for it;
- `commit(n)` is idempotent: it is repeated after a restore until it succeeds;
- rows may be written between `prepare(n)` and `commit(n)`: they belong to n + 1;
- an aborted checkpoint n is never committed by itself; what `prepare(n)` returned belongs to the next `prepare`;
- a `write` that raises took nothing of its block, so the same block is written again (unless the error says `reopen`);
- it raises `BadRecordError` for a row it refuses for good, `ComponentError` for everything that may heal.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgesocket.records import RecordBlock

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
class SinkContext:
    """What the engine tells a sink when it opens it.

    Attributes:
        job: job name.
        epoch: number of this incarnation; higher than every earlier one's.
        sink_id: name of this sink inside the job, stable across restarts.
        columns: names of the row's columns.
        last_checkpoint: number of the checkpoint restored from, 0 for none.
        prepared: manifests of prepared work whose commit is not yet known to be done, by checkpoint number, rising.
            The engine calls `commit` for each right after `open`.
    """

    job: str
    epoch: int
    sink_id: str
    columns: tuple[str, ...] = ("value",)
    last_checkpoint: int = 0
    prepared: dict[int, Manifest] = field(default_factory=dict)


class Sink(Protocol):
    """A destination for rows. See the module's text for the order of calls and what each owes."""

    commit_role: CommitRole

    def open(self, context: SinkContext) -> None:
        """Get ready to write; drop what an earlier incarnation staged and no record mentions."""

    def write(self, block: RecordBlock) -> None:
        """Take the records of one block, in order. Payloads are decompressed UTF-8 text."""

    def prepare(self, checkpoint: int) -> Manifest:
        """Flush and confirm everything written so far (step 2). Returns what `commit` will need, {} for nothing."""

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Publish prepared work (step 6; step 4 for a deciding sink). Idempotent."""

    def close(self) -> None:
        """Release resources; unprepared work may be thrown away. Called once, also after an error."""


class DecidingSink(Sink, Protocol):
    """A sink whose own transaction decides whether a checkpoint happened.

    It is opened before anything is known of earlier checkpoints, then fenced, then asked.
    """

    def fence(self, epoch: int) -> None:
        """Make sure, in a transaction of its own, that no lower epoch can ever commit again."""

    def landed(self) -> int:
        """The highest checkpoint number its transactions carry for this job, 0 for none. Call `fence` first."""
