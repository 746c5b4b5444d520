"""The collector's end of one connection: what `collector.link` does with a socket, done with simulated bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgesocket.errors import RemoteProtocolError
from edgesocket.protocol.collector_session import CollectorSession
from edgesocket.protocol.replies import ReplyKind
from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.network import Connection

if TYPE_CHECKING:
    from edgesocket.testing.simulator.collector import SimulatedCollector

_BUFFERED_BYTES = 4096


class SimulatedLink:
    """One conversation as its collector has it.

    Attributes:
        authenticated: the ingress has let it in.
    """

    connection: Connection | None

    def __init__(self, collector: SimulatedCollector, token: bytes) -> None:
        self.actor = collector
        self.authenticated = False
        self.connection = None
        self._collector = collector
        self._token = token
        self._session = CollectorSession()
        self._out = bytearray()
        self._open = True
        self._manners = collector.manners

    def opened(self) -> None:
        """The network has made the connection."""
        self._out += self._session.authenticate(self._token)
        self.push()

    @property
    def has_room(self) -> bool:
        """Whether another batch should be written now."""
        return len(self._out) < _BUFFERED_BYTES

    def write_batches(self, first_id: int, payloads: Sequence[bytes]) -> None:
        """Write batches with consecutive ids."""
        self._manners.sends(first_id, len(payloads))
        self._out += self._session.send_batches(first_id, payloads)

    def write_poll(self, batch_id: int) -> None:
        """Write a commit poll."""
        self._out += self._session.send_commit(batch_id)

    def push(self) -> None:
        """Send what the network takes now."""
        if not self._open or self.connection is None:
            return
        count = min(self.connection.up.room, len(self._out))
        if count:
            self.connection.up.send(bytes(self._out[:count]))
            del self._out[:count]

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if not self._open:
            return
        try:
            answers = self._session.receive_data(data)
        except RemoteProtocolError as error:
            raise Violation("one-reply-a-request", str(error)) from error
        if answers and not self.authenticated:
            reply = answers.pop(0).reply
            if reply is None or reply.kind is not ReplyKind.AUTH_OK:
                self.end()
                self._collector.link_lost()
                return
            self.authenticated = True
            self._collector.let_in()
        for answer in answers:
            self._manners.reads(answer)
        self._collector.answered(answers)

    def drained(self) -> None:
        """There is room to send."""
        if self._open:
            self.push()
            self._collector.advance()

    def lost(self) -> None:
        """The connection is gone."""
        if self._open:
            self._open = False
            self._collector.link_lost()

    def end(self) -> None:
        """Close it from here."""
        if self._open:
            self._open = False
            if self.connection is not None:
                self.connection.client_gone()
