"""A small HTTP server that never blocks and has no threads: whoever owns it calls it round for round.

A connection has one request at a time. While that is not answered nothing more is read from the connection, so what is
held is bounded by the number of connections, and by `MOST_HELD_BYTES` over all of them.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator

from edgesocket.collector.intake.http_requests import Refusal, Request, RequestReader, build_answer
from edgesocket.collector.intake.listening import Listener

READ_BYTES = 64 * 1024
MOST_HELD_BYTES = 16 * 1024 * 1024
"""Parts of requests that are kept at a time. A connection that goes beyond is answered 503."""

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive."""

IDLE_TIMEOUT_S = 75.0
"""How long a connection may stay without a request, and an answer without being taken."""

LINGER_S = 2.0
"""How long what a refused sender still sends is read and thrown away, so that it sees the answer."""

_SWEEP_S = 1.0


class HttpConnection:
    """One connection. `answer` it once for each request that was handed out."""

    def __init__(self, connection: socket.socket, peer: str, reader: RequestReader, now: float) -> None:
        self.socket = connection
        self.peer = peer
        self.reader = reader
        self.request: Request | None = None
        self.unsent = b""
        self.last = False
        """The connection ends when `unsent` is sent."""
        self.lingering = False
        self.deadline = now + IDLE_TIMEOUT_S
        self.closed = False


