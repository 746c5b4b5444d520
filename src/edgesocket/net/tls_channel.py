"""A connection with TLS around it, without a byte that leaves behind our back.

OpenSSL never sees the socket. What the kernel received goes into one memory buffer, what has to be sent comes out of
another, and both go the same ways as in a plain connection: receiving waits in `recv` and is woken by a shut down
socket, sending goes through `Control.send`, so an abort is as final as without TLS. It also makes the handshake a thing
that goes on whenever bytes come, beside all the other peers in the lobby.

A peer's end is its close_notify or, as many leave that out, the end of the stream: a line that was cut off is no
request, with or without TLS, so a cut stream can do no more than a cut cable.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl

from edgesocket.net.channel import TlsRefusedError
from edgesocket.net.control import Control

HANDSHAKE_RECORD = 0x16
"""The first byte of every TLS conversation."""

_RECORD_BYTES = 16 * 1024
_LOBBY_READ_BYTES = 16 * 1024
_READ_BYTES = 128 * 1024
"""Received at a time in a conversation: it fits into the processor's cache, beside what it becomes."""

_AHEAD_BYTES = 4096
_SEND_BYTES = 256 * 1024

PULLS = 2
"""Receives of one call that bring nothing for us. A peer can send such records without end (key updates), and has to
leave the thread to others in between."""

STRANGER_BYTES = 128 * 1024
"""Encrypted bytes of a peer that was never answered: several times a handshake and a first line."""

OWN_WORDS_BYTES = 64 * 1024
"""What OpenSSL itself has said (alerts, key updates) and the peer does not read."""

_PLACE_IN_OPENSSL = re.compile(r" \(_ssl\.c:\d+\)\Z")


