"""The batches a collector has taken on and not yet got rid of, and which of them may go out next.

Theory. A batch is in one of three states::

                      sent                RECEIVED
    (offer) WAITING --------> IN_FLIGHT -----------> RECEIVED --- ACK covers it ---> gone
               ^                  |                      |        (without commit
               |  refused for now,|                      |         polls: at once)
               |  connection lost |   RESEND, RETRY to a |
               +------------------+   poll; reconnected  |
               +-----------------------------------------+

A reply that refuses it for good ends it in any state.

Two orders are kept. Ids rise: what waits goes out lowest first, so after a lost connection everything unanswered is
repeated before anything new. And nothing goes above a batch that was refused for now (QUEUE_FULL, RETRY) until that one
is received, also across connections; what was already on its way when the refusal came may be accepted.

While refused batches are recovered one by one, a full window of refusals would be slow to work off on a long line. So
the window shrinks to half when a queue turns out full, and grows by one batch per window received after that, like a
sender on a congested line.

An ACK evicts only batches whose last reply was RECEIVED: one that was refused or lost since is not the one confirmed.

Pure: no socket, no clock. Not thread-safe.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from heapq import heappop, heappush

from edgesocket.collector.pacing import retry_wait_s
from edgesocket.collector.reactions import BATCH_REACTIONS, Reaction
from edgesocket.errors import LocalProtocolError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.replies import Reply

ENTRY_OVERHEAD_BYTES = 256
"""What keeping a batch costs beside its payload; counted into `retain_bytes`."""


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """How much a collector takes on.

    Attributes:
        batches: batches not yet received, on their way or waiting.
        payload_bytes: their payload bytes. One batch larger than this goes alone.
        retain_bytes: everything kept, received but unconfirmed batches included.
    """

    batches: int = 256
    payload_bytes: int = 4 * 1024 * 1024
    retain_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True)
class WindowCounts:
    """Totals since the start. Each batch counts once in every field but `resent`.

    Attributes:
        offered: taken on.
        sent: went out at least once.
        received: were answered RECEIVED at least once.
        confirmed: evicted by an ACK.
        refused: refused for good.
        resent: how often a batch went out again.
    """

    offered: int = 0
    sent: int = 0
    received: int = 0
    confirmed: int = 0
    refused: int = 0
    resent: int = 0


class BatchState(enum.Enum):
    """Where a batch is; see the module's text."""

    WAITING = "waiting"
    IN_FLIGHT = "in flight"
    RECEIVED = "received"


@dataclass(slots=True)
class _Batch:
    payload: bytes = field(repr=False)
    state: BatchState = BatchState.WAITING
    sends: int = 0
    retries: int = 0
    was_received: bool = False
    last_reply_received: bool = False


