"""The conversation with the elected collector: receive, hand on, reply.

The hot path is one recv() and at most one send() a burst. recv() blocks, and the kernel ends it after a tick
(`SO_RCVTIMEO`), so nothing has to ask whether bytes are there. A send never blocks: what the kernel does not take
stays in the reply queue, and from then on, until it is empty again, the loop polls for both directions and goes on
reading, because a collector may well write everything it has before it reads its first reply. Reading pauses only
when the queue of owed replies is full, and the conversation is cut only when replies are owed and not a byte has moved
in either direction for `reply_stall_timeout_ms`. No timeout touches what has been received.

A peer whose kernel does not answer is the kernel's to find (keepalive, TCP_USER_TIMEOUT), with one correction: Linux
also applies TCP_USER_TIMEOUT to a live peer that has merely closed its receive window because its reader is busy
elsewhere. While that is the case (bytes unsent, none unacknowledged) the option is taken off and the reply stall
timeout alone decides.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from edgesocket.errors import FencedError, StoreError
from edgesocket.net import socket_options
from edgesocket.net.channel import Channel
from edgesocket.net.control import Control, SilencedError
from edgesocket.net.counters import Counters
from edgesocket.net.events import DisconnectReason
from edgesocket.net.handler import ConversationHandler
from edgesocket.net.options import ListenOptions
from edgesocket.net.stall_watch import StallWatch
from edgesocket.protocol.replies import AUTH_OK
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import ServerEvent, ServerSession

_SEND_BYTES = 256 * 1024
"""Replies handed to one send(): more than the bursts of a full receive buffer usually owe."""

_FLUSH_POLL_MS = 20
_DISCARD_BYTES = 256 * 1024
_DISCARDS = 16
_NO_SIGN_OF_LIFE = frozenset(
    {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ENETRESET}
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a conversation ended, and the kernel's words for it where there are any."""

    reason: DisconnectReason
    detail: str = ""


class _EndedError(Exception):
    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        super().__init__(ending.reason)


