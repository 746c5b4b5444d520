"""What a conversation reads from and writes to: a plain connection, or the same with TLS around it (`tls_channel`).

Both have the kernel's socket in `sock`, for everything that is about the connection and not about its bytes: polling,
what is unsent, shutting down, closing. Bytes leave through `Control.send` alone, so that after an abort none can.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import ClassVar, Protocol

from edgesocket.net import socket_options
from edgesocket.net.control import Control


class TlsRefusedError(Exception):
    """The handshake cannot succeed. `cause` is ours or OpenSSL's words, never the peer's.

    Attributes:
        plain: the peer does not speak TLS at all.
    """

    def __init__(self, cause: str, *, plain: bool = False) -> None:
        self.cause = cause
        self.plain = plain
        super().__init__(cause)


class Channel(Protocol):
    """One connection, as lobby and conversation see it.

    Attributes:
        sock: the connection itself.
        receive: takes a buffer, waits for bytes as long as the socket does, and returns how many came; 0 at the end.
            Raises BlockingIOError when the socket's patience is over, OSError when the connection is gone.
    """

    sock: socket.socket

    @property
    def receive(self) -> Callable[[memoryview], int]:
        """See the class."""
        ...

    @property
    def encrypted(self) -> bool:
        """Whether TLS is around it."""
        ...

    @property
    def established(self) -> bool:
        """Whether a reply could be sent: there is no handshake, or it is done."""
        ...

    @property
    def has_buffered(self) -> bool:
        """Whether bytes may be had that the kernel no longer holds, so that polling would not tell."""
        ...

    @property
    def wants_to_write(self) -> bool:
        """Whether something of its own, that the kernel had no room for, has to go out before it can go on."""
        ...

    def receive_now(self, room: memoryview) -> int:
        """As `receive`, without waiting.

        Raises:
            BlockingIOError: there is nothing now.
            OSError: the connection is gone.
            TlsRefusedError: the peer speaks no TLS, or not the TLS that is wanted.
        """
        ...

    def is_spent(self) -> bool:
        """Whether the peer has closed its writing side and nothing of it is left to be read."""
        ...

    def send(self, data: bytes) -> int:
        """Send without waiting. Returns how many of the bytes are out; the same ones have to be offered again.

        Raises:
            SilencedError: nothing may be sent any more.
            BlockingIOError: no room.
            OSError: the connection is gone.
        """
        ...

    def say_end(self) -> None:
        """Say, as far as that can be done at once, that nothing more will be sent. Raises SilencedError only."""
        ...


class PlainChannel:
    """Bytes as they are. See Channel."""

    __slots__ = ("_control", "receive", "sock")

    encrypted: ClassVar[bool] = False
    established: ClassVar[bool] = True
    has_buffered: ClassVar[bool] = False
    wants_to_write: ClassVar[bool] = False

    def __init__(self, sock: socket.socket, control: Control) -> None:
        self.sock = sock
        self.receive: Callable[[memoryview], int] = sock.recv_into
        self._control = control

    def receive_now(self, room: memoryview) -> int:
        """See Channel."""
        return self.sock.recv_into(room, 0, socket.MSG_DONTWAIT)

    def is_spent(self) -> bool:
        """See Channel."""
        return socket_options.has_hung_up(self.sock) and not socket_options.unread(self.sock)

    def send(self, data: bytes) -> int:
        """See Channel."""
        return self._control.send(self.sock, data)

    def say_end(self) -> None:
        """See Channel: the end of the stream says it."""
