"""Connections that have been told their last word and are about to be closed.

Closing a connection whose peer is still sending makes the kernel answer with a reset, and a reset can take back a
reply that the peer has not read yet. So after the last word only our sending side is closed; what the peer still
sends is thrown away until it hangs up, for a short time at most.
"""

from __future__ import annotations

import socket
from collections import deque

LINGER_S = 2.0
CAPACITY = 128
_READ_BYTES = 64 * 1024
_READS_A_SWEEP = 16


class Departures:
    """At most `CAPACITY` such connections; the oldest is closed when another one comes. Not thread-safe."""

    def __init__(self) -> None:
        self._leaving: deque[tuple[socket.socket, float]] = deque()

    def __len__(self) -> int:
        return len(self._leaving)

    def add(self, sock: socket.socket, now: float) -> None:
        """Take over a connection that needs nothing any more but a good end."""
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            sock.close()
            return
        if _is_over(sock):
            sock.close()
            return
        if len(self._leaving) >= CAPACITY:
            self._leaving.popleft()[0].close()
        self._leaving.append((sock, now + LINGER_S))

    def sweep(self, now: float) -> None:
        """Close those whose peer has hung up or whose time is over."""
        for _ in range(len(self._leaving)):
            sock, deadline = self._leaving.popleft()
            if now >= deadline or _is_over(sock):
                sock.close()
            else:
                self._leaving.append((sock, deadline))

    def close_all(self) -> None:
        """Close all of them now."""
        while self._leaving:
            self._leaving.popleft()[0].close()


def _is_over(sock: socket.socket) -> bool:
    """Throw away what has come; whether the peer's end, or an error, was behind it."""
    for _ in range(_READS_A_SWEEP):
        try:
            if not sock.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                return True
        except BlockingIOError:
            return False
        except OSError:
            return True
    return False
