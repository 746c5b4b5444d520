"""Plain line servers, as one writes them in an afternoon: one Python step a line. Kept to be compared with.

    python line_server.py STYLE PORT

    list      receive a chunk, split it into lines, handle each: parse the id, append (id, payload) to a list; one reply
              a line, joined into one write a chunk. The best a loop over lines does.
    stream    `for line in connection.makefile("rb")`, one write a reply: the textbook server.
    asyncio   `await reader.readline()`, `writer.write`, `await writer.drain()` a line.

None of them keeps to the whole protocol (no queue, no ledger, no checkpoint, no limits): each does less than the
product. The rows of a chunk are dropped when the next one comes, so memory stays flat.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

CHUNK_BYTES = 512 * 1024
AUTH_PREFIX = b"__AUTH__:"
BATCH_PREFIX = b"__BATCH__:"
Rows = list[tuple[int, bytes]]


def handle(line: bytes, rows: Rows) -> bytes:
    """Take one line (without its LF) and give its reply."""
    if line.startswith(BATCH_PREFIX):
        digits, colon, payload = line[10:].partition(b":")
        if not colon:
            return b"BAD_REQUEST\n"
        if not digits.isdigit():
            return b"INVALID_PARAM\n"
        rows.append((int(digits), payload))
        return b"RECEIVED\n"
    return b"ACK\n" if line.startswith(AUTH_PREFIX) else b"BAD_REQUEST\n"


def serve_list(connection: socket.socket) -> None:
    """A chunk at a time: split, loop, one write."""
    carry = b""
    while data := connection.recv(CHUNK_BYTES):
        *lines, carry = (carry + data).split(b"\n")
        rows: Rows = []
        connection.sendall(b"".join([handle(line, rows) for line in lines]))


def serve_stream(connection: socket.socket) -> None:
    """A line at a time, a write a line."""
    rows: Rows = []
    with connection.makefile("rb") as lines:
        for line in lines:
            connection.sendall(handle(line.rstrip(b"\n"), rows))
            if len(rows) == 1024:
                rows.clear()


def serve(listener: socket.socket, conversation: Callable[[socket.socket], None]) -> None:
    """One connection after the other, for ever."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                conversation(connection)
            except ConnectionError:
                pass


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The same line at a time on an event loop."""
    rows: Rows = []
    try:
        while line := await reader.readline():
            writer.write(handle(line.rstrip(b"\n"), rows))
            await writer.drain()
            if len(rows) == 1024:
                rows.clear()
    except ConnectionError:
        pass
    writer.close()


async def serve_asyncio(listener: socket.socket) -> None:
    """Connections side by side, for ever."""
    server = await asyncio.start_server(converse, sock=listener, limit=1 << 20)
    await server.serve_forever()


def main() -> None:
    """Serve in the style asked for."""
    style, port = sys.argv[1], int(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", port))
    if style == "asyncio":
        asyncio.run(serve_asyncio(listener))
    else:
        serve(listener, {"list": serve_list, "stream": serve_stream}[style])


if __name__ == "__main__":
    main()
