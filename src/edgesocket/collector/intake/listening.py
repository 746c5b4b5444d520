"""A TCP port of an input, and its connections: accepted up to a limit, never waited for."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from typing import Any

from edgesocket.errors import CollectorError

BACKLOG = 128
_ACCEPTS_A_ROUND = 64

_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A sender whose host is gone is noticed after about a minute and a half, and its place is free again."""


class Listener:
    """One listening socket and a selector over it and everything it accepted.

    The selector is itself a descriptor that becomes readable: the agent waits on that one alone.
    """

    def __init__(self, name: str, address: str, port: int, most_connections: int) -> None:
        """Args: name of the input for messages, where to listen, and how many connections there may be."""
        self._name = name
        self._address = address
        self._port = port
        self.most = most_connections
        """How many connections there may be."""
        self._socket: socket.socket | None = None
        self._selector: selectors.BaseSelector | None = None
        self._reserve: int | None = None
        self.refused = 0
        """Connections that were one too many."""

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port if self._socket is None else int(self._socket.getsockname()[1])

    @property
    def selector(self) -> selectors.BaseSelector:
        """The selector. Only between `open` and `close`."""
        assert self._selector is not None
        return self._selector

    def open(self) -> None:
        """Listen.

        Raises:
            CollectorError: the address or port cannot be had.
        """
        self._socket = open_socket(self._name, self._address, self._port, socket.SOCK_STREAM)
        self._socket.listen(BACKLOG)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ, None)
        self._keep_reserve()

    def descriptors(self) -> list[int]:
        """What the agent waits on."""
        fileno = getattr(self._selector, "fileno", None)
        return [] if fileno is None else [fileno()]

    def accept(self, connections: int, *, keep_extra: bool = False) -> list[tuple[socket.socket, str]]:
        """Connections that came, with their peer's address; they are not registered yet.

        Args:
            connections: how many there are already.
            keep_extra: hand out those that are too many as well, for an answer; else they are closed.
        """
        assert self._socket is not None
        found: list[tuple[socket.socket, str]] = []
        for _ in range(_ACCEPTS_A_ROUND):
            try:
                accepted, peer = self._socket.accept()
            except OSError as problem:
                if problem.errno in (errno.EMFILE, errno.ENFILE) and self._turn_away():
                    continue
                break  # none is left, or this one is gone again
            extra = connections + len(found) - self.most
            if extra >= 0:
                self.refused += 1
                if not keep_extra or extra >= self.most:
                    accepted.close()
                    continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE.items():
                if hasattr(socket, option):
                    accepted.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            found.append((accepted, str(peer[0])))
        return found

    def _turn_away(self) -> bool:
        """The process is out of descriptors: close a connection that waits, or it would wake the agent for ever.

        Returns:
            Whether there was one.
        """
        assert self._socket is not None
        if self._reserve is None:
            return False
        os.close(self._reserve)
        self._reserve = None
        try:
            self._socket.accept()[0].close()
            self.refused += 1
        except OSError:
            return False
        finally:
            self._keep_reserve()
        return True

    def _keep_reserve(self) -> None:
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._reserve = None

    def ready(self) -> list[Any]:
        """What was registered with the connections that are readable (or writable) now."""
        return [key.data for key, _ in self.selector.select(0) if key.data is not None]

    def close(self) -> None:
        """Stop listening. Connections are the input's to close, before."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        if self._selector is not None:
            self._selector.close()
            self._selector = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def open_socket(name: str, address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    """A bound socket that does not block.

    Raises:
        CollectorError: the address is unknown, the port is taken or may not be had.
    """
    made: socket.socket | None = None
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind)
        made.setblocking(False)
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
    except OSError as problem:
        if made is not None:
            made.close()
        word = "UDP" if kind == socket.SOCK_DGRAM else "TCP"
        cause = problem.strerror or problem
        raise CollectorError(f"input {name}: cannot listen on {word} {address}:{port}: {cause}") from None
    return made
