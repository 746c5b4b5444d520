"""The ledger: what the source knows of every batch id.

Theory of operation
-------------------
An id is in exactly one *state*. States change by *events*, and the whole rule is the table in `batch_states` plus
one overlay: *lost* lies on top of the state that the restored checkpoint gives the id (an id may be confirmed there
and still have a later record that was accepted and lost). `STAYS_LOST` says which events leave the overlay in place.

The ledger never stores an entry an id: each state is a set of id ranges, and *gap* and (up to the watermark)
*confirmed* are what no set holds. So a hundred million ids in order cost as much as one.

- ``floor`` is the first id ever offered, minus one.
- ``watermark`` (w) is the highest id such that every id in (floor, w] is confirmed, settled or a legal gap. It never
  falls, and it moves only when a checkpoint completes: 0 until the first one does.
- ``ack_number`` (a) is what a reply may promise: min(w, m - 1), where m is the lowest id anywhere that is received,
  captured, held or lost. So an id that is offered again below w takes the promise back until it is confirmed.
- ``unclean_floor`` (K): an incarnation ended without anyone knowing what it had accepted. From then on an id above
  K that is passed over may have been one of those, and counts as lost.

From the floor to the watermark the ledger stores only what is not confirmed. Legal gaps there are remembered too, the
newest `MAX_GAP_RANGES` ranges of them; a never offered id below those counts as confirmed. At and below the floor (a
collector that began in the middle, or began its ids again) it is the other way round: there the newest
`MAX_GAP_RANGES` ranges of confirmed ids are stored, and whatever is not stored counts as a gap.

Not thread-safe: the shell holds one lock around ledger and queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from edgesocket.errors import LocalProtocolError
from edgesocket.ids import IdRange, IdRanges
from edgesocket.ingress.batch_states import STAYS_LOST, TRANSITIONS, BatchEvent, BatchState, GapRule
from edgesocket.protocol.replies import PENDING, RESEND, RETRY, Reply, ack

MAX_LEDGER_RANGES = 1_000_000
"""With more ranges than this the source answers QUEUE_FULL: about 100 MB of memory."""

MAX_OVERLOAD_HOLDS = 100_000
"""So many ranges more may be held meanwhile. For a collector that goes on beyond them, whatever lies between the ids
that it was refused is held with them."""

MAX_SETTLED_RANGES = 100_000
"""Settled ids at or below the watermark beyond this many ranges are forgotten, lowest first."""

MAX_GAP_RANGES = 10_000
"""Legal gaps below the watermark, and confirmed ids at or below the floor, beyond this many ranges are forgotten,
lowest first."""


_S, _E = BatchState, BatchEvent
_MAKES_LOST = frozenset({_E.FOUND_LOST, _E.PASSED_OVER})


@dataclass(slots=True)
class LedgerImage:
    """The ledger as of a cut, as the commit record carries it.

    `watermark` is the value that holds once the checkpoint completes; `captured` and `confirmed` list only ids above
    it or at most the floor, `gaps` only ids at or below it. The queued ids are not here: the queue's own image has
    them, in order.
    """

    watermark: int = 0
    floor: int | None = None
    unclean_floor: int | None = None
    highest_offered: int = 0
    highest_accepted: int = 0
    captured: list[list[int]] = field(default_factory=list)
    confirmed: list[list[int]] = field(default_factory=list)
    held: list[list[int]] = field(default_factory=list)
    settled: list[list[int]] = field(default_factory=list)
    lost: list[list[int]] = field(default_factory=list)
    gaps: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _AtAuth:
    """Which ids were confirmed when this connection authenticated."""

    floor: int
    watermark: int
    listed: IdRanges
    exceptions: tuple[IdRanges, ...]

    def confirmed(self, id_: int) -> bool:
        if self.floor < id_ <= self.watermark or id_ in self.listed:
            return not any(id_ in ids for ids in self.exceptions)
        return False


class Ledger:
    """States of all batch ids of one source, as id ranges."""

    def __init__(self, gap_rule: GapRule = GapRule.AUTO) -> None:
        self.gap_rule = gap_rule
        self.watermark = 0
        self.floor: int | None = None
        self.unclean_floor: int | None = None
        self.highest_offered = 0
        self.highest_accepted = 0
        self.earlier_accepted = 0
        """The highest id that any earlier incarnation is known to have accepted."""
        self._received = IdRanges()
        self._more_queued: dict[int, int] = {}
        """Ids with more than one queued record: how many beyond the first."""
        self._captured = IdRanges()
        self._captured_in_cut = IdRanges()
        """Captured ids that the checkpoint now under way covers."""
        self._confirmed = IdRanges()
        """Confirmed ids above the watermark, or not above the floor."""
        self._held_here = IdRanges()
        """Held by a refusal that this connection got."""
        self._held_earlier = IdRanges()
        self._settled = IdRanges()
        self._lost = IdRanges()
        self._gaps = IdRanges()
        """Legal gaps at or below the watermark."""
        self._gaps_forgotten: int = 0
        """Up to here a legal gap may count as confirmed."""
        self._overload_first: int | None = None
        self._watermark_of_cut: int | None = None
        self._at_auth = _AtAuth(0, 0, IdRanges(), ())

    # ---- questions -----------------------------------------------------------------------------------------------

    def state(self, id_: int) -> BatchState:
        """The state of one id."""
        return _S.LOST if id_ in self._lost else self._state_below(id_)

    def _state_below(self, id_: int) -> BatchState:
        return self._segments(id_, id_)[0][0]

    @property
    def highest_known(self) -> int:
        """No id above this one was ever offered or settled."""
        settled = self._settled.highest
        return self.highest_offered if settled is None or settled < self.highest_offered else settled

    @property
    def ack_number(self) -> int:
        """The watermark that a reply may promise now."""
        blockers = [
            lowest
            for ids in (
                self._received,
                self._captured,
                self._captured_in_cut,
                self._held_here,
                self._held_earlier,
                self._lost,
            )
            if (lowest := ids.lowest) is not None
        ]
        return min(self.watermark, min(blockers) - 1) if blockers else self.watermark

    def answer_commit(self, id_: int) -> Reply:
        """The reply to `__COMMIT__:<id_>` (the id is valid): the first rule that matches answers."""
        state = self.state(id_)
        if state in (_S.RECEIVED, _S.CAPTURED):
            return PENDING
        if state is _S.LOST or id_ in self._held_earlier:
            return RESEND
        promised = self.ack_number
        if id_ <= promised:
            return ack(promised)
        if id_ <= self.watermark or state in (_S.CONFIRMED, _S.SETTLED):
            return PENDING
        if state is _S.GAP and (
            id_ <= self.earlier_accepted or (self.unclean_floor is not None and id_ > self.highest_offered)
        ):
            return RESEND
        return RETRY

    @property
    def oldest_unconfirmed(self) -> int | None:
        """The lowest id that was received and is not confirmed; None where there is none."""
        lowest = [ids.lowest for ids in (self._received, self._captured, self._captured_in_cut)]
        return min((id_ for id_ in lowest if id_ is not None), default=None)

    def holder(self) -> tuple[int, BatchState] | None:
        """The id that keeps the watermark from moving on, with its state; None when nothing does.

        Received and captured ids are on their way and do not count, unless nothing else is there to name.
        """
        base = max(self.watermark, self.floor or 0)
        found: list[tuple[int, BatchState]] = []
        for ids, state in (
            (self._held_here, _S.HELD),
            (self._held_earlier, _S.HELD),
            (self._lost, _S.LOST),
            (self._received, _S.RECEIVED),
            (self._captured, _S.CAPTURED),
            (self._captured_in_cut, _S.CAPTURED),
        ):
            lowest = ids.lowest
            if lowest is not None:
                found.append((lowest, state))
        if self.gap_rule is GapRule.HOLD:
            end = self._solid_end(base)
            if end < self.highest_offered and self.state(end + 1) is _S.GAP:
                found.append((end + 1, _S.GAP))
        return min(found, key=lambda pair: pair[0]) if found else None

    @property
    def range_count(self) -> int:
        """How many id ranges the ledger holds."""
        # Asked for every block: written out, a fifth of what a loop over the sets costs.
        return (
            len(self._received.firsts)
            + len(self._captured.firsts)
            + len(self._captured_in_cut.firsts)
            + len(self._held_here.firsts)
            + len(self._held_earlier.firsts)
            + len(self._settled.firsts)
            + len(self._confirmed.firsts)
            + len(self._gaps.firsts)
            + len(self._lost.firsts)
        )

    @property
    def overloaded(self) -> bool:
        """Whether the ledger holds as many ranges as it may."""
        return self.range_count >= MAX_LEDGER_RANGES

    def has_record(self, id_: int) -> bool:
        """Whether a record of this id is queued, with the sinks or confirmed, whatever else of it may be lost."""
        return self._state_below(id_) in (_S.RECEIVED, _S.CAPTURED, _S.CONFIRMED)

    def was_confirmed_at_auth(self, id_: int) -> bool:
        """Whether an id was already confirmed, and known so, when this connection authenticated.

        Where gaps were forgotten nobody can tell whether an id was ever offered: there the answer is yes.
        """
        return id_ <= self._gaps_forgotten or self._at_auth.confirmed(id_)

    def counts(self) -> dict[str, int]:
        """How many ids are in each state that has a set, for the status."""
        return {
            "received": self._received.id_count,
            "captured": self._captured.id_count + self._captured_in_cut.id_count,
            "held": self._held_here.id_count + self._held_earlier.id_count,
            "settled": self._settled.id_count,
            "lost": self._lost.id_count,
        }

    # ---- events of a conversation --------------------------------------------------------------------------------

    def session_started(self) -> None:
        """A collector authenticated: what it was refused before is now an earlier refusal."""
        self._refusals_are_earlier()
        exceptions = (
            self._received,
            self._captured,
            self._captured_in_cut,
            self._held_earlier,
            self._settled,
            self._lost,
            self._gaps,
        )
        self._at_auth = _AtAuth(
            self.watermark if self.floor is None else self.floor,
            self.watermark,
            self._confirmed.copy(),
            tuple(ids.copy() for ids in exceptions if ids),
        )

    def _refusals_are_earlier(self) -> None:
        self._held_earlier.update(self._held_here)
        self._held_here.clear()

    def accept(self, first: int, last: int) -> None:
        """A record of each id of `first..last` was queued."""
        if first > self.highest_known:
            self._offered(first, last)
            self._received.add(first, last)
        else:
            self._offered(first, last)
            for low, high in self._received.pieces(first, last):
                for id_ in range(low, high + 1):
                    self._more_queued[id_] = self._more_queued.get(id_, 0) + 1
            self._apply(_E.ACCEPTED, first, last)
        self.highest_accepted = max(self.highest_accepted, last)
        self._overload_first = None

    def recognise(self, id_: int) -> bool:
        """A resend of a record that is here already. Returns whether the id was lost until now."""
        was_lost = id_ in self._lost
        self._apply(_E.RECOGNISED, id_, id_)
        return was_lost

    def hold(self, first: int, last: int) -> None:
        """Each id of `first..last` was refused with QUEUE_FULL, RETRY or DECRYPT_FAILED."""
        if self.range_count >= MAX_LEDGER_RANGES + MAX_OVERLOAD_HOLDS:
            # One range from the first refused id on: too much is held then, never too little, and memory stays put.
            self._overload_first = first = min(first, self._overload_first or first)
            last = max(last, self.highest_offered)
        else:
            self._overload_first = None
        self._offered(first, last)
        self._apply(_E.REFUSED_FOR_NOW, first, last)

    def refuse(self, id_: int) -> None:
        """The id was refused for good with DECODE_FAILED."""
        self._offered(id_, id_)
        self._apply(_E.REFUSED_FOR_GOOD, id_, id_)

    def settle(self, first: int, last: int) -> IdRanges:
        """The operator settled `first..last`. Returns the ids among them whose queued records must be discarded."""
        queued = IdRanges(self._received.pieces(first, last))
        for id_ in [id_ for id_ in self._more_queued if id_ in queued]:
            del self._more_queued[id_]
        self._apply(_E.SETTLED_BY_OPERATOR, first, last)
        return queued

    def end_unclean(self) -> None:
        """The operator says that nothing is missing after the last unclean end."""
        self.unclean_floor = None

    def _offered(self, first: int, last: int) -> None:
        if self.floor is None:
            self.floor = first - 1
        if last <= self.highest_offered:
            return
        if self.unclean_floor is not None and self.gap_rule is not GapRule.SKIP:
            passed_from = max(self.highest_offered, self.unclean_floor) + 1
            if first > passed_from:
                self._apply(_E.PASSED_OVER, passed_from, first - 1)
        self.highest_offered = last

    # ---- events of the pipeline ----------------------------------------------------------------------------------

    def emit(self, runs: Iterable[IdRange]) -> None:
        """One queued record of each id of `runs`, in queue order, went to the sinks."""
        if self._more_queued:
            runs = self._without_more_queued(runs)
        done = IdRanges(sorted(runs))
        self._received.difference_update(done)
        self._captured.update(done)

    def _without_more_queued(self, runs: Iterable[IdRange]) -> list[IdRange]:
        """Take one queued record off each id that has several; return the ids that are done with."""
        done: list[IdRange] = []
        for first, last in runs:
            position = first
            for id_ in self._more_queued_of(first, last):
                if id_ > position:
                    done.append((position, id_ - 1))
                position = id_ + 1
                self._more_queued[id_] -= 1
                if not self._more_queued[id_]:
                    del self._more_queued[id_]
            if position <= last:
                done.append((position, last))
        return done

    def _more_queued_of(self, first: int, last: int) -> list[int]:
        if last - first < len(self._more_queued):
            return [id_ for id_ in range(first, last + 1) if id_ in self._more_queued]
        return sorted(id_ for id_ in self._more_queued if first <= id_ <= last)

    def cut(self) -> LedgerImage:
        """Checkpoint step 1: everything emitted so far belongs to this checkpoint. One cut at a time."""
        if self._watermark_of_cut is not None:
            raise LocalProtocolError("a checkpoint is under way already")
        self._captured_in_cut, self._captured = self._captured, IdRanges()
        watermark = self._watermark_once_complete()
        self._watermark_of_cut = watermark
        held = self._held_earlier.copy()
        held.update(self._held_here)
        gaps = self._gaps.copy()
        gaps.update(self._gaps_below(watermark))
        return LedgerImage(
            watermark=watermark,
            floor=self.floor,
            unclean_floor=self.unclean_floor,
            highest_offered=self.highest_offered,
            highest_accepted=self.highest_accepted,
            captured=self._without_implied(self._captured_in_cut, watermark).to_list(),
            confirmed=self._without_implied(self._confirmed, watermark).to_list(),
            held=held.to_list(),
            settled=self._settled.to_list(),
            lost=self._lost.to_list(),
            gaps=gaps.to_list()[-MAX_GAP_RANGES:],
        )

    def complete(self) -> None:
        """Checkpoint step 7: the cut's checkpoint is durable, sinks included."""
        if self._watermark_of_cut is None:
            raise LocalProtocolError("no checkpoint is under way")
        kept_from = self._gaps_kept_from()
        if kept_from > max(self.watermark, self.floor or 0) + 1:
            self._gaps_forgotten = kept_from - 1
        self._gaps.update(self._gaps_below(self._watermark_of_cut))
        self._gaps_forgotten = max(self._gaps_forgotten, self._gaps.keep_highest(MAX_GAP_RANGES))
        self.watermark = max(self.watermark, self._watermark_of_cut)
        self._watermark_of_cut = None
        self._confirmed.update(self._without_implied(self._captured_in_cut, self.watermark))
        self._captured_in_cut.clear()
        self._confirmed = self._without_implied(self._confirmed, self.watermark)
        self._forget_old_confirmed()
        self._forget_old_settled()

    def abort(self) -> None:
        """The cut's checkpoint will not complete: what it captured goes into the next one."""
        if self._watermark_of_cut is None:
            raise LocalProtocolError("no checkpoint is under way")
        self._watermark_of_cut = None
        self._captured.update(self._captured_in_cut)
        self._captured_in_cut.clear()

    def _without_implied(self, ids: IdRanges, watermark: int) -> IdRanges:
        """`ids` but for those that need no set to be confirmed: above the floor, up to the watermark."""
        rest = ids.copy()
        rest.remove((self.floor or 0) + 1, watermark)
        return rest

    def _gaps_below(self, watermark: int) -> IdRanges:
        """The legal gaps that the watermark steps over when it moves up to `watermark`, the newest of them."""
        first = self._gaps_kept_from()
        known = IdRanges()
        for ids in (self._lost, *(ids for ids, _ in self._listed())):
            known.update(IdRanges(ids.pieces(first, watermark)))
        return IdRanges(known.missing(first, watermark) if first <= watermark else ())

    def _gaps_kept_from(self) -> int:
        first = max(self.watermark, self.floor or 0) + 1
        for ids in (self._captured_in_cut, self._confirmed):
            first = max(first, ids.first_of_newest(MAX_GAP_RANGES))
        return first

    def _watermark_once_complete(self) -> int:
        if self.floor is None:
            return self.watermark
        base = max(self.watermark, self.floor)
        limit = self._solid_end(base if self.gap_rule is GapRule.HOLD else max(base, self.highest_offered))
        for ids in (self._received, self._held_here, self._held_earlier, self._lost):
            blocker = ids.first_at_or_above(base + 1)
            if blocker is not None:
                limit = min(limit, blocker - 1)
        return max(self.watermark, limit)

    def _solid_end(self, base: int) -> int:
        """The last id of the unbroken run above `base` of ids that are captured, confirmed or settled."""
        position = base
        moved = True
        while moved:
            moved = False
            for ids in (self._captured, self._captured_in_cut, self._confirmed, self._settled):
                end = ids.run_end(position + 1)
                if end is not None:
                    position, moved = end, True
        return position

    def _forget_old_confirmed(self) -> None:
        old = self._confirmed.pieces(1, self.floor or 0)
        if len(old) > MAX_GAP_RANGES:
            self._confirmed.remove(1, old[-MAX_GAP_RANGES - 1][1])

    def _forget_old_settled(self) -> None:
        excess = len(self._settled) - MAX_SETTLED_RANGES
        if excess > 0:
            for first, last in list(self._settled)[:excess]:
                self._settled.remove(first, min(last, self.watermark))

    # ---- restore -------------------------------------------------------------------------------------------------

    def restore(self, image: LedgerImage, queued_runs: Iterable[IdRange]) -> None:
        """Take over the image of the last completed checkpoint. `queued_runs` come from the queue, in order."""
        self.watermark = image.watermark
        self.floor = image.floor
        self.unclean_floor = image.unclean_floor
        self.highest_offered = image.highest_offered
        self.highest_accepted = self.earlier_accepted = image.highest_accepted
        for ranges in (image.captured, image.confirmed):
            for first, last in ranges:
                self._confirmed.add(first, last)
        for first, last in image.held:
            self._held_earlier.add(first, last)
        for first, last in image.settled:
            self._settled.add(first, last)
        for first, last in image.lost:
            self._lost.add(first, last)
        for first, last in image.gaps:
            self._gaps.add(first, last)
        for first, last in queued_runs:
            for low, high in self._received.pieces(first, last):
                for id_ in range(low, high + 1):
                    self._more_queued[id_] = self._more_queued.get(id_, 0) + 1
            self._received.add(first, last)
            self._confirmed.remove(first, last)

    def replay_accepted(self, first: int, last: int) -> None:
        """The arrival log says: an earlier incarnation accepted `first..last` after the restored position."""
        self._offered(first, last)
        self.highest_accepted = max(self.highest_accepted, last)
        self.earlier_accepted = max(self.earlier_accepted, last)
        self._apply(_E.FOUND_LOST, first, last)

    def mark_lost(self, first: int, last: int) -> None:
        """Records of `first..last` that the commit record calls queued are in no readable blob."""
        self._apply(_E.FOUND_LOST, first, last)

    def replay_held(self, first: int, last: int) -> None:
        """The arrival log says: `first..last` were refused for now."""
        self._offered(first, last)
        self._apply(_E.REFUSED_FOR_NOW, first, last)
        self._refusals_are_earlier()

    def replay_refused(self, first: int, last: int) -> None:
        """The arrival log says: `first..last` were refused for good."""
        self._offered(first, last)
        self._apply(_E.REFUSED_FOR_GOOD, first, last)

    def replay_recognised(self, first: int, last: int) -> None:
        """The arrival log says: lost ids `first..last` were resent and recognised."""
        self._lost.remove(first, last)

    def ended_unclean(self) -> None:
        """The incarnation before ended without a complete arrival log: sets K to the highest id known."""
        if self.gap_rule is GapRule.SKIP or self.floor is None:
            return
        if self.unclean_floor is not None:
            self._apply(_E.PASSED_OVER, self.unclean_floor + 1, self.highest_offered)
        self.unclean_floor = self.highest_offered

    def _never_offered(self, first: int, last: int) -> list[IdRange]:
        """The ids of `first..last` (none if empty) that are gaps and not lost."""
        return [(low, high) for state, low, high in self.segments(first, last) if state is _S.GAP]

    # ---- the table, applied to ranges ----------------------------------------------------------------------------

    def _listed(self) -> tuple[tuple[IdRanges, BatchState], ...]:
        """The sets below the overlay; an id is in one of them at most."""
        return (
            (self._received, _S.RECEIVED),
            (self._captured, _S.CAPTURED),
            (self._captured_in_cut, _S.CAPTURED),
            (self._held_here, _S.HELD),
            (self._held_earlier, _S.HELD),
            (self._settled, _S.SETTLED),
            (self._confirmed, _S.CONFIRMED),
            (self._gaps, _S.GAP),
        )

    def _segments(self, first: int, last: int) -> list[tuple[BatchState, int, int]]:
        """`first..last` cut into pieces of one state each (the state below the overlay), rising."""
        found: list[tuple[int, int, BatchState]] = []
        for ids, state in self._listed():
            found.extend((low, high, state) for low, high in ids.pieces(first, last))
        found.sort(key=lambda piece: piece[0])
        segments: list[tuple[BatchState, int, int]] = []
        position = first
        for low, high, state in found:
            if low > position:
                segments.extend(self._unlisted(position, low - 1))
            segments.append((state, low, high))
            position = high + 1
        if position <= last:
            segments.extend(self._unlisted(position, last))
        return segments

    def _unlisted(self, first: int, last: int) -> list[tuple[BatchState, int, int]]:
        """What no set holds: confirmed from the floor to the watermark, a gap elsewhere."""
        floor = self.watermark if self.floor is None else self.floor
        pieces = (
            (_S.GAP, first, min(last, floor)),
            (_S.CONFIRMED, max(first, floor + 1), min(last, self.watermark)),
            (_S.GAP, max(first, floor + 1, self.watermark + 1), last),
        )
        return [piece for piece in pieces if piece[1] <= piece[2]]

    def segments(self, first: int, last: int) -> list[tuple[BatchState, int, int]]:
        """`first..last` cut into pieces of one state each, lost included, rising."""
        result: list[tuple[BatchState, int, int]] = []
        for state, low, high in self._segments(first, last):
            for a, b in self._lost.pieces(low, high):
                result.append((_S.LOST, a, b))
            result.extend((state, a, b) for a, b in self._lost.missing(low, high))
        result.sort(key=lambda piece: piece[1])
        return result

    def _apply(self, event: BatchEvent, first: int, last: int) -> None:
        if event is _E.REFUSED_FOR_NOW:
            parts = self._lost.missing(first, last)  # a lost id stays as it is
        elif event is _E.PASSED_OVER:
            parts = self._never_offered(first, last)
        else:
            parts = [(first, last)]
        for low, high in parts:
            for state, a, b in self._segments(low, high):
                after = TRANSITIONS.get((state, event))
                if after is None:
                    raise LocalProtocolError(f"a batch that is {state.value} cannot be {event.value} ({a}..{b})")
                self._move(state, after, a, b)
            if event in _MAKES_LOST:
                self._lost.add(low, high)
        if not STAYS_LOST[event]:
            self._lost.remove(first, last)

    def _move(self, before: BatchState, after: BatchState, first: int, last: int) -> None:
        """Into another set; what is captured or confirmed gets there by `emit` and `complete`."""
        if before is after and before is not _S.HELD:
            return
        if before is _S.RECEIVED:
            self._received.remove(first, last)
        elif before is _S.CAPTURED:
            self._captured.remove(first, last)
            self._captured_in_cut.remove(first, last)
        elif before is _S.CONFIRMED:
            self._confirmed.remove(first, last)
        elif before is _S.HELD:
            self._held_here.remove(first, last)
            self._held_earlier.remove(first, last)
        elif before is _S.SETTLED:
            self._settled.remove(first, last)
        else:
            self._gaps.remove(first, last)
        if after is _S.RECEIVED:
            self._received.add(first, last)
        elif after is _S.HELD:
            self._held_here.add(first, last)
        elif after is _S.SETTLED:
            self._settled.add(first, last)
        elif first <= self.watermark:  # a gap again, and only there it is listed
            self._gaps.add(first, min(last, self.watermark))
