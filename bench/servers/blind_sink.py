"""The blind-answer sink in Python, for machines without a C compiler. Slower than blind_sink.c: results are labelled.

python blind_sink.py PORT
"""

from __future__ import annotations

import socket
import sys

CHUNK_BYTES = 512 * 1024
REPLIES_AT_ONCE = 65536
REPLIES = memoryview(b"RECEIVED\n" * REPLIES_AT_ONCE)


def answer(connection: socket.socket, count: int) -> None:
    """Write `count` times RECEIVED."""
    while count:
        now = min(count, REPLIES_AT_ONCE)
        connection.sendall(REPLIES[: now * 9])
        count -= now


def serve(connection: socket.socket, buffer: bytearray) -> None:
    """Count line feeds and answer each; the first one, the authentication line's, with ACK."""
    authenticated = False
    while received := connection.recv_into(buffer):
        count = buffer.count(b"\n", 0, received)
        if not authenticated and count:
            authenticated = True
            connection.sendall(b"ACK\n")
            count -= 1
        answer(connection, count)


def main() -> None:
    """Serve one connection after the other, for ever."""
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    buffer = bytearray(CHUNK_BYTES)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                serve(connection, buffer)
            except ConnectionError:
                pass


if __name__ == "__main__":
    main()