class Connection:
    """One elected collector, from its ACK to its end. Used by the receiver thread only.

    Args:
        channel: its socket is blocking, tuned, attached to `control`; its handshake, if there is one, is done.
        session: authenticated, holding back what followed the first line.
        housekeeping: called with the time about every tick.
    """

    def __init__(
        self,
        channel: Channel,
        session: ServerSession,
        handler: ConversationHandler,
        options: ListenOptions,
        control: Control,
        counters: Counters,
        housekeeping: Callable[[float], None],
    ) -> None:
        self._channel = channel
        self._sock = channel.sock
        self._session = session
        self._handler = handler
        self._options = options
        self._control = control
        self._counters = counters
        self._housekeeping = housekeeping
        self._replies = ReplyQueue()
        now = time.monotonic()
        self._tick_s = options.tick_ms / 1000
        self._next_tick = now + self._tick_s
        self._watch = StallWatch(options.reply_stall_timeout_ms / 1000, now)
        self._window_closed = False
        self._poller = select.poll()
        self._poller.register(control.wake, select.POLLIN)

    @property
    def owed_runs(self) -> int:
        """Runs of replies that wait to be sent."""
        return self._replies.run_count

    def run(self) -> Ending:
        """Converse until the end, whatever that is; the caller closes.

        Raises:
            Exception: whatever the handler raises.
            SilencedError: this incarnation may not answer any more.
        """
        try:
            self._replies.add(AUTH_OK)
            self._send_owed()
            self._counters.received_bytes += self._session.held_back_bytes
            self._answer(self._session.resume())
            self._stream()
            self._catch_up(reading=False)
            self._channel.say_end()
            return Ending(DisconnectReason.PEER_CLOSED)
        except _EndedError as ended:
            if ended.ending.reason is DisconnectReason.STOPPED:
                self._flush()
            return ended.ending
        except FencedError:
            raise
        except StoreError as error:
            return Ending(DisconnectReason.NOT_RECORDED, str(error))
        finally:
            self._session.received_eof()

    def _stream(self) -> None:
        """Receive and answer until the peer closes its writing side."""
        receive, session, control = self._channel.receive, self._session, self._control
        while True:
            try:
                count = receive(session.writable())
            except BlockingIOError:
                count = -1
            except OSError as error:
                raise _ended_by(error) from error
            if count > 0:
                self._counters.received_bytes += count
                self._answer(session.received(count))
            elif count == 0 and not control.stopping:
                return
            self._look_around()

    def _answer(self, events: list[ServerEvent]) -> None:
        if events:
            self._handler.handle(events, self._replies)
        if self._replies and not self._send_owed():
            self._catch_up(reading=True)

    def _send_owed(self) -> bool:
        """Send what is owed, as far as the kernel takes it. Returns whether that was everything."""
        replies = self._replies
        while replies:
            data = replies.peek(_SEND_BYTES)
            try:
                sent = self._channel.send(data)
            except BlockingIOError:
                return False
            except OSError as error:
                raise _ended_by(error) from error
            replies.consumed(sent)
            self._counters.sent_bytes += sent
            if sent < len(data):
                return False
        return True

    def _catch_up(self, reading: bool) -> None:
        """The slow path: send as the peer takes, and go on reading while there is room for more replies."""
        replies, sock, channel = self._replies, self._sock, self._channel
        while replies:
            interest = select.POLLOUT
            if reading and not replies.full:
                interest |= select.POLLIN
            self._poller.register(sock, interest)
            unpolled = bool(interest & select.POLLIN) and channel.has_buffered
            ready = dict(self._poller.poll(0 if unpolled else self._options.tick_ms)).get(sock.fileno(), 0)
            if ready & ~select.POLLIN:
                self._send_owed()
            if unpolled or ready & interest & select.POLLIN:
                reading = self._read_more()
            self._look_around()

    def _read_more(self) -> bool:
        """Receive once without waiting and let it be handled. Returns False at the end of the stream."""
        try:
            count = self._channel.receive_now(self._session.writable())
        except BlockingIOError:
            return True
        except OSError as error:
            raise _ended_by(error) from error
        if count > 0:
            self._counters.received_bytes += count
            events = self._session.received(count)
            if events:
                self._handler.handle(events, self._replies)
        return count > 0

    def _look_around(self) -> None:
        """What has to be noticed between two bursts."""
        if self._control.stopping:
            if self._control.aborted:
                raise SilencedError
            raise _EndedError(Ending(DisconnectReason.STOPPED))
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + self._tick_s
            self._tick(now)

    def _tick(self, now: float) -> None:
        self._housekeeping(now)
        unsent, unacknowledged = socket_options.outgoing(self._sock)
        window_closed = unsent > 0 and unacknowledged == 0
        if window_closed != self._window_closed:
            self._window_closed = window_closed
            socket_options.set_user_timeout(self._sock, 0 if window_closed else self._options.user_timeout_ms)
        counters = self._counters
        progress = (counters.received_bytes, counters.sent_bytes, unsent + unacknowledged)
        if self._watch.is_stalled(now, bool(self._replies) or unsent > 0, progress):
            raise _EndedError(Ending(DisconnectReason.REPLIES_NOT_READ))

    def _flush(self) -> None:
        """Give the peer what it is owed before a stop, until the deadline of the stop.

        It ends when the peer's kernel has everything, so that closing with unread bytes cannot take replies back. What
        the peer still sends is thrown away: it gets no answer, so the peer has to send it again.
        """
        poller = select.poll()
        poller.register(self._sock, select.POLLOUT)
        said = False
        try:
            while (left_s := self._control.stop_deadline - time.monotonic()) > 0:
                everything_sent = self._send_owed()
                self._discard()
                if everything_sent and not said:
                    said = True
                    self._channel.say_end()
                if everything_sent and not sum(socket_options.outgoing(self._sock)):
                    return
                wait_ms = min(_FLUSH_POLL_MS, left_s * 1000)
                if everything_sent:
                    time.sleep(min(wait_ms, 1) / 1000)  # acknowledgements cannot be polled for
                else:
                    poller.poll(wait_ms)
        except _EndedError:
            return  # the peer did not wait for it

    def _discard(self) -> None:
        try:
            for _ in range(_DISCARDS):
                if not self._sock.recv(_DISCARD_BYTES, socket.MSG_DONTWAIT):
                    return
        except OSError:
            pass


def _ended_by(error: OSError) -> _EndedError:
    silent = error.errno in _NO_SIGN_OF_LIFE
    reason = DisconnectReason.NO_SIGN_OF_LIFE if silent else DisconnectReason.PEER_RESET
    return _EndedError(Ending(reason, error.strerror or ""))
