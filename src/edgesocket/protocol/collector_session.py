"""The collector's end of a conversation, without any I/O: requests out, replies paired with them.

Every request line is answered by exactly one reply line, in request order. So the session remembers what is in flight
and gives each reply to the oldest. Whatever is not exactly a reply that this request can have counts as "not
received": the answer carries None, and the batch has to be sent again. Standard library only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from edgesocket.errors import RemoteProtocolError
from edgesocket.protocol.commands import Batch, Commit, encode_auth, encode_batch, encode_commit
from edgesocket.protocol.lines import LineSplitter
from edgesocket.protocol.replies import REJECTED, Reply, ReplyKind, parse_reply
from edgesocket.protocol.states import (
    COLLECTOR_TRANSITIONS,
    CollectorAction,
    CollectorInput,
    CollectorState,
    transition,
)

MAX_REPLY_LINE_BYTES = 256
"""The longest reply has 30 bytes; a longer line is no reply and is not held in memory."""


@dataclass(frozen=True, slots=True)
class Authenticate:
    """The first line of a conversation; remembers nothing of the token."""


Request = Authenticate | Batch | Commit
"""What can be in flight. A batch stays with its payload, so that it can be sent again."""


class Answer(NamedTuple):
    """A request and its reply; None where the line was no reply that the request can have."""

    request: Request
    reply: Reply | None


_EITHER = frozenset({ReplyKind.RETRY, ReplyKind.BAD_REQUEST, ReplyKind.INVALID_PARAM})

POSSIBLE_REPLIES: Mapping[type[Request], frozenset[ReplyKind]] = {
    Authenticate: frozenset({ReplyKind.AUTH_OK, ReplyKind.AUTH_FAILED, ReplyKind.REJECTED}),
    Batch: _EITHER | {ReplyKind.RECEIVED, ReplyKind.QUEUE_FULL, ReplyKind.DECODE_FAILED, ReplyKind.DECRYPT_FAILED},
    Commit: _EITHER | {ReplyKind.PENDING, ReplyKind.RESEND, ReplyKind.ACK},
}
"""Which replies a request can have."""

_AUTHENTICATE = Authenticate()


class CollectorSession:
    """One conversation as the collector sees it. Not thread-safe.

    Attributes:
        state: where the conversation stands.
    """

    __slots__ = ("_in_flight", "_splitter", "state")

    def __init__(self) -> None:
        self._in_flight: deque[Request] = deque()
        self._splitter = LineSplitter(MAX_REPLY_LINE_BYTES)
        self.state = CollectorState.CONNECTED

    def authenticate(self, token: bytes) -> bytes:
        """The first line to send. Raises LocalProtocolError when it was sent already, or the token holds an LF."""
        line = encode_auth(token)
        self._next(CollectorInput.SEND_AUTH)
        self._in_flight.append(_AUTHENTICATE)
        return line

    def send_batch(self, batch_id: int, payload: bytes) -> bytes:
        """A batch line to send; may follow the first line at once, without waiting for its answer.

        Raises:
            LocalProtocolError: nothing can be sent in this state, the id is out of range or the payload holds an LF.
        """
        line = encode_batch(batch_id, payload)
        self._next(CollectorInput.SEND_REQUEST)
        self._in_flight.append(Batch(batch_id, payload))
        return line

    def send_commit(self, batch_id: int) -> bytes:
        """A commit poll to send. Raises LocalProtocolError as `send_batch` does."""
        line = encode_commit(batch_id)
        self._next(CollectorInput.SEND_REQUEST)
        self._in_flight.append(Commit(batch_id))
        return line

    @property
    def in_flight(self) -> int:
        """How many requests wait for their reply."""
        return len(self._in_flight)

    def receive_data(self, data: bytes) -> list[Answer]:
        """Bytes have arrived; returns the requests they answer, in order.

        AUTH_FAILED, REJECTED and anything else that is not ACK in answer to the first line close the session; what
        follows is ignored.

        Raises:
            RemoteProtocolError: a line came although nothing was in flight. The session is CLOSED; answers in the same
                bytes count as not received.
        """
        if self._next(CollectorInput.BYTES) is CollectorAction.IGNORE:
            return []
        answers: list[Answer] = []
        for line in self._splitter.feed(data):
            answers.append(self._answer(parse_reply(line) if isinstance(line, bytes) else None))
            if self.state is CollectorState.CLOSED:
                break
        return answers

    def receive_eof(self) -> list[Request]:
        """The connection has ended; returns the requests that will never be answered, in order."""
        self._next(CollectorInput.ENDED)
        unanswered = list(self._in_flight)
        self._in_flight.clear()
        return unanswered

    def _answer(self, reply: Reply | None) -> Answer:
        if not self._in_flight:
            if self.state is CollectorState.CONNECTED and reply == REJECTED:
                self._next(CollectorInput.TURNED_AWAY)
                return Answer(_AUTHENTICATE, reply)
            self._next(CollectorInput.ENDED)
            raise RemoteProtocolError("a line came from the ingress although no request was in flight")
        request = self._in_flight.popleft()
        if reply is not None and reply.kind not in POSSIBLE_REPLIES[type(request)]:
            reply = None
        if isinstance(request, Authenticate):
            accepted = reply is not None and reply.kind is ReplyKind.AUTH_OK
            self._next(CollectorInput.AUTH_OK if accepted else CollectorInput.TURNED_AWAY)
        return Answer(request, reply)

    def _next(self, event: CollectorInput) -> CollectorAction:
        self.state, action = transition(COLLECTOR_TRANSITIONS, self.state, event)
        return action
