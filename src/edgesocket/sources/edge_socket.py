"""The EdgeSocket source: listens on one TCP port, takes batches from one collector.

Delivery: a batch answered RECEIVED is queued; one covered by `ACK:<watermark>` is in a completed checkpoint, sinks
included, and is never lost. What was received and not confirmed when a process dies answers RESEND afterwards.

This file joins three parts that do not know each other: the decisions (`ingress`, pure), the socket (`net`) and the
arrival log (`store`). One lock guards queue and ledger; the receiver thread holds it while it admits what one receive
brought, the pump while it takes blocks or cuts. Nothing is written, sent or hashed under it.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from edgesocket.components.dead_letter import DeadLetter
from edgesocket.components.source import OperatorSettlement, RestoredSource, SourceContext, SourceCut
from edgesocket.components.state import VitalNotes
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.errors import FencedError, StoreError
from edgesocket.ingress.admission import PacketCodec, RawCodec
from edgesocket.ingress.arrival_times import ArrivalTimes
from edgesocket.ingress.batch_states import GapRule
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue, high_water_mark
from edgesocket.ingress.service import AdmissionRules, IngressService, RepeatedId
from edgesocket.net.events import DisconnectReason, NetEvent, ServerFailed
from edgesocket.net.options import ListenOptions
from edgesocket.net.server import IngressServer
from edgesocket.packet.keys import PacketKey
from edgesocket.protocol.commands import Batch, Commit, Invalid
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import ServerEvent
from edgesocket.records import Origin, RecordBlock
from edgesocket.rows import Rows
from edgesocket.sources.arrival_journal import ArrivalJournal
from edgesocket.sources.decoding import RecordDecoder, codec_of
from edgesocket.sources.notices import Facts, Notices
from edgesocket.sources.read_limit import ReadLimiter
from edgesocket.sources.restore import encode_cut, restore_service
from edgesocket.sources.secret_files import KeyBook, TokenBook, tls_of
from edgesocket.sources.source_status import describe_holder, describe_ingress
from edgesocket.sources.typing_rows import CheckedCodec, RowMaker
from edgesocket.store.arrivals import ArrivalWriter, make_durable, read_segments, with_kept
from edgesocket.telemetry.events import ArrivalLogCloseFailed, ArrivalSegmentsKept, BatchesSettled

POLL_RECORDS = 65_536
"""Most records one poll hands to the sinks: what is in their hands is bounded like the queue."""

POLL_BYTES = 16 * 1024 * 1024
"""Most payload bytes one poll hands to the sinks (one larger record goes alone)."""

REPLY_JOIN_S = 2.0
"""How long a source that closes waits for its receiver thread to end."""

EVENTS_A_LOCK = 4096
"""How many events are answered under one hold of the lock: a chunk may hold a million odd lines, and the pump waits."""

LINGER_S = 0.001
"""How long the pump lets a short queue grow before it takes it: one wake-up for many records."""


class EdgeSocketSource:
    """See the module's text; the contract is `components.source.Source`."""

    def __init__(self, job: str, options: EdgeSocketOptions, repeated_id: RepeatedId = RepeatedId.RECORD) -> None:
        """Get ready; nothing is opened yet.

        Args:
            job: job name, shown to another job that wants the same port.
            options: checked.
            repeated_id: what the job's sinks ask for, where the options leave it open.
        """
        self._job = job
        self._options = options
        self._lock = threading.Lock()
        self._records = threading.Condition(self._lock)
        """The pump waits here for records."""
        self._room = threading.Condition(self._lock)
        """The receiver waits here for room in the queue."""
        self._pump_waits = False
        self._receiver_waits = False
        self._no_waiting = False
        """Set from a cut to the next poll, and for good by a stop: the receiver answers QUEUE_FULL at once."""
        self._stopping = False
        self._woken = False
        mark = high_water_mark(options.local_queue_capacity, str(options.queue_backpressure_watermark_ratio))
        if options.repeated_id is not None:
            repeated_id = RepeatedId(options.repeated_id)
        self._worthwhile = max(1, mark // 2)
        checks = options.on_bad_record == "reject" and options.schema is not None
        self._service = IngressService(
            AdmissionRules(options.queue_full_retry_after_ms, options.deduplicate, repeated_id),
            Ledger(GapRule(options.batch_id_gaps)),
            RecordQueue(options.local_queue_capacity, mark, options.local_queue_max_bytes),
            CheckedCodec(codec_of(options), options) if checks else codec_of(options),
            raw_blocks=options.packet_mode == "RAW" and not checks,
        )
        self._decoder = RecordDecoder(options)
        self._rows = RowMaker(options, self._bury)
        self.schema = self._rows.schema
        self._tokens: TokenBook | None = None
        self._keys: KeyBook | None = None
        self._server: IngressServer | None = None
        self._arrivals: ArrivalJournal | None = None
        self._context: SourceContext | None = None
        self._collector = ""
        self._collector_since = 0.0
        self._arrival_times = ArrivalTimes()
        self._keeps_origins = any(field != "batch_id" for field, _ in options.metadata_fields)
        self._taken_records = 0
        self._cut_sequence = 0
        self._covered_sequence: int | None = None
        self._limiter: ReadLimiter | None = None
        self._notices = Notices(self._report, shlex.quote(job))

    # ---- life ----------------------------------------------------------------------------------------------------

    def open(self, context: SourceContext, restored: RestoredSource) -> int | None:
        """See Source."""
        self._context = context
        self._tokens = TokenBook(self._options, context.report)
        self._keys = KeyBook(self._options, context.report)
        self._use_keys(self._keys.keys)
        if context.read_limit is not None:
            self._limiter = ReadLimiter(context.read_limit, time.monotonic(), POLL_RECORDS, POLL_BYTES)
        directory = context.state_dir / "arrivals"
        make_durable(directory)
        if context.vital is None:
            segments = read_segments(directory)
        else:
            segments = with_kept(read_segments(directory) if restored.arrivals_here else [], context.vital.kept())
        last_sequence = restore_service(self._service, restored, segments, context.report)
        sync_ms = self._options.arrival_sync_ms
        self._arrivals = ArrivalJournal(
            ArrivalWriter(directory, context.epoch, last_sequence + 1, sync_ms or 1),
            sync_each=not sync_ms,
            report=context.report,
            vital=context.vital,
        )
        return self._service.ledger.unclean_floor

    def start(self) -> None:
        """See Source."""
        assert self._context is not None
        options = self._options
        listen = ListenOptions(
            port=options.port,
            job=self._job,
            max_retries=options.max_retries,
            reconnect_interval_ms=options.reconnect_interval_ms,
            accept_timeout_ms=options.accept_timeout_ms,
            auth_timeout_ms=options.auth_timeout_ms,
            reply_stall_timeout_ms=options.reply_stall_timeout_ms,
            keepalive_idle_s=options.keepalive_idle_s,
            keepalive_interval_s=options.keepalive_interval_s,
            keepalive_probes=options.keepalive_probes,
            user_timeout_ms=options.user_timeout_ms,
            max_line_bytes=options.max_line_bytes,
            check_utf8=options.packet_mode == "RAW",
            allow=options.allow,
            auth_backoff_max_ms=options.auth_backoff_max_ms,
            tls=tls_of(options),
        )
        server = IngressServer(listen, self, self._on_net_event)
        with self._lock:
            if self._stopping:
                return
            self._server = server
        server.start()

    def stop(self, grace_s: float) -> None:
        """See Source."""
        with self._lock:
            self._stopping = self._no_waiting = True
            self._room.notify_all()
            self._records.notify_all()
        if self._server is not None:
            self._server.stop(grace_s)

    def silence(self) -> None:
        """See Source."""
        with self._lock:
            self._stopping = self._no_waiting = True
            self._room.notify_all()
            self._records.notify_all()
        if self._server is not None:
            self._server.abort()

    def close(self, *, clean: bool) -> bool:
        """See Source."""
        if self._server is not None:
            self._server.abort()
            self._server.join(REPLY_JOIN_S)
        arrivals, self._arrivals = self._arrivals, None
        if arrivals is None:
            return False
        try:
            arrivals.close(clean=clean)
        except StoreError as error:
            self._report(ArrivalLogCloseFailed(str(error)))
            return False
        return clean

    # ---- the conversation (receiver thread; see net.handler.ConversationHandler) ----------------------------------

    def accepts_token(self, token: bytes) -> bool:
        """Compare in constant time with every token that is good now."""
        return self._tokens is not None and self._tokens.accepts(token)

    def session_started(self, peer: str) -> None:
        """A collector was elected."""
        with self._lock:
            self._collector = peer
            self._collector_since = time.monotonic()
            self._service.session_started()

    def session_ended(self, reason: DisconnectReason) -> None:  # noqa: ARG002 - the event carries it
        """The collector is gone."""
        with self._lock:
            self._collector = ""

    def may_send(self) -> bool:
        """Whether this incarnation still owns the job. When it does not, the pump is woken, and ends it."""
        assert self._context is not None
        if self._context.still_owner():
            return True
        self.wake()
        return False

    def handle(self, events: list[ServerEvent], replies: ReplyQueue) -> None:
        """Admit what one receive brought; what was admitted is in the arrival log when this returns.

        Raises:
            FencedError: another process may own the job; nothing was admitted.
            StoreError: the arrival log cannot be written, so nothing of this may be answered.
        """
        service, arrivals = self._service, self._arrivals
        if not self.may_send():
            raise FencedError("another process may own the job")
        if arrivals is None:
            raise StoreError("the source is closed")
        if arrivals.failing_since is not None and any(isinstance(event, RecordBlock | Batch) for event in events):
            arrivals.catch_up()
        deadline = 0.0
        if self._keeps_origins:
            service.origin = Origin(time.time_ns() // 1000, self._collector)
        for start in range(0, len(events), EVENTS_A_LOCK):
            with self._lock:
                for event in events[start : start + EVENTS_A_LOCK]:
                    deadline = self._admit(event, replies, deadline)
        with self._lock:
            burst = service.take_burst()
            if self._pump_waits and service.queue.records:
                self._records.notify()
        if burst is not None:
            arrivals.write(burst)

    def _admit(self, event: ServerEvent, replies: ReplyQueue, deadline: float) -> float:
        """Answer one event; waits for room if the burst has not waited yet. Returns what is left of that wait."""
        service = self._service
        if isinstance(event, RecordBlock):
            rest = service.offer_block(event, replies)
            while rest is not None:
                deadline = self._wait_for_room(deadline)
                if deadline < 0:
                    service.hold_block(rest, replies)
                    break
                rest = service.offer_block(rest, replies)
        elif isinstance(event, Batch):
            while not service.offer_batch(event, replies):
                deadline = self._wait_for_room(deadline)
                if deadline < 0:
                    service.hold_batch(event, replies)
                    break
        elif isinstance(event, Commit | Invalid):
            service.answer(event, replies)
        return deadline

    def _wait_for_room(self, deadline: float) -> float:
        """Wait until the pump took something.

        Takes and returns the deadline of the one wait that a burst has: 0.0 before it begins, negative once it is over.
        """
        wait_ms = self._options.queue_full_wait_ms
        if deadline < 0 or not wait_ms or self._no_waiting:
            return -1.0
        now = time.monotonic()
        if not deadline:
            deadline = now + wait_ms / 1000
        self._receiver_waits = True
        self._records.notify()
        taken = self._taken_records
        while self._taken_records == taken and now < deadline and not self._no_waiting:
            self._room.wait(deadline - now)
            now = time.monotonic()
        self._receiver_waits = False
        return deadline if self._taken_records != taken else -1.0

    # ---- the pump ------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> Iterable[Rows]:
        """See Source."""
        service = self._service
        with self._lock:
            self._no_waiting = self._stopping
            if self._limiter is not None and not self._stopping:
                timeout_s = self._wait_for_allowance(self._limiter, timeout_s)
            if not service.queue.records and not self._woken and timeout_s > 0:
                self._wait_for_records(timeout_s)
            if service.queue.records < self._worthwhile and not (self._stopping or self._receiver_waits or self._woken):
                self._linger()
            self._woken = False
            blocks = self._take()
            if blocks:
                self._taken_records += sum(block.count for block in blocks)
                if self._receiver_waits:
                    self._room.notify()
            pinned = service.fingerprints.release_pinned()
        for segment in pinned:
            segment.digests()
        return self._rows.rows(self._decoder.decoded(blocks))

    def _take(self) -> list[RecordBlock]:
        limiter = self._limiter
        if limiter is None or self._stopping:
            return self._service.take(POLL_RECORDS, POLL_BYTES)
        now = time.monotonic()
        if limiter.wait_s(now) > 0:
            return []
        blocks = self._service.take(*limiter.most(now))
        limiter.took(sum(block.count for block in blocks), sum(block.payload_bytes for block in blocks))
        return blocks

    def _wait_for_allowance(self, limiter: ReadLimiter, timeout_s: float) -> float:
        """Wait until the limit lets something through, or are woken. Returns what is left of the time to wait."""
        now = time.monotonic()
        deadline = now + timeout_s
        while (wait_s := limiter.wait_s(now)) > 0 and now < deadline and not (self._woken or self._stopping):
            self._records.wait(min(wait_s, deadline - now))
            now = time.monotonic()
        return max(0.0, deadline - now)

    def _wait_for_records(self, timeout_s: float) -> None:
        self._pump_waits = True
        self._records.wait(timeout_s)
        self._pump_waits = False

    def _linger(self) -> None:
        """Let a short queue grow for a moment; the receiver wakes us when it needs room."""
        deadline = time.monotonic() + LINGER_S
        left = LINGER_S
        while left > 0 and not self._receiver_waits and not self._stopping and not self._woken:
            self._records.wait(left)
            left = deadline - time.monotonic()

    def wake(self) -> None:
        """See Source."""
        with self._lock:
            self._woken = True
            self._records.notify_all()

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def cut(self) -> SourceCut:
        """See Source."""
        assert self._arrivals is not None
        with self._lock:
            self._no_waiting = True
            self._room.notify_all()
            cut = self._service.cut()
            self._arrivals.rotate()
            self._cut_sequence = cut.arrival_sequence
        return encode_cut(cut)

    def complete(self) -> None:
        """See Source."""
        assert self._arrivals is not None
        with self._lock:
            self._service.ledger.complete()
        self._covered_sequence = self._cut_sequence
        try:
            self._arrivals.delete_through(self._cut_sequence)
        except StoreError as error:  # the next checkpoint tries again
            self._report(ArrivalSegmentsKept(str(error)))

    def abort(self) -> None:
        """See Source."""
        with self._lock:
            self._service.ledger.abort()

    def settle(self, settlement: OperatorSettlement) -> None:
        """See Source."""
        assert self._context is not None
        with self._lock:
            discarded = sum(
                self._service.settle(first, last, settlement.log_index) for first, last in settlement.ranges
            )
            if settlement.ends_unclean:
                self._service.end_unclean(settlement.log_index)
        text = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in settlement.ranges)
        self._context.report(BatchesSettled(text or "the unclean end", discarded))

    # ---- seeing --------------------------------------------------------------------------------------------------

    def _forget_covered(self, vital: VitalNotes | None) -> None:
        """Remove what was kept in the store and is covered by a checkpoint now; it is no matter when that happens."""
        if vital is None or self._covered_sequence is None:
            return
        sequence = self._covered_sequence
        try:
            more = vital.forget_through(sequence)
        except StoreError:
            return  # the next tick tries again
        if not more and sequence == self._covered_sequence:
            self._covered_sequence = None

    def tick(self) -> None:
        """See Source."""
        assert self._context is not None
        assert self._arrivals is not None
        now = time.monotonic()
        try:
            self._arrivals.sync_if_due(now)
        except StoreError as error:
            self._watch_arrival_log(self._arrivals.failing_since, error, now)
        self._forget_covered(self._context.vital)
        with self._lock:
            service = self._service
            self._arrival_times.mark(service.ledger.highest_accepted, now)
            self._arrival_times.forget_below(service.ledger.oldest_unconfirmed or service.ledger.highest_accepted)
            facts = Facts(
                service.ledger.holder(),
                service.repeated_with_other_payload,
                service.last_repeated_id,
                self._replaced,
                service.reused_ivs,
                service.ledger.overloaded,
            )
        self._notices.look(facts, now)
        keys = None if self._keys is None else self._keys.changed()
        if keys is not None:
            self._use_keys(keys)

    def _use_keys(self, keys: Sequence[PacketKey]) -> None:
        codec = self._service.codec
        if isinstance(codec, CheckedCodec):
            codec = codec.inner
        if isinstance(codec, PacketCodec):
            codec.use_keys(keys)

    @property
    def _replaced(self) -> int:
        """Records in which bytes that are not UTF-8 became U+FFFD: RAW ones at ingress, packets on their way out."""
        codec = self._service.codec
        if isinstance(codec, CheckedCodec):
            codec = codec.inner
        return self._decoder.replaced + (codec.replaced if isinstance(codec, RawCodec) else 0)

    def _watch_arrival_log(self, failing_since: float | None, error: StoreError, now: float) -> None:
        assert self._context is not None
        failed_for_s = now - (failing_since or now)
        if failed_for_s > self._context.give_up_s:
            self._context.failed(StoreError(f"the arrival log has failed for {failed_for_s:.0f} s: {error}"))

    def status(self) -> dict[str, Any]:
        """See Source."""
        now = time.monotonic()
        arrivals = self._arrivals
        failing_since = None if arrivals is None else arrivals.failing_since
        with self._lock:
            status: dict[str, Any] = {
                "port": self._options.port,
                "endpoint": self._options.endpoint,
                "collector": self._collector or None,
                "collector_for_s": round(now - self._collector_since, 1) if self._collector else None,
                **describe_ingress(self._service, self._arrival_times, now),
                "replaced_utf8": self._replaced,
                "records_to_sinks": self._taken_records,
                "bad_records": self._rows.bad,
                "dropped_payloads": self._rows.dropped,
                "arrival_log": {
                    "failing_for_s": None if failing_since is None else round(now - failing_since, 1),
                    "last_failure": "" if arrivals is None else arrivals.failure,
                },
                "holder": describe_holder(self._notices.holder, now),
            }
        if self._server is not None:
            status["listener"] = self._server.describe()
        return status

    def _on_net_event(self, event: NetEvent) -> None:
        assert self._context is not None
        self._context.report(event)
        if isinstance(event, ServerFailed):
            self._context.failed(event.error)

    def _bury(self, letter: DeadLetter) -> None:
        assert self._context is not None
        self._context.dead_letter(letter)

    def _report(self, what: object) -> None:
        if self._context is not None:
            self._context.report(what)
