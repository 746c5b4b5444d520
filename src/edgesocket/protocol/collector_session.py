"""The collector's end of a conversation, without any I/O: requests out, replies paired with them, both in runs.

Every request line is answered by exactly one reply line, in request order. So the session remembers what is in flight
and gives each reply to the oldest. Whatever is not exactly a reply that this request can have counts as "not
received": the answer carries None, and the batch has to be sent again.

Batches go out in runs of consecutive ids, and equal replies to consecutive ids are one answer: on a fast link thousands
of lines cost a few objects. The session does not keep payloads. Standard library only.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from edgesocket.errors import LocalProtocolError, RemoteProtocolError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.commands import encode_auth, encode_batch, encode_commit
from edgesocket.protocol.ended_lines import EndedLines
from edgesocket.protocol.grammar import BATCH_PREFIX
from edgesocket.protocol.lines import LineSplitter, Overlong
from edgesocket.protocol.replies import RECEIVED, REJECTED, Reply, ReplyKind, parse_reply
from edgesocket.protocol.states import (
    COLLECTOR_TRANSITIONS,
    CollectorAction,
    CollectorInput,
    CollectorState,
    transition,
)

MAX_REPLY_LINE_BYTES = 256
"""The longest reply has 30 bytes; a longer line is no reply and is not held in memory."""

_RECEIVED_LINE = RECEIVED.encode()
_BLOCK = 1000
_HEAD = BATCH_PREFIX + b"%d"
_TAILS = [b"%03d:" % n for n in range(_BLOCK)]


class Asked(enum.Enum):
    """What a request asks for."""

    ADMISSION = "admission"
    """`__AUTH__`; nothing of the token is remembered."""
    RECEIPT = "receipt"
    """`__BATCH__`"""
    CONFIRMATION = "confirmation"
    """`__COMMIT__`"""


class Request(NamedTuple):
    """Requests of one kind that follow each other, in flight or answered.

    Attributes:
        asked: the kind.
        first_id: batch id of the first; 0 for ADMISSION.
        lines: how many; more than 1 only for RECEIPT, with ids that follow each other.
    """

    asked: Asked
    first_id: int
    lines: int


class Answer(NamedTuple):
    """Requests and the reply that each of them got; None where the lines were no reply that such a request can have."""

    request: Request
    reply: Reply | None


_EITHER = frozenset({ReplyKind.RETRY, ReplyKind.BAD_REQUEST, ReplyKind.INVALID_PARAM})

POSSIBLE_REPLIES: Mapping[Asked, frozenset[ReplyKind]] = {
    Asked.ADMISSION: frozenset({ReplyKind.AUTH_OK, ReplyKind.AUTH_FAILED, ReplyKind.REJECTED}),
    Asked.RECEIPT: _EITHER
    | {ReplyKind.RECEIVED, ReplyKind.QUEUE_FULL, ReplyKind.DECODE_FAILED, ReplyKind.DECRYPT_FAILED},
    Asked.CONFIRMATION: _EITHER | {ReplyKind.PENDING, ReplyKind.RESEND, ReplyKind.ACK},
}
"""Which replies a request can have."""

_ADMISSION = Request(Asked.ADMISSION, 0, 1)


class CollectorSession:
    """One conversation as the collector sees it. Not thread-safe.

    Attributes:
        state: where the conversation stands.
    """

    __slots__ = ("_in_flight", "_in_line", "_splitter", "state")

    def __init__(self) -> None:
        self._in_flight: deque[Request] = deque()
        self._splitter = LineSplitter(MAX_REPLY_LINE_BYTES)
        self._in_line = False
        self.state = CollectorState.CONNECTED

    def authenticate(self, token: bytes) -> bytes:
        """The first line to send. Raises LocalProtocolError when it was sent already, or the token holds an LF."""
        line = encode_auth(token)
        self._next(CollectorInput.SEND_AUTH)
        self._in_flight.append(_ADMISSION)
        return line

    def send_batches(self, first_id: int, payloads: Sequence[bytes]) -> bytes:
        """Batch lines to send, ids from `first_id` on; may follow the first line at once, without its answer.

        Raises:
            LocalProtocolError: nothing can be sent in this state, an id is out of range or a payload holds an LF;
                nothing of it is in flight then.
        """
        count = len(payloads)
        if not 0 < first_id <= first_id + count - 1 <= MAX_BATCH_ID:
            raise LocalProtocolError(f"batch ids {first_id} and {count} from there are not in 1..{MAX_BATCH_ID}")
        lines = encode_batches(first_id, payloads)
        self._next(CollectorInput.SEND_REQUEST)
        in_flight = self._in_flight
        if in_flight:
            asked, first, before = in_flight[-1]
            if asked is Asked.RECEIPT and first + before == first_id:
                in_flight[-1] = Request(asked, first, before + count)
                return lines
        in_flight.append(Request(Asked.RECEIPT, first_id, count))
        return lines

    def send_commit(self, batch_id: int) -> bytes:
        """A commit poll to send. Raises LocalProtocolError as `send_batches` does."""
        line = encode_commit(batch_id)
        self._next(CollectorInput.SEND_REQUEST)
        self._in_flight.append(Request(Asked.CONFIRMATION, batch_id, 1))
        return line

    @property
    def in_flight(self) -> int:
        """How many requests wait for their reply."""
        return sum(request.lines for request in self._in_flight)

    def receive_data(self, data: bytes) -> list[Answer]:
        """Bytes have arrived; returns the requests they answer, in order.

        AUTH_FAILED, REJECTED and anything else that is not ACK in answer to the first line close the session; what
        follows is ignored.

        Raises:
            RemoteProtocolError: a line came although nothing was in flight. The session is CLOSED; answers in the same
                bytes count as not received.
        """
        answers: list[Answer] = []
        if self._next(CollectorInput.BYTES) is CollectorAction.IGNORE:
            return answers
        end = data.rfind(b"\n") + 1
        begin = data.find(b"\n") + 1 if self._in_line else 0
        if begin:
            self._take_lines(self._splitter.feed(data[:begin]), answers)
        if begin < end:
            whole = data[begin:end]
            count, rest = divmod(len(whole), len(_RECEIVED_LINE))
            if not rest and whole.count(_RECEIVED_LINE) == count:
                self._take(RECEIVED, count, answers)
            else:
                self._take_lines(self._splitter.feed(whole), answers)
        if end < len(data):
            self._splitter.feed(data[end:])
        self._in_line = end < len(data) or (self._in_line and not end)
        return answers

    def receive_eof(self) -> list[Request]:
        """The connection has ended; returns the requests that will never be answered, in order."""
        self._next(CollectorInput.ENDED)
        unanswered = list(self._in_flight)
        self._in_flight.clear()
        return unanswered

    def _take_lines(self, lines: list[bytes | Overlong], answers: list[Answer]) -> None:
        for line, equal in groupby(lines):
            self._take(parse_reply(line) if isinstance(line, bytes) else None, sum(1 for _ in equal), answers)

    def _take(self, reply: Reply | None, count: int, answers: list[Answer]) -> None:
        """Give `count` equal replies to the oldest requests."""
        while count and self.state is not CollectorState.CLOSED:
            if not self._in_flight:
                answers.append(self._unasked(reply))
                return
            request = self._in_flight[0]
            asked, first, waiting = request
            if waiting <= count:
                self._in_flight.popleft()
            else:
                self._in_flight[0] = Request(asked, first + count, waiting - count)
                request = Request(asked, first, count)
            count -= request.lines
            possible = reply is not None and reply.kind in POSSIBLE_REPLIES[asked]
            if asked is Asked.ADMISSION:
                accepted = reply is not None and reply.kind is ReplyKind.AUTH_OK
                self._next(CollectorInput.AUTH_OK if accepted else CollectorInput.TURNED_AWAY)
            answers.append(Answer(request, reply if possible else None))

    def _unasked(self, reply: Reply | None) -> Answer:
        """A line came before anything was asked: turned away at the door, or no ingress at all."""
        if self.state is CollectorState.CONNECTED and reply == REJECTED:
            self._next(CollectorInput.TURNED_AWAY)
            return Answer(_ADMISSION, reply)
        self._next(CollectorInput.ENDED)
        raise RemoteProtocolError("a line came from the ingress although no request was in flight")

    def _next(self, event: CollectorInput) -> CollectorAction:
        self.state, action = transition(COLLECTOR_TRANSITIONS, self.state, event)
        return action


def encode_batches(first_id: int, payloads: Sequence[bytes]) -> bytes:
    """The same bytes as `encode_batch` of each, made several times as fast.

    Raises:
        LocalProtocolError: a payload holds an LF.
    """
    if isinstance(payloads, EndedLines):
        if payloads.written is not None and payloads.written[0] == first_id:
            return payloads.written[1]
        encoded = b"".join(_with_heads(first_id, payloads.ended, _HEAD)) if first_id >= _BLOCK else b"\r"
        if b"\r" not in encoded:
            return encoded
    elif first_id >= _BLOCK:
        together = b"".join(payloads)
        if b"\r" not in together and b"\n" not in together:
            pieces = _with_heads(first_id, payloads, b"\n" + _HEAD)
            pieces[0] = pieces[0].removeprefix(b"\n")
            pieces.append(b"\n")
            return b"".join(pieces)
    # The exact way: it writes no leading zero, keeps a last CR whole, and refuses an LF.
    return b"".join([encode_batch(batch_id, payload) for batch_id, payload in enumerate(payloads, first_id)])


def write_ahead(first_id: int, lines: EndedLines) -> None:
    """Write the batch lines now, while the payloads are in the processor's cache; with other ids it was in vain."""
    if 0 < first_id <= first_id + len(lines) - 1 <= MAX_BATCH_ID:
        lines.written = (first_id, encode_batches(first_id, lines))
        lines.pack()


def _with_heads(first_id: int, lines: Sequence[bytes], head: bytes) -> list[bytes]:
    """The lines, and before each one its head in two pieces."""
    pieces: list[bytes] = []
    count, at = len(lines), 0
    while at < count:
        block, place = divmod(first_id + at, _BLOCK)
        size = min(count - at, _BLOCK - place)
        some = [head % block] * (3 * size)
        some[1::3] = _TAILS[place : place + size]
        some[2::3] = lines[at : at + size]
        pieces += some
        at += size
    return pieces
