"""An HTTP server on loopback that answers as a test says, and remembers every request it got.

Each request takes the next *reaction* from a list; when the list is empty, it is answered 200. A reaction is what is
sent, byte for byte, or a function of the connection. A rule for bodies may answer instead, see `rule`.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Reaction = bytes | Callable[[socket.socket], None]
PATIENCE_S = 20.0


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer. Header names: `Retry_After` for `Retry-After`."""
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def reset(connection: socket.socket) -> None:
    """Drop the connection with a RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang_up(connection: socket.socket) -> None:
    """Drop the connection without a word."""
    connection.close()


def cut_off(data: bytes) -> Callable[[socket.socket], None]:
    """Send a part of an answer and hang up."""

    def react(connection: socket.socket) -> None:
        connection.sendall(data)
        connection.close()

    return react


@dataclass
class Request:
    """A request as it came. Header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class ScriptedServer:
    """See the module's text.

    Attributes:
        reactions: what the next requests get, in order.
        rule: answers a body when no reaction is left; None for 200.
        requests: all that came.
        released: set it, and reactions that wait go on.
    """

    reactions: list[Reaction] = field(default_factory=list)
    rule: Callable[[bytes], bytes | None] = lambda body: None
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        scheme = "https" if self.tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/rows"
        self._open: list[socket.socket] = []
        self._count = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    def wait(self, connection: socket.socket) -> None:
        """A reaction: say nothing until `released`, then hang up."""
        self.released.wait(PATIENCE_S)
        connection.close()

    def close(self) -> None:
        self.released.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._count += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self._count), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            with connection, connection.makefile("rb") as lines:
                while self._answer_one(connection, lines, number):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def _answer_one(self, connection: socket.socket, lines, number: int) -> bool:
        first = lines.readline().decode().strip()
        if not first:
            return False
        headers = {}
        while line := lines.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = lines.read(int(headers.get("content-length", 0)))
        self.requests.append(Request(first, headers, body, number))
        reaction: Reaction = self.reactions.pop(0) if self.reactions else self.rule(body) or answer(200)
        if isinstance(reaction, bytes):
            connection.sendall(reaction)
            return True
        lines.close()  # so that closing the connection reaches the peer
        reaction(connection)
        return False


@contextlib.contextmanager
def serving(*reactions: Reaction, **more) -> Iterator[ScriptedServer]:
    """A running server."""
    server = ScriptedServer(list(reactions), **more)
    try:
        yield server
    finally:
        server.close()
