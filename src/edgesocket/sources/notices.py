"""What a source tells the log by itself: what holds the watermark, and what no reply says of a batch.

Each fact is told when it begins and then now and then, however often it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgesocket.ingress.batch_states import BatchState
from edgesocket.telemetry.events import (
    BatchIdsReused,
    CheckpointAwaited,
    IvsReused,
    LedgerEmptied,
    LedgerFilled,
    SinksAwaited,
    TextReplaced,
    WatermarkHeld,
)

NAMED_AFTER_S = 30.0
"""An id that holds the watermark this long is named, with what to do."""

NAMED_AGAIN_AFTER_S = 300.0

_ON_THEIR_WAY = {BatchState.RECEIVED: SinksAwaited, BatchState.CAPTURED: CheckpointAwaited}
"""Any other id only the collector or an operator can move."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to tell, as of one moment; counts since the start.

    Attributes:
        holder: the id that holds the watermark, with its state.
        repeated: batches under an id already used, with another payload.
        last_repeated_id: the newest of them.
        replaced: records in which bytes that are not UTF-8 were replaced.
        reused_ivs: encrypted packets whose iv another record had.
        overloaded: whether the ledger holds as many id ranges as it may.
    """

    holder: tuple[int, BatchState] | None
    repeated: int
    last_repeated_id: int
    replaced: int
    reused_ivs: int
    overloaded: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """What holds the watermark, and since when (seconds of the clock that `look` is given)."""

    id_: int
    state: BatchState
    since: float


class Notices:
    """Remembers what was told. Used by one thread, but `holder` may be read by any.

    Args:
        report: told what is new.
        job: the job's name, as it is typed in a command.
    """

    def __init__(self, report: Callable[[object], None], job: str = "JOB") -> None:
        self.holder: Holder | None = None
        self._report = report
        self._job = job
        self._named_at: float | None = None
        self._told_repeated = 0
        self._told_replaced = 0
        self._told_reused_ivs = 0
        self._told_overloaded = False

    def look(self, facts: Facts, now: float) -> None:
        """Tell what is new; called about once a second."""
        self._watch_holder(facts.holder, now)
        if facts.repeated != self._told_repeated:
            self._report(BatchIdsReused(facts.repeated - self._told_repeated, facts.last_repeated_id))
            self._told_repeated = facts.repeated
        if facts.replaced != self._told_replaced:
            self._report(TextReplaced(facts.replaced - self._told_replaced))
            self._told_replaced = facts.replaced
        if facts.reused_ivs != self._told_reused_ivs:
            self._report(IvsReused(facts.reused_ivs - self._told_reused_ivs))
            self._told_reused_ivs = facts.reused_ivs
        if facts.overloaded != self._told_overloaded:
            self._report(LedgerFilled() if facts.overloaded else LedgerEmptied())
            self._told_overloaded = facts.overloaded

    def _watch_holder(self, found: tuple[int, BatchState] | None, now: float) -> None:
        holder = self.holder
        if found is None or holder is None or found != (holder.id_, holder.state):
            self.holder = None if found is None else Holder(*found, now)
            self._named_at = None
            return
        lately = self._named_at is not None and now - self._named_at < NAMED_AGAIN_AFTER_S
        if now - holder.since >= NAMED_AFTER_S and not lately:
            self._named_at = now
            held_for_s = now - holder.since
            awaited = _ON_THEIR_WAY.get(holder.state)
            self._report(
                WatermarkHeld(holder.id_, holder.state.value, held_for_s, self._job)
                if awaited is None
                else awaited(holder.id_, held_for_s)
            )
