"""The real source on the simulated clock and disk. Only what waits, or reads a clock, is done another way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from edgesocket.components.source import OperatorSettlement, RestoredSource, SourceContext, SourceState
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.ids import IdRange
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue
from edgesocket.ingress.service import Burst, IngressService, NoteKind, RepeatedId
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import ServerEvent
from edgesocket.rows import Rows
from edgesocket.sources.arrival_journal import ArrivalJournal
from edgesocket.sources.edge_socket import POLL_BYTES, EdgeSocketSource
from edgesocket.sources.restore import restore_service
from edgesocket.store.arrivals import ArrivalWriter, make_durable, read_segments
from edgesocket.testing.simulator.invariants import Facts
from edgesocket.testing.simulator.settings import Settings

TOKEN = b"token"


class _Journal(ArrivalJournal):
    """The real one; tells what is noted, and lets the pump have its turn before a note."""

    before: Callable[[], None]
    noted: Callable[[IdRange], None]
    admitted: tuple[IdRange, ...] = ()
    """Ids of accepted batches that are not noted yet."""

    def write(self, burst: Burst) -> None:
        self.before()
        accepted = [(note.first, note.last) for note in burst.notes if note.kind is NoteKind.ACCEPTED]
        self.admitted = (*self.admitted, *accepted)
        super().write(burst)

    def _write_down(self) -> None:
        super()._write_down()
        for ids in self.admitted:
            self.noted(ids)
        self.admitted = ()


class _OpenLock:
    """The lock of queue and ledger in a program of one thread: when it is let go, others may have a turn."""

    def __init__(self, lock: threading.Lock, released: Callable[[], None]) -> None:
        self._real = lock
        self._released = released

    def __enter__(self) -> None:
        self._real.acquire()

    def __exit__(self, error: object, *_: object) -> None:
        self._real.release()
        if error is None:
            self._released()


class SimulatedSource(EdgeSocketSource):
    """See the module's text.

    Args:
        settings: of the simulation.
        now: the loop's clock.
        before_note: called between the decision about a receive and its note in the arrival log.
        facts: told what the arrival log has, and what an operator's word takes away.
    """

    def __init__(
        self,
        settings: Settings,
        now: Callable[[], float],
        before_note: Callable[[], None],
        facts: Facts,
    ) -> None:
        options = EdgeSocketOptions.of(
            port=1,
            token=TOKEN.decode(),
            queue_full_wait_ms=0,
            queue_full_retry_after_ms=settings.retry_after_ms,
            local_queue_capacity=settings.queue_capacity,
            batch_id_gaps=settings.gaps,
            arrival_sync_ms=settings.arrival_sync_ms,
        )
        super().__init__("job", options, RepeatedId.RESEND)
        self._settings = settings
        self._clock = now
        self._in_handle = False
        self._lock = _OpenLock(self._lock, self._between_locks)  # type: ignore[assignment]
        self._before_note = before_note
        self._facts = facts
        self._on_noted: Callable[[IdRange], None] = lambda ids: facts.noted.add(*ids)

    def handle(self, events: list[ServerEvent], replies: ReplyQueue) -> None:
        """See EdgeSocketSource; the pump may have its turn whenever no lock is held."""
        self._in_handle = True
        try:
            super().handle(events, replies)
        finally:
            self._in_handle = False

    def _between_locks(self) -> None:
        if self._in_handle:
            self._in_handle = False
            self._before_note()
            self._in_handle = True

    @property
    def service(self) -> IngressService:
        """The decisions."""
        return self._service

    @property
    def ledger(self) -> Ledger:
        """What is known of each id."""
        return self._service.ledger

    @property
    def queue(self) -> RecordQueue:
        """What waits for the sinks."""
        return self._service.queue

    def accepts_token(self, token: bytes) -> bool:
        """One token, and no file that it comes from."""
        return token == TOKEN

    def open(self, context: SourceContext, restored: RestoredSource) -> int | None:
        """See Source."""
        self._context = context
        directory = context.state_dir / "arrivals"
        make_durable(directory)
        last = restore_service(self._service, restored, read_segments(directory), context.report)
        if restored.state is not None:
            self._note_what_is_in(restored.state)
        for settlement in restored.settlements:
            self._given_up(settlement)
        sync_ms = self._settings.arrival_sync_ms
        journal = _Journal(
            ArrivalWriter(directory, context.epoch, last + 1, sync_ms or 1, clock=self._clock),
            sync_each=not sync_ms,
            report=context.report,
            clock=self._clock,
        )
        journal.before, journal.noted = self._before_note, self._on_noted
        self._arrivals = journal
        return self.ledger.unclean_floor

    def _note_what_is_in(self, state: SourceState) -> None:
        """A commit record knows what it covers, also where the arrival log does not."""
        ledger = state["ledger"]
        for first, last in (*state["queue"]["runs"], *ledger["captured"], *ledger["confirmed"]):
            self._on_noted((first, last))
        if ledger["floor"] is not None and ledger["watermark"] > ledger["floor"]:
            self._on_noted((ledger["floor"] + 1, ledger["watermark"]))

    def settle(self, settlement: OperatorSettlement) -> None:
        """See Source."""
        super().settle(settlement)
        self._given_up(settlement)

    def _given_up(self, settlement: OperatorSettlement) -> None:
        # Here, too, and not only when it was said: what was received between his word and now goes with the rest.
        for first, last in settlement.ranges:
            self._facts.settle(first, last)

    def poll(self, timeout_s: float) -> Iterable[Rows]:  # noqa: ARG002 - nobody waits here
        """See Source: what is queued, at most `drain` records."""
        with self._lock:
            blocks = self._service.take(self._settings.drain, POLL_BYTES)
            pinned = self._service.fingerprints.release_pinned()
        for segment in pinned:
            segment.digests()
        return self._rows.rows(self._decoder.decoded(blocks))

    def tick(self) -> None:
        """See Source."""
        if self._arrivals is not None:
            self._arrivals.sync_if_due(self._clock())
