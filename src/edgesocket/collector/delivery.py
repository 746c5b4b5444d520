"""Batches from a source to a link, and what their replies mean: the part of a client that knows no time and no phase.

Joins the source (a spool, or batches in memory), the pure retention, the note of what is in doubt, and the packets.
Whatever the source raises is let through before anything was changed: what was on its way then counts as unanswered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from edgesocket.collector.doubts import Doubts
from edgesocket.collector.reactions import Reaction, reaction_to_batch
from edgesocket.collector.retention import Retention, Want
from edgesocket.collector.source import BatchRun, BatchSource
from edgesocket.errors import CollectorError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.collector_session import Request
from edgesocket.protocol.ended_lines import payload_bytes as bytes_of
from edgesocket.protocol.replies import Reply

RefusedCallback = Callable[[int, bytes, Reply], object]
"""Called with id, payload and reply of a batch that was refused for good."""

Seal = Callable[[bytes], bytes]
"""Makes a packet of a payload; both without line feeds."""

RUN_BYTES = 256 * 1024
"""So many payload bytes are read and written at a time."""

LEAST_ROOM = 4
"""While replies are to come, new batches go out when this part (1/n) of the window is free: not a few a reply."""

LARGE_WINDOW = 256
"""In a window smaller than this, nothing waits for room: its batches are sent as soon as each may go."""


class Outlet(Protocol):
    """Where batches go: what `Link` is to a delivery."""

    @property
    def has_room(self) -> bool:
        """Whether another batch should be written now."""
        ...

    def write_batches(self, first_id: int, payloads: Sequence[bytes]) -> None:
        """Write batches with consecutive ids."""
        ...

    def push(self) -> None:
        """Send what the network takes now."""
        ...


class NoIdLeftError(CollectorError):
    """The source has a batch with an id beyond the largest there is. Ids never start again, so nothing can follow."""


class Delivery:
    """See the module's text. Not thread-safe."""

    def __init__(self, source: BatchSource, retention: Retention, seal: Seal | None) -> None:
        """Args: where batches come from, what is known of them, and what makes packets of payloads."""
        self._source = source
        self._seal = seal
        self.retention = retention
        self._doubts: Doubts | None = None
        self._ask_first: int | None = None
        self._told_done = 0
        self.taken_bytes = 0
        """Payload bytes of everything taken from the source for the first time."""

    def resume(self) -> None:
        """Go on where an earlier process, or client, left this source; from here on notes are kept in it."""
        text = self._source.recall()
        self._doubts = Doubts(text, self._source.remember)
        run = self._source.read(1, 1, 1)
        if run is None:
            return
        note = self._doubts.note
        self._ask_first = run.first_id if text else None
        self.retention.resume(run.first_id, note.open_from, note.ranges)

    @property
    def first_to_ask(self) -> int | None:
        """The lowest batch that was sent, as far as is known, and is still kept: a new connection asks for it."""
        lowest = self.retention.lowest_kept
        return self._ask_first if lowest is None else lowest

    @property
    def drained(self) -> bool:
        """Whether the source has nothing that was not taken from it."""
        return self._source.read(self.retention.cursor, 1, 1) is None

    def begin(self) -> None:
        """A new connection has said what is confirmed: everything that is still kept goes out on it."""
        self._ask_first = None
        self.retention.send_all_again()

    def fill(self, link: Outlet, now: float) -> None:
        """Hand the link what may go out now."""
        retention = self.retention
        while link.has_room and (want := retention.wanted(now)) is not None:
            if self._is_worth_waiting(want):
                return
            if not self._send(link, want, now):
                return
            link.push()

    def _is_worth_waiting(self, want: Want) -> bool:
        """Whether a large window is nearly full, so that more new batches can soon go out together."""
        retention = self.retention
        if retention.allowed_batches < LARGE_WINDOW or not retention.in_flight or want.first_id < retention.cursor:
            return False
        return want.batches * LEAST_ROOM < retention.allowed_batches

    def answered(self, request: Request, reply: Reply | None, now: float, on_refused: RefusedCallback) -> Reaction:
        """Take equal replies to batches that were on their way."""
        if reaction_to_batch(reply) is not Reaction.REFUSED:
            return self.retention.answered(request.first_id, request.lines, reply, now)
        assert reply is not None
        for batch_id in range(request.first_id, request.first_id + request.lines):
            run = self._source.read(batch_id, 1, 1)
            payload = run.payloads[0] if run is not None and run.first_id == batch_id else b""
            self._source.refused(batch_id, payload, reply)
            self.retention.answered(batch_id, 1, reply, now)
            on_refused(batch_id, payload, reply)
        return Reaction.REFUSED

    def tell_done(self) -> None:
        """Let the source throw away what is done; the note forgets what is answered."""
        if self._doubts is not None:
            self._doubts.refresh(self.retention)
        below = self.retention.done_below
        if below > self._told_done:
            self._source.done(below)
            self._told_done = below

    def close(self) -> None:
        """Leave a note that is up to date: a process that begins with it has little in doubt."""
        if self._doubts is not None:
            try:
                self._doubts.write(self.retention, durable=False)
            except OSError:
                pass  # the older note says more, and is as right

    def _send(self, link: Outlet, want: Want, now: float) -> bool:
        """Write one run. Returns whether another one may follow at once."""
        retention = self.retention
        run = self._source.read(want.first_id, want.batches, min(want.payload_bytes, RUN_BYTES))
        if run is None:
            more = want.first_id < retention.cursor
            retention.missing(want.first_id, retention.cursor - 1)
            return more
        if run.first_id > want.first_id:
            retention.missing(want.first_id, run.first_id - 1)
            new_want = retention.wanted(now)
            if new_want is None or new_want.first_id != run.first_id:
                return True
            want = new_want
        payloads = run.payloads[: self._admitted(run, want)]
        payload_bytes = bytes_of(payloads)
        if not payloads or not retention.fits(payload_bytes):
            return False
        if run.first_id >= retention.cursor:
            self.taken_bytes += payload_bytes
        link.write_batches(run.first_id, payloads if self._seal is None else list(map(self._seal, payloads)))
        retention.sent(run.first_id, len(payloads), payload_bytes)
        return True

    def _admitted(self, run: BatchRun, want: Want) -> int:
        """How many batches of the run may go out now."""
        first = run.first_id
        last = min(run.next_id - 1, first + want.batches - 1, MAX_BATCH_ID)
        if last < first:
            raise NoIdLeftError(f"no batch id is left: {first} is beyond the largest there is ({MAX_BATCH_ID})")
        if self._doubts is not None:
            last = self._doubts.admit(first, last, self.retention)
        return max(0, last - first + 1)
