"""The states of a batch id, what can happen to it, and the table that joins the two.

The ledger applies this table to whole ranges of ids. *Lost* lies on top of the state that the restored checkpoint
gives the id, so it has no row of its own: `STAYS_LOST` says which events leave it in place.
"""

from __future__ import annotations

import enum


class BatchState(enum.Enum):
    """What the source knows of one batch id."""

    RECEIVED = "received"
    """Accepted; at least one of its records is still queued."""
    CAPTURED = "captured"
    """Accepted; all its records went to the sinks, no completed checkpoint covers that yet."""
    CONFIRMED = "confirmed"
    """A completed checkpoint, sinks included, covers it."""
    HELD = "held"
    """Refused with QUEUE_FULL, RETRY or DECRYPT_FAILED, not accepted since."""
    SETTLED = "settled"
    """Refused for good with DECODE_FAILED, or settled by the operator, not accepted since."""
    LOST = "lost"
    """A record of it was accepted by an earlier incarnation and is in no checkpoint; not received since."""
    GAP = "gap"
    """Never offered."""


class BatchEvent(enum.Enum):
    """What can happen to one batch id."""

    ACCEPTED = "accepted"
    """A record of it was queued (RECEIVED)."""
    RECOGNISED = "recognised"
    """A resend of a record that is already here (RECEIVED, nothing queued)."""
    REFUSED_FOR_NOW = "refused for now"
    """QUEUE_FULL, RETRY or DECRYPT_FAILED."""
    REFUSED_FOR_GOOD = "refused for good"
    """DECODE_FAILED."""
    SETTLED_BY_OPERATOR = "settled by the operator"
    EMITTED = "emitted"
    """Its last queued record went to the sinks."""
    COVERED = "covered"
    """The checkpoint that captured it completed."""
    FOUND_LOST = "found lost"
    """At a restore: accepted by an earlier incarnation after the restored position."""
    PASSED_OVER = "passed over"
    """Above K, and a higher id was offered first."""


class GapRule(enum.Enum):
    """What `batch_id_gaps` says of ids that were never offered."""

    AUTO = "auto"
    """A gap between ids that a collector offered is legal."""
    HOLD = "hold"
    """Ids are contiguous: every gap holds the watermark."""
    SKIP = "skip"
    """Every gap is legal, also after the loss of a host."""


_S, _E = BatchState, BatchEvent

TRANSITIONS: dict[tuple[BatchState, BatchEvent], BatchState] = {
    (_S.GAP, _E.ACCEPTED): _S.RECEIVED,
    (_S.GAP, _E.REFUSED_FOR_NOW): _S.HELD,
    (_S.GAP, _E.REFUSED_FOR_GOOD): _S.SETTLED,
    (_S.GAP, _E.SETTLED_BY_OPERATOR): _S.SETTLED,
    (_S.GAP, _E.FOUND_LOST): _S.GAP,
    (_S.GAP, _E.PASSED_OVER): _S.GAP,
    (_S.RECEIVED, _E.ACCEPTED): _S.RECEIVED,
    (_S.RECEIVED, _E.RECOGNISED): _S.RECEIVED,
    (_S.RECEIVED, _E.REFUSED_FOR_NOW): _S.RECEIVED,
    (_S.RECEIVED, _E.REFUSED_FOR_GOOD): _S.RECEIVED,
    (_S.RECEIVED, _E.SETTLED_BY_OPERATOR): _S.SETTLED,
    (_S.RECEIVED, _E.EMITTED): _S.CAPTURED,
    (_S.RECEIVED, _E.FOUND_LOST): _S.RECEIVED,
    (_S.CAPTURED, _E.ACCEPTED): _S.RECEIVED,
    (_S.CAPTURED, _E.RECOGNISED): _S.CAPTURED,
    (_S.CAPTURED, _E.REFUSED_FOR_NOW): _S.CAPTURED,
    (_S.CAPTURED, _E.REFUSED_FOR_GOOD): _S.CAPTURED,
    (_S.CAPTURED, _E.SETTLED_BY_OPERATOR): _S.SETTLED,
    (_S.CAPTURED, _E.COVERED): _S.CONFIRMED,
    (_S.CONFIRMED, _E.ACCEPTED): _S.RECEIVED,
    (_S.CONFIRMED, _E.RECOGNISED): _S.CONFIRMED,
    (_S.CONFIRMED, _E.REFUSED_FOR_NOW): _S.CONFIRMED,
    (_S.CONFIRMED, _E.REFUSED_FOR_GOOD): _S.CONFIRMED,
    (_S.CONFIRMED, _E.SETTLED_BY_OPERATOR): _S.CONFIRMED,
    (_S.CONFIRMED, _E.FOUND_LOST): _S.CONFIRMED,
    (_S.HELD, _E.ACCEPTED): _S.RECEIVED,
    (_S.HELD, _E.REFUSED_FOR_NOW): _S.HELD,
    (_S.HELD, _E.REFUSED_FOR_GOOD): _S.SETTLED,
    (_S.HELD, _E.SETTLED_BY_OPERATOR): _S.SETTLED,
    (_S.HELD, _E.FOUND_LOST): _S.GAP,
    (_S.SETTLED, _E.ACCEPTED): _S.RECEIVED,
    (_S.SETTLED, _E.REFUSED_FOR_NOW): _S.HELD,
    (_S.SETTLED, _E.REFUSED_FOR_GOOD): _S.SETTLED,
    (_S.SETTLED, _E.SETTLED_BY_OPERATOR): _S.SETTLED,
    (_S.SETTLED, _E.FOUND_LOST): _S.GAP,
}
"""(state below the overlay, event) -> next state. A missing pair cannot happen: asking for it is a bug.

A gap, held or settled id is never recognised (it has no accepted record), only a received one is emitted, only a
captured one covered, and only a gap is passed over. Found lost: the accepted record ended whatever refusal stood.
A captured id that the operator settles is not recognised any more: what he gave up may not come through a crash, so a
resend that was answered RECEIVED after his word must be a record of its own.
"""

STAYS_LOST: dict[BatchEvent, bool] = {
    _E.ACCEPTED: False,
    _E.RECOGNISED: False,
    _E.REFUSED_FOR_NOW: True,
    _E.REFUSED_FOR_GOOD: False,
    _E.SETTLED_BY_OPERATOR: False,
    _E.EMITTED: True,
    _E.COVERED: True,
    _E.FOUND_LOST: True,
    _E.PASSED_OVER: True,
}
"""Whether a lost id is still lost after the event. The state below moves by `TRANSITIONS` all the same, but for
REFUSED_FOR_NOW, which changes nothing of a lost id."""
