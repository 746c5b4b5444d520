"""A TCP proxy that cuts connections around a word of the client: what a network does to a commit, on demand."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Passes bytes on between any number of clients and one server, on a free loopback port.

    Attributes:
        port: where to connect.
        word: cut a connection when the client says this; None passes everything.
        passes_on: whether the word still reaches the server; then its reply is what gets lost.
        cuts: how often a connection was cut.
    """

    def __init__(self, host: str, port: int) -> None:
        self.word: bytes | None = None
        self.passes_on = True
        self.cuts = 0
        self._target = (host, port)
        self._stopping, self._stopped = socket.socketpair()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._run, name="cutting proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.close()
        self._thread.join(10)
        for one in (self._stopped, self._listener, *self._pairs):
            one.close()

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._stopped, self._listener, *self._pairs], [], [])
            if self._stopped in ready:
                return
            for one in ready:
                if one is self._listener:
                    self._accept()
                elif one in self._pairs:
                    self._pass_on(one)

    def _accept(self) -> None:
        client = self._listener.accept()[0]
        server = socket.create_connection(self._target)
        self._pairs[client], self._pairs[server] = server, client
        self._clients.add(client)

    def _pass_on(self, one: socket.socket) -> None:
        other = self._pairs[one]
        data = b""
        with contextlib.suppress(OSError):
            data = one.recv(1 << 16)
        cuts = self.word is not None and one in self._clients and self.word in data
        if data and (not cuts or self.passes_on):
            with contextlib.suppress(OSError):
                other.sendall(data)
        if cuts:
            self.cuts += 1
            self.word = None
            if self.passes_on:
                with contextlib.suppress(OSError):
                    other.recv(1 << 16)  # the reply: it has happened
        if cuts or not data:
            for end in (one, other):
                self._pairs.pop(end, None)
                self._clients.discard(end)
                end.close()