class SendWindow:
    """See the module's text. Times are seconds on any one clock."""

    def __init__(self, limits: WindowLimits, *, commit: bool) -> None:
        """Args: the limits, and whether batches are kept until an ACK covers them."""
        self._limits = limits
        self._commit = commit
        self._batches: dict[int, _Batch] = {}  # rising ids: offers rise, and a dict keeps their order
        self._highest_offered = 0
        self._to_send: list[int] = []  # heap; ids that are not WAITING any more are skipped
        self._refused: dict[int, float] = {}  # refused for now, until when
        self._refused_heap: list[int] = []  # its keys, and some that were received since
        self._target = 0
        self._received = 0
        self._open_bytes = 0
        self._kept_bytes = 0
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._allowed = float(limits.batches)
        self.counts = WindowCounts()

    @property
    def left(self) -> int:
        """Batches that are not done: not received, or with commit polls not confirmed."""
        return len(self._batches)

    @property
    def unanswered(self) -> int:
        """Batches that are not received (waiting or on their way)."""
        return len(self._batches) - self._received

    @property
    def unconfirmed(self) -> int:
        """Batches that are received on this connection and wait for an ACK."""
        return self._received

    @property
    def allowed_batches(self) -> int:
        """How many batches may be on their way now."""
        return int(self._allowed)

    def room_for(self, payload_bytes: int) -> bool:
        """Whether a batch of that size may be offered now. An empty window takes any one batch."""
        limits = self._limits
        kept_fits = not self._batches or (
            self._kept_bytes + payload_bytes + ENTRY_OVERHEAD_BYTES <= limits.retain_bytes
        )
        open_fits = not self.unanswered or (
            self.unanswered < limits.batches and self._open_bytes + payload_bytes <= limits.payload_bytes
        )
        return kept_fits and open_fits

    def offer(self, batch_id: int, payload: bytes) -> None:
        """Take on a batch. Ask `room_for` first.

        Raises:
            ValueError: the id is not above every id offered before, or beyond the largest there is.
        """
        if batch_id > MAX_BATCH_ID:
            raise ValueError(f"batch id {batch_id} is beyond the largest there is ({MAX_BATCH_ID})")
        if batch_id <= self._highest_offered:
            raise ValueError(f"batch id {batch_id} does not rise: {self._highest_offered} was offered before")
        self._highest_offered = batch_id
        self._batches[batch_id] = _Batch(payload)
        self._open_bytes += len(payload)
        self._kept_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
        heappush(self._to_send, batch_id)
        self.counts.offered += 1

    def next_batch(self, now: float) -> tuple[int, bytes] | None:
        """The batch to send now, which is then on its way; None where none may go."""
        batch_id = self._next_waiting()
        if batch_id is None or self._held_back(batch_id, now):
            return None
        batch = self._batches[batch_id]
        if self._in_flight and (
            self._in_flight >= self.allowed_batches
            or self._in_flight_bytes + len(batch.payload) > self._limits.payload_bytes
        ):
            return None
        heappop(self._to_send)
        batch.state = BatchState.IN_FLIGHT
        batch.sends += 1
        self._in_flight += 1
        self._in_flight_bytes += len(batch.payload)
        if batch.sends == 1:
            self.counts.sent += 1
        else:
            self.counts.resent += 1
        return batch_id, batch.payload

    def next_time(self, now: float) -> float | None:
        """When time alone will let a batch go out, later than `now`; None where it is not time that is waited for."""
        batch_id = self._next_waiting()
        until = None if batch_id is None else self._refused.get(batch_id)
        return until if until is not None and until > now else None

    def answered(self, batch_id: int, reply: Reply | None, now: float) -> Reaction:
        """Take the reply to a batch that was on its way.

        Args:
            batch_id: the batch.
            reply: the reply, or None for a line that is none.
            now: the time.

        Returns:
            What was done, or, for STOP and DISTRUST, what the caller has to do; the batch waits then.

        Raises:
            LocalProtocolError: the batch is not on its way.
        """
        batch = self._batches.get(batch_id)
        if batch is None or batch.state is not BatchState.IN_FLIGHT:
            raise LocalProtocolError(f"a reply to batch {batch_id}, which is not on its way")
        self._land(batch)
        reaction = Reaction.DISTRUST if reply is None else BATCH_REACTIONS.get(reply.kind, Reaction.DISTRUST)
        batch.last_reply_received = reaction is Reaction.RECEIVED
        if reaction is Reaction.RECEIVED:
            self._take_received(batch_id, batch)
        elif reaction is Reaction.REFUSED:
            self._forget(batch_id)
            self.counts.refused += 1
        else:
            self._wait(batch_id, batch)
            if reaction is Reaction.WAIT_AS_TOLD:
                assert reply is not None
                self._refuse_for_now(batch_id, now + reply.number / 1000)
            elif reaction is Reaction.BACK_OFF:
                batch.retries += 1
                self._refuse_for_now(batch_id, now + retry_wait_s(batch.retries))
        return reaction

    def payload_of(self, batch_id: int) -> bytes:
        """The payload of a batch that is kept."""
        return self._batches[batch_id].payload

    def poll_target(self) -> int | None:
        """The id to poll for: the highest that was received when the last target was confirmed.

        It stays the target until it is confirmed or lost. Under steady traffic the highest id of the moment would
        always be too new for any checkpoint, and no poll would ever be answered with ACK.
        """
        if not self._received:
            return None
        batch = self._batches.get(self._target)
        if batch is None or batch.state is not BatchState.RECEIVED:
            self._target = next(
                id_ for id_, batch in reversed(self._batches.items()) if batch.state is BatchState.RECEIVED
            )
        return self._target

    def lowest_unconfirmed(self) -> int | None:
        """The lowest id whose last reply, on whatever connection, was RECEIVED; None where there is none."""
        return next((id_ for id_, batch in self._batches.items() if batch.last_reply_received), None)

    def evict(self, watermark: int) -> int:
        """Take ACK:<watermark>. Returns how many batches it confirmed.

        Batches on their way, or whose last reply was another than RECEIVED, stay.
        """
        gone: list[int] = []
        for batch_id, batch in self._batches.items():
            if batch_id > watermark:
                break
            if batch.last_reply_received and batch.state is not BatchState.IN_FLIGHT:
                gone.append(batch_id)
        for batch_id in gone:
            self._forget(batch_id)
        self.counts.confirmed += len(gone)
        return len(gone)

    def send_again(self, batch_id: int) -> bool:
        """Take RESEND or RETRY to a poll: the ingress does not have the batch. Returns whether it goes out again.

        A batch that was confirmed since the poll, or is waiting or on its way already, is not sent twice.
        """
        batch = self._batches.get(batch_id)
        if batch is None:
            return False
        batch.last_reply_received = False
        if batch.state is not BatchState.RECEIVED:
            return False
        self._take_back(batch_id, batch)
        return True

    def connection_lost(self) -> None:
        """What was on its way was not received."""
        for batch_id, batch in self._batches.items():
            if batch.state is BatchState.IN_FLIGHT:
                self._land(batch)
                self._wait(batch_id, batch)

    def send_all_again(self) -> None:
        """A new connection: everything that is still kept goes out on it, lowest first."""
        for batch_id, batch in self._batches.items():
            if batch.state is BatchState.RECEIVED:
                self._take_back(batch_id, batch)

    def _next_waiting(self) -> int | None:
        while self._to_send:
            batch = self._batches.get(self._to_send[0])
            if batch is not None and batch.state is BatchState.WAITING:
                return self._to_send[0]
            heappop(self._to_send)
        return None

    def _held_back(self, batch_id: int, now: float) -> bool:
        while self._refused_heap and self._refused_heap[0] not in self._refused:
            heappop(self._refused_heap)
        if not self._refused_heap or batch_id < self._refused_heap[0]:
            return False
        return batch_id > self._refused_heap[0] or now < self._refused[batch_id]

    def _refuse_for_now(self, batch_id: int, until: float) -> None:
        if not self._refused:
            self._allowed = max(1.0, self._allowed / 2)
        if batch_id not in self._refused:
            heappush(self._refused_heap, batch_id)
        self._refused[batch_id] = until

    def _take_received(self, batch_id: int, batch: _Batch) -> None:
        batch.retries = 0
        self._refused.pop(batch_id, None)
        if not self._refused:
            self._allowed = min(float(self._limits.batches), self._allowed + 1 / self._allowed)
        if not batch.was_received:
            batch.was_received = True
            self.counts.received += 1
        batch.state = BatchState.RECEIVED
        self._received += 1
        self._open_bytes -= len(batch.payload)
        if not self._commit:
            self._forget(batch_id)

    def _take_back(self, batch_id: int, batch: _Batch) -> None:
        self._received -= 1
        self._open_bytes += len(batch.payload)
        self._wait(batch_id, batch)

    def _wait(self, batch_id: int, batch: _Batch) -> None:
        batch.state = BatchState.WAITING
        heappush(self._to_send, batch_id)

    def _land(self, batch: _Batch) -> None:
        self._in_flight -= 1
        self._in_flight_bytes -= len(batch.payload)

    def _forget(self, batch_id: int) -> None:
        """Drop a batch that is not on its way."""
        batch = self._batches.pop(batch_id)
        self._refused.pop(batch_id, None)
        self._kept_bytes -= len(batch.payload) + ENTRY_OVERHEAD_BYTES
        if batch.state is BatchState.RECEIVED:
            self._received -= 1
        else:
            self._open_bytes -= len(batch.payload)
