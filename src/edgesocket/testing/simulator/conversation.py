"""The ingress's end of one connection: what `net.connection` does with a socket, done with simulated bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesocket.errors import FencedError, StoreError
from edgesocket.net.events import DisconnectReason
from edgesocket.protocol.chunks import BufferPool
from edgesocket.protocol.replies import AUTH_FAILED, AUTH_OK, REJECTED
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import Authenticated, AuthRefused, ServerEvent, ServerSession
from edgesocket.testing.simulator.network import Connection
from edgesocket.testing.simulator.wire_tap import WireTap

if TYPE_CHECKING:
    from edgesocket.testing.simulator.process import IngressProcess

_MOST_SENT = 4096


class Conversation:
    """One peer of the ingress, before and after its election."""

    connection: Connection

    def __init__(self, process: IngressProcess, pool: BufferPool, tap: WireTap) -> None:
        self.actor = process
        self.elected = False
        self.open = True
        self.replies = ReplyQueue()
        self._process = process
        self._session = ServerSession(process.source.accepts_token, pool, max_line_bytes=4096)
        self._tap = tap

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if not self.open:
            return
        self._tap.request_bytes(data)
        while data and self.open:
            room = self._session.writable()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            data = data[count:]
            self._take(self._session.received(count))

    def drained(self) -> None:
        """The peer has read something."""
        if self.open:
            self._send_owed()

    def lost(self) -> None:
        """The peer is gone."""
        if self.open:
            self._end()

    def turn_away(self) -> None:
        """Another connection is the collector's."""
        self.replies.add(REJECTED)
        self._close_after_replies()

    def abandon(self) -> None:
        """The process ends or falls silent: nothing more is sent."""
        if self.open:
            self._end()
            self.connection.server_gone()

    def _take(self, events: list[ServerEvent]) -> None:
        if not events:
            return
        first = events[0]
        if isinstance(first, AuthRefused):
            self.replies.add(AUTH_FAILED)
            self._close_after_replies()
        elif isinstance(first, Authenticated):
            if not self._process.elect(self):
                self.turn_away()
                return
            self.elected = True
            self._process.source.session_started("collector")
            self.replies.add(AUTH_OK)
            self._answer(self._session.resume())
        else:
            self._answer(events)

    def _answer(self, events: list[ServerEvent]) -> None:
        try:
            if events:
                self._process.source.handle(events, self.replies)
        except FencedError as error:
            self._process.fail(error)
            return
        except StoreError:
            self.abandon()
            return
        if self._process.source.queue.records:
            self._process.soon()
        self._send_owed()

    def _send_owed(self) -> None:
        pipe = self.connection.down
        while self.replies and (room := min(pipe.room, _MOST_SENT)):
            if not self._process.still_owner():
                self._process.fail(FencedError("another process may own the job"))
                return
            data = self.replies.peek(room)
            self._tap.reply_bytes(data)
            pipe.send(data)
            self.replies.consumed(len(data))
        if not self.replies and self.elected:
            self._tap.all_answered()

    def _close_after_replies(self) -> None:
        data = self.replies.peek(_MOST_SENT)
        self.connection.down.send(data)
        self._end()
        self.connection.server_closes()

    def _end(self) -> None:
        self.open = False
        self._session.received_eof()
        if self.elected:
            self._process.source.session_ended(DisconnectReason.PEER_RESET)
        self._process.left(self)
