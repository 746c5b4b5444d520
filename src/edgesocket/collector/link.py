"""One conversation with an ingress, from the first SYN to the last reply; a lost one is replaced, never mended.

Joins the socket (`Connection`) and the protocol (`CollectorSession`). It authenticates by itself; what it hands on are
answers to batches and polls. Whatever ends it is raised: `LinkLostError` where another link may do better, the errors
of the collector where none will.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgesocket.collector.connection import Connection
from edgesocket.errors import AuthFailedError, RejectedError, RemoteProtocolError
from edgesocket.protocol.collector_session import Answer, Asked, CollectorSession, Request
from edgesocket.protocol.replies import Reply, ReplyKind

if TYPE_CHECKING:
    from edgesocket.collector.tls import TlsMaker


class LinkLostError(Exception):
    """This conversation is over; what was unanswered in it was not received.

    Attributes:
        strange: what the ingress did that the protocol does not allow, or "".
    """

    def __init__(self, reason: str, strange: str = "") -> None:
        self.strange = strange
        super().__init__(reason)


class Link:
    """See the module's text. Not thread-safe."""

    def __init__(self, host: str, port: int, token: bytes, *, tls: TlsMaker | None = None) -> None:
        """Begin to connect. Raises LinkLostError where that fails at once, TlsError where TLS cannot be tried."""
        try:
            self._connection = Connection(host, port) if tls is None else _over_tls(host, port, tls)
        except OSError as problem:
            raise LinkLostError(_cause(problem)) from None
        self._session = CollectorSession()
        self._token = token
        self.authenticated = False
        if self._connection.connected:
            self._authenticate()

    def fileno(self) -> int:
        """The descriptor to wait on; it can change until `authenticated`."""
        return self._connection.fileno()

    @property
    def wanted_events(self) -> int:
        """What to wait for on it, as `select.poll` takes it."""
        return self._connection.wanted_events

    @property
    def connected(self) -> bool:
        """Whether the network has made the connection."""
        return self._connection.connected

    @property
    def has_room(self) -> bool:
        """Whether another batch should be written now; else it is better kept in the window."""
        return self._connection.writable_bytes > 0

    @property
    def bytes_under_way(self) -> int | None:
        """While there is still something to write: how many bytes were written so far. Else None."""
        return self._connection.written_bytes if self._connection.is_writing else None

    def write_batches(self, first_id: int, payloads: Sequence[bytes]) -> None:
        """Write batches with consecutive ids; `push` moves the bytes."""
        self._connection.write(self._session.send_batches(first_id, payloads))

    def write_poll(self, batch_id: int) -> None:
        """Write a commit poll; `push` moves the bytes."""
        self._connection.write(self._session.send_commit(batch_id))

    def push(self) -> None:
        """Send what the network takes now. Never raises: `ready` tells what is wrong."""
        self._connection.push()

    def ready(self) -> list[Answer]:
        """Go on after the descriptor became ready. Returns the answers to batches and polls that came.

        Raises:
            LinkLostError: refused, broken, ended, or the ingress said what is no reply.
            AuthFailedError, RejectedError: it said so.
            TlsError: one side does not accept the certificate of the other.
        """
        try:
            if not self._connection.connected:
                if not self._connection.check_connected():
                    return []
                self._authenticate()
            self._connection.push()
            data = self._connection.read()
        except OSError as problem:
            raise LinkLostError(_cause(problem)) from None
        if data is None:
            return []
        if not data:
            raise LinkLostError("the ingress closed the connection")
        try:
            answers = self._session.receive_data(data)
        except RemoteProtocolError as problem:
            raise no_reply(str(problem)) from None
        if not self.authenticated and answers:
            self._take_first(answers.pop(0).reply)
        return answers

    def close(self) -> None:
        """Close; bytes not yet sent are dropped."""
        self._connection.close()

    def _authenticate(self) -> None:
        self._connection.write(self._session.authenticate(self._token))
        self._connection.push()

    def _take_first(self, reply: Reply | None) -> None:
        kind = None if reply is None else reply.kind
        if kind is ReplyKind.AUTH_FAILED:
            raise AuthFailedError("the ingress refused the token")
        if kind is ReplyKind.REJECTED:
            raise RejectedError("another collector is connected to this ingress; is one still running?")
        if kind is not ReplyKind.AUTH_OK:
            raise no_reply(f"__AUTH__ was answered by {shown(reply)}")
        self.authenticated = True


def _over_tls(host: str, port: int, tls: TlsMaker) -> Connection:
    from edgesocket.collector.tls import TlsConnection

    return TlsConnection(host, port, tls)


def no_reply(what: str) -> LinkLostError:
    """The loss of a link whose peer does not follow the protocol; `what` says how."""
    return LinkLostError("the ingress sent what is no reply", what)


def shown(reply: Reply | None) -> str:
    """A reply for a message."""
    return "something that is no reply" if reply is None else str(reply)


def strange_answer(request: Request, reply: Reply | None) -> LinkLostError:
    """The loss of a link because this reply does not answer this request."""
    what = "a batch" if request.asked is Asked.RECEIPT else "a commit poll"
    return no_reply(f"{what} was answered by {shown(reply)}")


def _cause(problem: OSError) -> str:
    return problem.strerror or str(problem)