class TlsChannel:
    """See the module's text and `channel.Channel`. Used by the receiver thread only."""

    __slots__ = (
        "_ahead",
        "_buffer",
        "_control",
        "_ended",
        "_fin",
        "_from_stranger",
        "_heard",
        "_incoming",
        "_known",
        "_outgoing",
        "_promised",
        "_tls",
        "_unsent",
        "established",
        "sock",
    )

    encrypted = True

    def __init__(self, sock: socket.socket, control: Control, context: ssl.SSLContext) -> None:
        self.sock = sock
        self.established = False
        self._control = control
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._buffer: memoryview | None = None
        self._unsent = memoryview(b"")
        self._promised = 0  # bytes of the replies that are encrypted and not all out
        self._ahead = b""  # received and decrypted before anybody asked
        self._heard = False
        self._from_stranger = 0  # encrypted bytes that came before we sent the first reply
        self._known = False  # it was sent a reply
        self._fin = False  # the stream has ended; bytes of it may still be here
        self._ended = False  # and now nothing of it is

    @property
    def has_buffered(self) -> bool:
        """See Channel."""
        return bool(self._ahead) or self._incoming.pending > 0 or self._tls.pending() > 0

    @property
    def wants_to_write(self) -> bool:
        """See Channel."""
        return bool(self._unsent) or self._outgoing.pending > 0

    @property
    def certificate(self) -> dict[str, object]:
        """The peer's certificate as `ssl` shows it, once the handshake is done; empty where none was asked for."""
        return dict(self._tls.getpeercert() or {})

    def receive(self, room: memoryview) -> int:
        """See Channel. Goes on without waiting while there is more and room for it."""
        count = self._take_or_pull(room, 0)
        while count < len(room) and not self._ended:
            try:
                self._pull(socket.MSG_DONTWAIT)
                more = self._take(room[count:])
            except OSError:
                break  # there is nothing now; an error comes again
            if not more:
                break
            count += more
        return count

    def receive_now(self, room: memoryview) -> int:
        """See Channel."""
        return self._take_or_pull(room, socket.MSG_DONTWAIT)

    def is_spent(self) -> bool:
        """See Channel."""
        if not self._ahead and not self._ended:
            room = memoryview(bytearray(_AHEAD_BYTES))
            try:
                self._ahead = bytes(room[: self.receive_now(room)])
            except BlockingIOError:
                return False
            except (OSError, TlsRefusedError):
                return True
        return self._ended and not self._ahead

    def send(self, data: bytes) -> int:
        """See Channel. What was encrypted once is remembered, so the same bytes are never encrypted twice."""
        self._known = True
        if not self._promised:
            try:
                self._promised = self._tls.write(data[:_SEND_BYTES])
            except ssl.SSLError as error:
                raise _broken(error) from None
        self._flush()
        sent, self._promised = self._promised, 0
        return sent

    def say_end(self) -> None:
        """See Channel."""
        if not self.established:
            return
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # it wants to read the peer's; ours is written
        try:
            self._flush()
        except OSError:
            pass

    def _take_or_pull(self, room: memoryview, flags: int) -> int:
        """Bytes, from the network if need be; 0 at the end. Raises BlockingIOError where a few receives bring none."""
        count = self._take(room)
        for _ in range(PULLS):
            if count or self._ended:
                break
            self._pull(flags)
            count = self._take(room)
        if not count and not self._ended:
            raise BlockingIOError(errno.EAGAIN, "nothing but records of TLS itself")
        return count

    def _take(self, room: memoryview) -> int:
        """What can be had without the network: 0 means there is nothing, or `_ended`."""
        if self._ahead:
            count = min(len(room), len(self._ahead))
            room[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
            return count
        if not self.established and not self._shake_hands():
            return 0
        count, read = 0, self._tls.read
        try:
            while count < len(room):
                got = read(_RECORD_BYTES, room[count:])
                if not got:
                    self._ended = True
                    break
                count += int(got)
        except ssl.SSLWantReadError:
            self._ended = self._fin
        except ssl.SSLZeroReturnError:
            self._ended = True
        except ssl.SSLError as error:
            if not count:  # else it comes again
                raise _broken(error) from None
        if self._outgoing.pending:
            self._try_flush()
        return count

    def _shake_hands(self) -> bool:
        """Go on with the handshake. Returns whether it is done."""
        try:
            self._tls.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            self._ended = self._fin
        except ssl.SSLZeroReturnError:
            self._ended = True
        except ssl.SSLError as error:
            self._try_flush()  # the alert, which tells the peer why
            raise TlsRefusedError(words_of(error)) from None
        self._try_flush()
        return self.established

    def _pull(self, flags: int) -> None:
        """Receive once. Raises BlockingIOError while there is nothing, other errors for a peer that goes too far."""
        if len(self._unsent) + self._outgoing.pending - self._promised > OWN_WORDS_BYTES:
            raise ConnectionResetError(errno.ECONNRESET, "TLS: it makes us answer and does not read the answers")
        if not self._known and self._from_stranger > STRANGER_BYTES:
            raise TlsRefusedError("it sent too much before its first line")
        if self.established:
            if self._buffer is None and not flags:
                self._buffer = memoryview(bytearray(_READ_BYTES))
            self._try_flush()
        if self._buffer is None:
            data: bytes | memoryview = self.sock.recv(_LOBBY_READ_BYTES, flags)
        else:
            data = self._buffer[: self.sock.recv_into(self._buffer, 0, flags)]
        if not data:
            # OpenSSL is not told: it takes an end without a close_notify for an error, and then sends nothing either.
            self._fin = True
            return
        self._from_stranger += 0 if self._known else len(data)
        if not self._heard:
            self._heard = True
            if data[0] != HANDSHAKE_RECORD:
                raise TlsRefusedError("it does not speak TLS", plain=True)
        self._incoming.write(data)

    def _try_flush(self) -> None:
        try:
            self._flush()
        except OSError:
            pass  # it goes with what is sent next; where the connection is gone, receiving says so

    def _flush(self) -> None:
        """Send what OpenSSL has made. Raises BlockingIOError where the kernel has no room for all of it."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            sent = self._control.send(self.sock, self._unsent)
            self._unsent = self._unsent[sent:]


def words_of(error: ssl.SSLError) -> str:
    """An error of OpenSSL in its own words, without numbers and places in its code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if error.reason:
        return error.reason.lower().replace("_", " ")
    return _PLACE_IN_OPENSSL.sub("", str(error.strerror or error))


def _broken(error: ssl.SSLError) -> OSError:
    return ConnectionResetError(errno.ECONNRESET, f"TLS: {words_of(error)}")
