"""Plays transcripts on the pure conversation: session, decisions, ledger and queue, without a socket or a file.

A crash keeps what would be on the disk: the last completed cut and the notes of the arrival log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from conformance_transcript import TOKEN, Act, Event, Expect, Send, Transcript, rows_of

from edgesocket.checkpoint.arrival_log import Event as Arrival
from edgesocket.checkpoint.arrival_log import EventKind, Segment
from edgesocket.components.source import RestoredSource, SourceCut
from edgesocket.compression import Compression
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.ingress.admission import Admitted, PacketCodec, RawCodec
from edgesocket.ingress.batch_states import GapRule
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue, high_water_mark
from edgesocket.ingress.service import AdmissionRules, IngressService
from edgesocket.packet.codec import PacketDecoder
from edgesocket.packet.compression import inflate
from edgesocket.protocol.chunks import BufferPool
from edgesocket.protocol.commands import Batch, Commit, Invalid
from edgesocket.protocol.replies import AUTH_FAILED, AUTH_OK
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import Authenticated, AuthRefused, ServerEvent, ServerSession
from edgesocket.protocol.states import SessionState
from edgesocket.records import RecordBlock
from edgesocket.sources.restore import encode_cut, restore_service

MANY = 1 << 40


def row_of(batch_id: int, payload: bytes) -> bytes:
    """A row as transcripts write it."""
    return b"%d:%b" % (batch_id, payload)


def take_the_room(service: IngressService) -> Callable[[], None]:
    """Another producer fills the queue while the next payload is decoded. Returns what makes it go away."""
    queue, codec = service.queue, service.codec
    capacity = queue.capacity

    class Meanwhile:
        def admit(self, payload: bytes) -> Admitted:
            admitted = codec.admit(payload)
            queue.capacity = queue.records
            return admitted

    def give_back() -> None:
        queue.capacity, service.codec = capacity, codec

    service.codec = Meanwhile()
    return give_back


class CorePlayer:
    """One source, one connection at a time.

    Args:
        transcript: what to play.
        piece_bytes: how many bytes arrive at once; 0 for a whole write.
    """

    def __init__(self, transcript: Transcript, piece_bytes: int = 0) -> None:
        self._options = EdgeSocketOptions.of(**{"port": 1, "token": TOKEN, **transcript.options})
        self._piece_bytes = piece_bytes
        self._saved: tuple[dict[str, Any], dict[str, bytes]] | None = None
        self._arrivals: list[Segment] = []
        self._floors: dict[int, int | None] = {}
        self._epoch = 0
        self._last_sequence = 0
        self._cut: SourceCut | None = None
        self._rows: list[bytes] = []
        self._unpublished: list[bytes] = []
        self._in_cut = 0
        self._session: ServerSession | None = None
        self._start()

    def play(self, events: list[Event]) -> None:
        """Perform every event."""
        for event in events:
            match event:
                case Send(_, data):
                    self._send(data)
                case Expect(_, replies):
                    got, self._replies = self._replies[: len(replies)], self._replies[len(replies) :]
                    assert got == list(replies)
                case Act(words):
                    self._act(words)
        assert self._replies == [], "a reply nobody expects"

    # ---- the conversation ----------------------------------------------------------------------------------------

    def _connect(self) -> ServerSession:
        self._replies: list[str] = []
        self._session = ServerSession(
            lambda token: token == TOKEN.encode(),
            BufferPool(),
            self._options.max_line_bytes,
            self._options.packet_mode == "RAW",
        )
        return self._session

    def _send(self, data: bytes) -> None:
        session = self._session or self._connect()
        size = self._piece_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            while piece:
                room = session.writable()
                count = min(len(room), len(piece))
                room[:count] = piece[:count]
                piece = piece[count:]
                self._take(session, session.received(count))

    def _take(self, session: ServerSession, events: list[ServerEvent]) -> None:
        replies = ReplyQueue()
        for event in events:
            match event:
                case Authenticated():
                    replies.add(AUTH_OK)
                    self._service.session_started()
                    self._answer(session.resume(), replies)
                case AuthRefused():
                    replies.add(AUTH_FAILED)
                case _:
                    self._answer([event], replies)
        self._replies += replies.peek(MANY).decode().splitlines()

    def _answer(self, events: list[ServerEvent], replies: ReplyQueue) -> None:
        service = self._service
        for event in events:
            match event:
                case RecordBlock():
                    rest = service.offer_block(event, replies)
                    if rest is not None:
                        service.hold_block(rest, replies)
                case Batch():
                    if not service.offer_batch(event, replies):
                        service.hold_batch(event, replies)
                case Commit() | Invalid():
                    service.answer(event, replies)
        burst = service.take_burst()
        for number, note in enumerate(burst.notes if burst else ()):
            assert burst is not None
            self._last_sequence = burst.first_sequence + number
            self._arrivals[-1].events.append(
                Arrival(self._last_sequence, EventKind(note.kind), note.first, note.last, note.log_index)
            )

    # ---- everything else -----------------------------------------------------------------------------------------

    def _act(self, words: str) -> None:
        word, _, rest = words.partition(" ")
        if word == "rows":
            assert self._rows == rows_of(words)
        elif word == "take":
            self._take_records(int(rest or MANY))
        elif word not in ("client", "quiet", "pause"):
            self._actions[words]()

    @property
    def _actions(self) -> dict[str, Callable[[], object]]:
        return {
            "connect": self._connect,
            "checkpoint": lambda: (self._begin(), self._complete()),
            "checkpoint begins": self._begin,
            "checkpoint completes": self._complete,
            "checkpoint fails": lambda: (self._begin(), self._service.ledger.abort()),
            "source closes": self._check_closed,
            "collector closes its writing side": self._end_session,
            "connection lost": self._end_session,
            "kill -9": self._start,
            "host lost": lambda: self._start(host_lost=True),
            "new job": self._forget_everything,
            "another producer takes the room": self._race,
            "another producer gives it back": lambda: self._end_race(),
        }

    def _check_closed(self) -> None:
        assert self._session is not None
        assert self._session.state is SessionState.CLOSED
        self._session = None

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.received_eof()
        self._session = None

    def _take_records(self, count: int) -> None:
        for block in self._service.take(count, MANY):
            for number, stored in enumerate(block.payloads()):
                plain = block.compression is Compression.NONE
                payload = stored if plain else inflate(stored, block.compression, self._options.max_record_bytes)
                self._unpublished.append(row_of(block.id_at(number), payload))

    def _begin(self) -> None:
        self._cut = encode_cut(self._service.cut())
        self._in_cut = len(self._unpublished)

    def _complete(self) -> None:
        assert self._cut is not None
        self._service.ledger.complete()
        self._rows += self._unpublished[: self._in_cut]
        del self._unpublished[: self._in_cut]
        blobs = {kind: b"".join(parts) for kind, parts in self._cut.encode().items()}
        self._saved = (json.loads(json.dumps(self._cut.state)), blobs)

    def _race(self) -> None:
        self._end_race = take_the_room(self._service)

    def _forget_everything(self) -> None:
        self._saved, self._arrivals, self._floors, self._last_sequence, self._rows = None, [], {}, 0, []
        self._start()

    def _start(self, *, host_lost: bool = False) -> None:
        self._end_session()
        options = self._options
        replace = options.invalid_utf8 == "replace"
        raw = options.packet_mode == "RAW"
        decoder = PacketDecoder(
            options.secret_key, options.require_encryption, options.max_record_bytes, check_utf8=not replace
        )
        mark = high_water_mark(options.local_queue_capacity, str(options.queue_backpressure_watermark_ratio))
        self._service = IngressService(
            AdmissionRules(options.queue_full_retry_after_ms, options.deduplicate),
            Ledger(GapRule(options.batch_id_gaps)),
            RecordQueue(options.local_queue_capacity, mark, options.local_queue_max_bytes),
            RawCodec(replace_invalid=replace) if raw else PacketCodec(decoder),
            raw_blocks=raw,
        )
        state, blobs = self._saved or (None, {})
        restored = RestoredSource(state, state, blobs, False, self._floors, not host_lost)
        restore_service(self._service, restored, self._arrivals, lambda _: None)
        self._epoch += 1
        self._floors[self._epoch] = self._service.ledger.unclean_floor
        self._arrivals.append(Segment(self._epoch, self._last_sequence + 1))
        self._replies = []
        self._unpublished = []
