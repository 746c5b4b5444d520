"""Bare collectors: what the agent is compared with. They keep nothing, confirm nothing, and can lose everything.

`python -m bench.edge_loops STYLE --port P --token T --first-id N --file F` sends the lines of a file and prints
`{"records": N, "seconds": S, "other": R}`; R is the first reply that was not RECEIVED, or "". Styles:

    bare     reads the lines of the file and writes each as `__BATCH__:<id>:<line>` to a socket, through the buffer of
             `makefile`; a second thread reads the replies away. Until the last reply.
    blocks   the same with 64 KiB of lines formatted at a time: about the fastest that a few lines of Python do.
    stop     one batch a round trip, as most collectors do; for `--seconds`.
"""

from __future__ import annotations

import argparse
import json
import socket
import threading
import time
from pathlib import Path

RECEIVED = b"RECEIVED\n"
BUFFER_BYTES = 256 * 1024
BLOCK_BYTES = 64 * 1024


class Drain(threading.Thread):
    """Reads replies away, only counting them.

    Attributes:
        other: the first bytes that were not RECEIVED.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self._seen = 0
        self._wanted: int | None = None
        self.other = b""

    def run(self) -> None:
        """Until as many replies came as were wanted, or the connection ended."""
        while self._wanted is None or self._seen < self._wanted:
            data = self._connection.recv(BUFFER_BYTES)
            if not data:
                break
            if not self.other and data.strip(RECEIVED):  # bytes that are none of its letters
                self.other = data[:100]
            self._seen += data.count(b"\n")

    def wait_for(self, replies: int) -> None:
        """Return when so many came; one must not have come yet."""
        self._wanted = replies
        self.join(60)


def bare(connection: socket.socket, options: argparse.Namespace) -> tuple[int, bytes]:
    """See the module's text: a line at a time."""
    batch_id, first = options.first_id, options.first_id
    drain = Drain(connection)
    drain.start()
    with options.file.open("rb") as lines, connection.makefile("wb", BUFFER_BYTES) as out:
        for line in lines:
            out.write(b"__BATCH__:%d:%b" % (batch_id, line))
            batch_id += 1
    drain.wait_for(batch_id - first)
    return batch_id - first, drain.other


def blocks(connection: socket.socket, options: argparse.Namespace) -> tuple[int, bytes]:
    """See the module's text: a block of lines at a time."""
    batch_id, first = options.first_id, options.first_id
    drain = Drain(connection)
    drain.start()
    with options.file.open("rb") as file:
        while lines := file.readlines(BLOCK_BYTES):
            connection.sendall(b"".join([b"__BATCH__:%d:%b" % pair for pair in enumerate(lines, batch_id)]))
            batch_id += len(lines)
    drain.wait_for(batch_id - first)
    return batch_id - first, drain.other


def stop(connection: socket.socket, options: argparse.Namespace) -> tuple[int, bytes]:
    """See the module's text: waits for each reply."""
    batch_id, first = options.first_id, options.first_id
    until = time.monotonic() + options.seconds
    with options.file.open("rb") as lines, connection.makefile("rb") as replies:
        for line in lines:
            if time.monotonic() >= until:
                break
            connection.sendall(b"__BATCH__:%d:%b" % (batch_id, line))
            if (reply := replies.readline()) != RECEIVED:
                return batch_id - first, reply
            batch_id += 1
    return batch_id - first, b""


STYLES = {"bare": bare, "blocks": blocks, "stop": stop}


def main() -> None:
    """Send a file and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("style", choices=STYLES)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--first-id", type=int, required=True)
    parser.add_argument("--file", type=Path, required=True, help="its lines are sent")
    parser.add_argument("--seconds", type=float, default=1.0, help="of `stop`")
    options = parser.parse_args()
    with socket.create_connection(("127.0.0.1", options.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(f"__AUTH__:{options.token}\n".encode())
        if (answer := connection.recv(100)) != b"ACK\n":
            raise SystemExit(f"__AUTH__ was answered {answer!r}")
        began = time.monotonic()
        records, other = STYLES[options.style](connection, options)
        seconds = time.monotonic() - began
    print(json.dumps({"records": records, "seconds": seconds, "other": other.decode(errors="replace")}))


if __name__ == "__main__":
    main()
