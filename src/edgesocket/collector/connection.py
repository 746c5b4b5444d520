"""One TCP connection that never blocks: being made, then carrying bytes both ways.

Reading never waits for writing and writing never waits for reading. That is what keeps two peers from waiting for each
other when both have more to say than the network holds.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections import deque

READ_BYTES = 256 * 1024
WRITE_BUFFER_BYTES = 256 * 1024
"""More than this is not taken on for writing; what does not fit stays in the window."""

_IN_PROGRESS = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN}

# The same bounds as at the ingress: a dead peer is noticed within 30 s, also while nothing is sent.
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


class Connection:
    """A connection to the first address of a host that answers. Not thread-safe."""

    def __init__(self, host: str, port: int) -> None:
        """Begin to connect.

        Raises:
            OSError: the name is unknown, or every address fails at once.
        """
        self._addresses = deque(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        self._socket: socket.socket | None = None
        self._problem = OSError(errno.EADDRNOTAVAIL, "the name has no address")
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._write_broken = False
        self.written_bytes = 0
        """Bytes the network has taken."""
        self.connected = False
        self._try_next()

    def fileno(self) -> int:
        """The descriptor to wait on; another address may be tried on another one."""
        assert self._socket is not None
        return self._socket.fileno()

    @property
    def wanted_events(self) -> int:
        """What to poll for, as `select.poll` takes it."""
        if not self.connected:
            return select.POLLOUT
        return select.POLLIN | (select.POLLOUT if self._unsent and not self._write_broken else 0)

    @property
    def writable_bytes(self) -> int:
        """How much more may be given to `write` now; 0 or less: come back later."""
        return WRITE_BUFFER_BYTES - self._unsent_bytes

    @property
    def is_writing(self) -> bool:
        """Whether the network has not yet taken all there is to write."""
        return bool(self._unsent)

    def check_connected(self) -> bool:
        """Whether the connection is made; call it when the descriptor is ready.

        Raises:
            OSError: no address answered; the last one's error.
        """
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(OSError(code, os.strerror(code)))
            self._try_next()
        else:
            self._made()
        return self.connected

    def write(self, data: bytes) -> None:
        """Take bytes to write; `push` writes them."""
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)

    def push(self) -> None:
        """Write what the network takes now.

        A peer that is gone shows here first, but what it said before it went may still be unread: errors are left for
        `read` to find.
        """
        assert self._socket is not None
        while self._unsent and not self._write_broken:
            piece = self._unsent[0]
            try:
                written = self._socket.send(piece)
            except BlockingIOError:
                return
            except OSError:
                self._write_broken = True
                return
            self._written(written)

    def _written(self, count: int) -> None:
        """The network has taken so much of the oldest piece."""
        piece = self._unsent[0]
        if count == len(piece):
            self._unsent.popleft()
        else:
            self._unsent[0] = piece[count:]
        self._unsent_bytes -= count
        self.written_bytes += count

    def read(self) -> bytes | None:
        """Bytes that have come; b"" at the end of the stream; None while there are none.

        Raises:
            OSError: the connection broke.
        """
        assert self._socket is not None
        try:
            return self._socket.recv(READ_BYTES)
        except BlockingIOError:
            # After a failed write the stream's end is certain; when nothing more can be read it is here.
            return b"" if self._write_broken else None

    def close(self) -> None:
        """Close; what is unsent is not sent."""
        if self._socket is not None:
            self._socket.close()

    def _try_next(self) -> None:
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.popleft()
            try:
                self._socket = socket.socket(family, kind, protocol)
                self._socket.setblocking(False)
                code = self._socket.connect_ex(address)
            except OSError as problem:
                self._failed(problem)
                continue
            if code == 0:
                self._made()
                return
            if code in _IN_PROGRESS:
                return
            self._failed(OSError(code, os.strerror(code)))
        raise self._problem

    def _failed(self, problem: OSError) -> None:
        self._problem = problem
        self.close()
        self._socket = None

    def _made(self) -> None:
        assert self._socket is not None
        if self._socket.getsockname() == self._socket.getpeername():
            # Trying a local port that nobody listens on can, by chance, connect to itself.
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.connected = True
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