class HttpServer:
    """See the module's text. Not thread-safe."""

    def __init__(
        self,
        listener: Listener,
        max_body_bytes: int,
        check_head: Callable[[Request], object] = lambda _head: None,
        most_held_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        """Get ready.

        Args:
            listener: the port, and how many connections there may be.
            max_body_bytes: the largest body.
            check_head: called before a body is read; raises Refusal for a request that is not wanted.
            most_held_bytes: see `MOST_HELD_BYTES`.
        """
        self._listener = listener
        self._max_body_bytes = max_body_bytes
        self._check_head = check_head
        self._most_held_bytes = most_held_bytes
        self._connections: set[HttpConnection] = set()
        self._kept: set[HttpConnection] = set()  # answered, and the beginning of the next request is here already
        self._next_sweep = 0.0
        self.refused = 0
        """Requests that were answered with an error before they were handed out."""

    @property
    def next_time(self) -> float | None:
        """When `serve` wants to be called if no descriptor wakes: while there are connections, which time out."""
        if self._kept:
            return 0.0
        return self._next_sweep if self._connections else None

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that are kept now."""
        return sum(
            one.reader.held_bytes + (len(one.request.body) if one.request is not None else 0)
            for one in self._connections
        )

    def open(self) -> None:
        """Listen. Raises CollectorError."""
        self._listener.open()

    def descriptors(self) -> list[int]:
        """What to wait on."""
        return self._listener.descriptors()

    def serve(self, now: float) -> Iterator[tuple[HttpConnection, Request]]:
        """Accept, read and write what can be now. Yields complete requests, each to be answered at any later time."""
        for accepted, peer in self._listener.accept(len(self._connections), keep_extra=True):
            connection = HttpConnection(accepted, peer, RequestReader(self._max_body_bytes), now)
            too_many = len(self._connections) >= self._listener.most
            self._connections.add(connection)
            self._listener.selector.register(accepted, selectors.EVENT_READ, connection)
            if too_many:
                self._refuse(connection, Refusal(503, "too many connections", {"Retry-After": "5"}), now)
        kept, self._kept = self._kept, set()
        for connection in kept:
            if not connection.closed:
                yield from self._feed(connection, b"", now)
        for connection in self._listener.ready():
            if connection.closed:
                continue
            if connection.unsent:
                self._push(connection, now)
            elif connection.lingering:
                self._throw_away(connection)
            elif connection.request is None:
                yield from self._read(connection, now)
        if now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_S
            for connection in [one for one in self._connections if now >= one.deadline]:
                self._timed_out(connection, now)

    def answer(
        self,
        connection: HttpConnection,
        status: int,
        body: bytes,
        now: float,
        *,
        content_type: str = "text/plain; charset=utf-8",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Answer the request of a connection. Nothing happens where the connection is gone."""
        request, connection.request = connection.request, None
        if connection.closed or request is None:
            return
        keep_alive = request.keep_alive
        if request.method == "HEAD":
            body = b""
        connection.unsent = build_answer(
            status, body, keep_alive=keep_alive, content_type=content_type, headers=headers
        )
        connection.last = not keep_alive
        connection.deadline = now + IDLE_TIMEOUT_S
        self._push(connection, now)

    def close(self) -> None:
        """Close everything."""
        for connection in list(self._connections):
            self._drop(connection)
        self._listener.close()

    def _read(self, connection: HttpConnection, now: float) -> Iterator[tuple[HttpConnection, Request]]:
        reader = connection.reader
        try:
            data = connection.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        began = not reader.inside
        if began:
            connection.deadline = now + REQUEST_TIMEOUT_S
        yield from self._feed(connection, data, now)

    def _feed(self, connection: HttpConnection, data: bytes, now: float) -> Iterator[tuple[HttpConnection, Request]]:
        reader = connection.reader
        had_head = reader.head is not None
        try:
            request = reader.feed(data)
            head = request or reader.head
            if head is not None and not had_head:
                self._check_head(head)
            if request is None and self.held_bytes > self._most_held_bytes:
                raise Refusal(503, "too much is being sent at a time", {"Retry-After": "5"})
        except Refusal as refusal:
            self.refused += 1
            self._refuse(connection, refusal, now)
            return
        if request is not None:
            connection.request = request
            self._watch(connection, 0)
            yield connection, request
        elif reader.wants_continue:
            reader.wants_continue = False
            try:
                connection.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            except OSError:
                self._drop(connection)

    def _push(self, connection: HttpConnection, now: float) -> None:
        """Write what the network takes; then go on with the next request."""
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection)
            return
        connection.unsent = connection.unsent[sent:]
        if connection.unsent:
            self._watch(connection, selectors.EVENT_WRITE)
            return
        self._watch(connection, selectors.EVENT_READ)
        if connection.reader.inside and not connection.last:
            self._kept.add(connection)
        if connection.last:
            connection.lingering = True
            connection.deadline = now + LINGER_S
            try:
                connection.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._drop(connection)

    def _refuse(self, connection: HttpConnection, refusal: Refusal, now: float) -> None:
        connection.request = None
        body = f"{refusal.why}\n".encode()
        connection.unsent = build_answer(refusal.status, body, keep_alive=False, headers=refusal.headers)
        connection.last = True
        connection.deadline = now + IDLE_TIMEOUT_S
        connection.reader = RequestReader(0)  # lets go of what was read
        self._push(connection, now)

    def _throw_away(self, connection: HttpConnection) -> None:
        try:
            if connection.socket.recv(READ_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._drop(connection)

    def _timed_out(self, connection: HttpConnection, now: float) -> None:
        if connection.request is not None:
            connection.deadline = now + IDLE_TIMEOUT_S  # the answer is ours to give
        elif connection.reader.inside and not connection.last:
            self._refuse(connection, Refusal(408, f"no request within {REQUEST_TIMEOUT_S:g} s"), now)
        else:
            self._drop(connection)

    def _watch(self, connection: HttpConnection, events: int) -> None:
        selector = self._listener.selector
        known = connection.socket in selector.get_map()
        if not events:
            if known:
                selector.unregister(connection.socket)
        elif known:
            selector.modify(connection.socket, events, connection)
        else:
            selector.register(connection.socket, events, connection)

    def _drop(self, connection: HttpConnection) -> None:
        self._watch(connection, 0)
        connection.socket.close()
        connection.closed = True
        self._connections.discard(connection)
