"""The batches a collector has sent and not yet got rid of, and which go out next. Id ranges throughout.

Theory. The batches themselves are in a source; what is kept here is only which ids are in which state::

                    sent                RECEIVED
    (source) -----------> IN FLIGHT --------------> RECEIVED --- ACK covers it ---> gone
                  ^           |                         |        (without commit
                  |           | refused for now,        |         polls: at once)
                  |           | connection lost         | RESEND, RETRY to a poll;
                  |           v                         | reconnected
                  +------- TO SEND AGAIN <--------------+

A reply that refuses it for good ends it in any state. Ids that were never taken from the source begin at the *cursor*.
A million batches that were received in order are one range, so what waits for a checkpoint costs nothing.

Two orders are kept. What is to be sent again goes before anything new, lowest id first. And nothing goes above a batch
that was refused for now (QUEUE_FULL, RETRY) until that one is received, also across connections; what was already on
its way when the refusal came may be accepted.

An ACK evicts only batches whose last reply was RECEIVED: those received on this connection, and those that were
received earlier and wait to be sent again (*vouched for*). From the moment such a batch is on its way again nothing
vouches for it: its reply may be another one, and may be lost.

Pure: no socket, no clock, no source. Not thread-safe. Times are seconds on any one clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from edgesocket.collector.held import HeldIds
from edgesocket.collector.pacing import retry_wait_s
from edgesocket.collector.reactions import Reaction, reaction_to_batch
from edgesocket.collector.window import Congestion, WindowCounts, WindowLimits
from edgesocket.errors import LocalProtocolError
from edgesocket.ids import IdRanges
from edgesocket.protocol.replies import Reply


class Want(NamedTuple):
    """What to read from the source and send now: at most so much, the first at or above `first_id`.

    Attributes:
        first_id: the lowest id that may go.
        batches: 1 or more.
        payload_bytes: 1 or more.
    """

    first_id: int
    batches: int
    payload_bytes: int


@dataclass(slots=True)
class _Sent:
    """Batches on their way that went out together. Of a part that is answered the average size is taken."""

    first_id: int
    count: int
    payload_bytes: int


class Retention:
    """See the module's text."""

    def __init__(self, limits: WindowLimits, *, commit: bool) -> None:
        """Args: the limits, and whether batches are kept until an ACK covers them."""
        self._limits = limits
        self._commit = commit
        self._congestion = Congestion(limits.batches)
        self._cursor = 1
        self._sent: deque[_Sent] = deque()
        self._in_flight = IdRanges()
        self._in_flight_count = 0
        self._in_flight_bytes = 0
        self._again = IdRanges()
        self._again_count = 0
        self._vouched_for = IdRanges()  # part of _again
        self._received = IdRanges()
        self._received_count = 0
        self._counted = IdRanges()  # of _again and _in_flight: those that counts.received knows already
        self._held = HeldIds()  # of _again and _in_flight
        self._retries: dict[int, int] = {}
        self._target = 0
        self.counts = WindowCounts()

    def resume(self, first_id: int, cursor: int, in_doubt: IdRanges) -> None:
        """Begin where an earlier process ended.

        Args:
            first_id: the lowest batch there is.
            cursor: every batch below was sent, and answered unless it is in doubt.
            in_doubt: ids below the cursor whose last reply may not have been RECEIVED.
        """
        self._cursor = cursor
        if first_id < cursor:
            self._again.add(first_id, cursor - 1)
            self._again_count = cursor - first_id
            self._vouched_for.add(first_id, cursor - 1)
            self._vouched_for.difference_update(in_doubt)

    # ---- what is kept --------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Batches that are not done, those included that were offered and never went out."""
        return max(0, self.counts.offered - self.counts.sent) + self.kept

    @property
    def kept(self) -> int:
        """Batches taken from the source that are not done: not received, or with commit polls not confirmed."""
        return self._again_count + self._in_flight_count + self._received_count

    @property
    def unanswered(self) -> int:
        """Batches that are not received on this connection, those included that never went out."""
        return max(0, self.counts.offered - self.counts.sent) + self._again_count + self._in_flight_count

    @property
    def unconfirmed(self) -> int:
        """Those that are received on this connection and wait for an ACK."""
        return self._received_count

    @property
    def in_flight(self) -> int:
        """Those that are on their way."""
        return self._in_flight_count

    @property
    def ranges(self) -> int:
        """How many id ranges all of it is: what it costs."""
        return len(self._in_flight) + len(self._again) + len(self._received) + len(self._vouched_for)

    @property
    def cursor(self) -> int:
        """The lowest id that was never taken from the source."""
        return self._cursor

    @property
    def allowed_batches(self) -> int:
        """How many batches may be on their way now."""
        return self._congestion.allowed

    @property
    def done_below(self) -> int:
        """Every batch below this id is done."""
        lowest = [ids.lowest for ids in (self._again, self._in_flight, self._received)]
        return min((id_ for id_ in lowest if id_ is not None), default=self._cursor)

    @property
    def lowest_kept(self) -> int | None:
        """The lowest batch that was sent and is not done: what a new connection asks for first."""
        below = self.done_below
        return below if below < self._cursor else None

    @property
    def lowest_unconfirmed(self) -> int | None:
        """The lowest batch that an ACK could evict now; None where there is none."""
        lowest = [id_ for ids in (self._received, self._vouched_for) if (id_ := ids.lowest) is not None]
        return min(lowest, default=None)

    def in_doubt(self) -> IdRanges:
        """The ids below the cursor that were sent and whose last reply was not RECEIVED, or is not known."""
        ids = self._again.copy()
        ids.difference_update(self._vouched_for)
        ids.update(self._in_flight)
        return ids

    # ---- sending -------------------------------------------------------------------------------------------------

    def wanted(self, now: float) -> Want | None:
        """What may go out now; None where nothing may."""
        limits = self._limits
        room, room_bytes = self._congestion.allowed, limits.payload_bytes
        if self._in_flight_count:
            room -= self._in_flight_count
            room_bytes -= self._in_flight_bytes
            if room <= 0 or room_bytes <= 0:
                return None
        lowest, held = self._again.lowest, self._held.lowest
        if lowest is None:
            return Want(self._cursor, room, room_bytes) if held is None else None
        last = self._again.run_end(lowest)
        assert last is not None
        if held is not None:
            held_id, until = held
            if lowest > held_id or (lowest == held_id and now < until):
                return None
            last = min(last, max(lowest, held_id - 1))
        return Want(lowest, min(room, last - lowest + 1), room_bytes)

    def fits(self, payload_bytes: int) -> bool:
        """Whether so many bytes may join what is on its way."""
        return not self._in_flight_count or self._in_flight_bytes + payload_bytes <= self._limits.payload_bytes

    def next_time(self, now: float) -> float | None:
        """When time alone will let a batch go out, later than `now`; None where it is not time that is waited for."""
        held = self._held.lowest
        if held is None or self._again.lowest != held[0] or held[1] <= now:
            return None
        return held[1]

    def missing(self, first: int, last: int) -> None:
        """The source has no batch in `first..last` (nothing where `first` > `last`): none of it waits any more."""
        self._cursor = max(self._cursor, last + 1)
        gone = self._again.pieces(first, last)
        for low, high in gone:
            self._again_count -= high - low + 1
            self._held.drop(low, high)
        self._again.remove(first, last)
        self._vouched_for.remove(first, last)
        self._counted.remove(first, last)

    def sent(self, first: int, count: int, payload_bytes: int) -> None:
        """A run of batches is on its way; they are within what was wanted, from its first id on."""
        last = first + count - 1
        if first >= self._cursor:
            self._cursor = last + 1
            self.counts.sent += count
        else:
            self._again.remove(first, last)
            self._again_count -= count
            self._vouched_for.remove(first, last)
            self.counts.resent += count
        self._sent.append(_Sent(first, count, payload_bytes))
        self._in_flight.add(first, last)
        self._in_flight_count += count
        self._in_flight_bytes += payload_bytes

    # ---- replies -------------------------------------------------------------------------------------------------

    def answered(self, first: int, count: int, reply: Reply | None, now: float) -> Reaction:
        """Take equal replies to a run of batches that were on their way.

        Args:
            first: the first batch.
            count: how many, with ids that follow each other.
            reply: the reply, or None for a line that is none.
            now: the time.

        Returns:
            What was done, or, for STOP and DISTRUST, what the caller has to do; the batches wait then.

        Raises:
            LocalProtocolError: they are not what is to be answered next.
        """
        last = first + count - 1
        self._land(first, count)
        self._in_flight.remove(first, last)
        reaction = reaction_to_batch(reply)
        if reaction is Reaction.RECEIVED:
            self._take_received(first, last, count)
        elif reaction is Reaction.REFUSED:
            self._forget(first, last)
            self.counts.refused += count
        else:
            self._again.add(first, last)
            self._again_count += count
            if reaction is Reaction.WAIT_AS_TOLD:
                assert reply is not None
                self._hold(first, last, now + reply.number / 1000)
            elif reaction is Reaction.BACK_OFF:
                for id_ in range(first, last + 1):
                    self._retries[id_] = repeats = self._retries.get(id_, 0) + 1
                    self._hold(id_, id_, now + retry_wait_s(repeats))
        return reaction

    def connection_lost(self) -> None:
        """What was on its way was not received."""
        self._again.update(self._in_flight)
        self._again_count += self._in_flight_count
        self._sent.clear()
        self._in_flight.clear()
        self._in_flight_count = self._in_flight_bytes = 0

    def send_all_again(self) -> None:
        """A new connection: everything that is still kept goes out on it, lowest first."""
        for ids in (self._again, self._vouched_for, self._counted):
            ids.update(self._received)
        self._again_count += self._received_count
        self._received.clear()
        self._received_count = 0

    # ---- polls ---------------------------------------------------------------------------------------------------

    def poll_target(self) -> int | None:
        """The id to poll for: the highest that was received when the last target was confirmed.

        It stays the target until it is confirmed or lost. Under steady traffic the highest id of the moment would
        always be too new for any checkpoint, and no poll would ever be answered with ACK.
        """
        if self._target not in self._received:
            self._target = self._received.highest or 0
        return self._target or None

    def evict(self, watermark: int) -> int:
        """Take ACK:<watermark>. Returns how many batches it confirmed; see the module's text for which."""
        earlier = IdRanges(self._vouched_for.pieces(1, watermark))
        if earlier:
            self._vouched_for.remove(1, watermark)
            self._again.difference_update(earlier)
            self._again_count -= earlier.id_count
            self._counted.difference_update(earlier)
        here = sum(last - first + 1 for first, last in self._received.pieces(1, watermark))
        self._received.remove(1, watermark)
        self._received_count -= here
        gone = here + earlier.id_count
        self.counts.confirmed += gone
        return gone

    def send_again(self, batch_id: int) -> bool:
        """Take RESEND or RETRY to a poll: the ingress does not have the batch. Returns whether it goes out again.

        A batch that was confirmed since the poll, or is on its way already, is not sent twice.
        """
        self._vouched_for.remove(batch_id, batch_id)
        if batch_id not in self._received:
            return False
        self._received.remove(batch_id, batch_id)
        self._received_count -= 1
        self._again.add(batch_id, batch_id)
        self._again_count += 1
        self._counted.add(batch_id, batch_id)
        return True

    # ---- steps of the above --------------------------------------------------------------------------------------

    def _land(self, first: int, count: int) -> None:
        """Take the next `count` batches off what is on its way."""
        left = count
        while left:
            run = self._sent[0] if self._sent else None
            if run is None or run.first_id != first + count - left:
                raise LocalProtocolError(f"a reply to batch {first + count - left}, which is not answered next")
            taken = min(left, run.count)
            taken_bytes = run.payload_bytes * taken // run.count
            left -= taken
            self._in_flight_count -= taken
            self._in_flight_bytes -= taken_bytes
            if taken == run.count:
                self._sent.popleft()
            else:
                run.first_id += taken
                run.count -= taken
                run.payload_bytes -= taken_bytes

    def _take_received(self, first: int, last: int, count: int) -> None:
        if self._held or self._retries:
            self._no_longer_refused(first, last)
        if not self._held:
            self._congestion.received(count)
        if self._counted:
            known = sum(high - low + 1 for low, high in self._counted.pieces(first, last))
            self.counts.received += count - known
            self._counted.remove(first, last)
        else:
            self.counts.received += count
        if self._commit:
            self._received.add(first, last)
            self._received_count += count

    def _forget(self, first: int, last: int) -> None:
        self._no_longer_refused(first, last)
        self._counted.remove(first, last)

    def _hold(self, first: int, last: int, until: float) -> None:
        if not self._held:
            self._congestion.queue_full()
        self._held.put(first, last, until)

    def _no_longer_refused(self, first: int, last: int) -> None:
        self._held.drop(first, last)
        if self._retries:
            for id_ in range(first, last + 1):
                self._retries.pop(id_, None)
