"""A TCP proxy on the loopback that hands every byte on a while later, as a long line does.

    python delay_proxy.py PORT TARGET_PORT ONE_WAY_MS

The order is kept, the throughput is not limited; what is on the line is bounded (`LINE_BYTES` a direction).
"""

from __future__ import annotations

import contextlib
import queue
import socket
import sys
import threading
import time

PIECE_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024 * 1024

Line = queue.Queue[tuple[float, bytes]]


def take(source: socket.socket, line: Line, delay_s: float) -> None:
    """Put what comes onto the line, with the time when it is due at the other end."""
    data = b"more"
    while data:
        try:
            data = source.recv(PIECE_BYTES)
        except OSError:
            data = b""
        line.put((time.monotonic() + delay_s, data))


def give(line: Line, target: socket.socket) -> None:
    """Hand on what is due; the end of the stream too."""
    while True:
        due, data = line.get()
        if (wait_s := due - time.monotonic()) > 0:
            time.sleep(wait_s)
        if not data:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)
            return
        try:
            target.sendall(data)
        except OSError:
            return


def join(client: socket.socket, target_port: int, delay_s: float) -> None:
    """Carry one connection, until both ends have ended it."""
    with client, socket.create_connection(("127.0.0.1", target_port)) as server:
        threads = []
        for source, target in ((client, server), (server, client)):
            target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line: Line = queue.Queue(LINE_BYTES // PIECE_BYTES)
            threads.append(threading.Thread(target=take, args=(source, line, delay_s), daemon=True))
            threads.append(threading.Thread(target=give, args=(line, target), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main() -> None:
    """Accept connections, for ever."""
    port, target_port, one_way_ms = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            client = listener.accept()[0]
            threading.Thread(target=join, args=(client, target_port, one_way_ms / 1000), daemon=True).start()


if __name__ == "__main__":
    main()
