"""What the network layer costs: full pipelining in MB/s, stop-and-wait in microseconds, next to a bare recv loop.

    python bench/micro_net.py [--seconds 1.5] [--rounds 3] [--payload 256]

Three servers take turns, each against the same load generator (a process of its own, on another core):

- `bare`    a recv() loop that counts line feeds and answers RECEIVED for each, in one send a burst;
- `session` the same loop with the protocol session in it: what parsing costs;
- `server`  `IngressServer` with a handler that only counts: what this package adds to that.

CPU is that of the serving thread, system calls included, for one record; on a busy machine it is the number to look at.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from edgesocket.net.options import ListenOptions
from edgesocket.net.server import IngressServer
from edgesocket.protocol.chunks import BufferPool
from edgesocket.protocol.grammar import DEFAULT_MAX_LINE_BYTES
from edgesocket.protocol.replies import RECEIVED
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import ServerSession
from edgesocket.records import RecordBlock

TOKEN = b"bench"
AUTH = b"__AUTH__:" + TOKEN + b"\n"
RECEIVE_BYTES = 1024 * 1024

Measured = tuple[float, int]
"""The load's own figure, and how many records were answered."""
Load = Callable[[int], Measured]
Served = tuple[Measured, float]
"""What the load measured, and the CPU seconds of the serving thread."""


class Counter:
    """A handler that counts, and ends the bench after the first conversation."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.cpu_s = 0.0

    def accepts_token(self, token: bytes) -> bool:
        return token == TOKEN

    def session_started(self, _: str) -> None:
        self.cpu_s = -time.thread_time()

    def session_ended(self, _: str) -> None:
        self.cpu_s += time.thread_time()
        self.done.set()

    def may_send(self) -> bool:
        return True

    def handle(self, events: list[Any], replies: ReplyQueue) -> None:
        for event in events:
            replies.add(RECEIVED, event.count if isinstance(event, RecordBlock) else 1)


def serve_with_layer(load: Load) -> Served:
    handler = Counter()
    with tempfile.TemporaryDirectory() as directory:
        server = IngressServer(ListenOptions(port=0, lock_directory=directory), handler)
        server.start()
        said = load(server.port)
        assert handler.done.wait(10)
        server.stop()
    return said, handler.cpu_s


def serve_bare(load: Load) -> Served:
    memory = bytearray(RECEIVE_BYTES)
    view = memoryview(memory)

    def converse(sock: socket.socket) -> None:
        _read_auth(sock)
        while count := sock.recv_into(view):
            lines = memory.count(b"\n", 0, count)
            if lines:
                sock.sendall(b"RECEIVED\n" * lines)

    return _serve_once(converse, load)


def serve_with_session(load: Load) -> Served:
    def converse(sock: socket.socket) -> None:
        session = ServerSession(lambda token: token == TOKEN, BufferPool(), DEFAULT_MAX_LINE_BYTES, True)
        handler, replies = Counter(), ReplyQueue()
        count = sock.recv_into(session.writable(), len(AUTH))
        session.received(count)
        sock.sendall(b"ACK\n")
        handler.handle(session.resume(), replies)
        while count := sock.recv_into(session.writable()):
            handler.handle(session.received(count), replies)
            if replies:
                data = replies.peek(1 << 20)
                sock.sendall(data)
                replies.consumed(len(data))

    return _serve_once(converse, load)


def _read_auth(sock: socket.socket) -> None:
    assert sock.recv(len(AUTH), socket.MSG_WAITALL) == AUTH
    sock.sendall(b"ACK\n")


def _serve_once(converse: Callable[[socket.socket], None], load: Load) -> Served:
    cpu_s = 0.0
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            nonlocal cpu_s
            sock, _ = listener.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                cpu_s = -time.thread_time()
                converse(sock)
                cpu_s += time.thread_time()

        thread = threading.Thread(target=accept)
        thread.start()
        said = load(listener.getsockname()[1])
        thread.join()
        return said, cpu_s


SERVERS = {"bare": serve_bare, "session": serve_with_session, "server": serve_with_layer}


def pipeline(sock: socket.socket, seconds: float, payload_bytes: int) -> Measured:
    """Write as fast as the server reads, and take replies in between; MB/s of request lines answered."""
    lines = [b"__BATCH__:%d:%b\n" % (n, b"x" * payload_bytes) for n in range(1_000_000, 1_004_096)]
    block, view = b"".join(lines), memoryview(bytearray(1 << 20))
    answered = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        sock.sendall(block)
        try:
            answered += sock.recv_into(view, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
    sock.shutdown(socket.SHUT_WR)
    while count := sock.recv_into(view):
        answered += count
    records = answered // len(b"RECEIVED.")
    return records * len(lines[0]) / (time.perf_counter() - start) / 1e6, records


def stop_and_wait(sock: socket.socket, seconds: float, payload_bytes: int) -> Measured:
    """One line, one reply; the median in microseconds."""
    line = b"__BATCH__:1000000:" + b"x" * payload_bytes + b"\n"
    took: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        sock.sendall(line)
        sock.recv(100)
        took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e6, len(took)


LOADS = {"pipeline": pipeline, "stop-and-wait": stop_and_wait}


def generate_load(port: int, kind: str, seconds: float, payload_bytes: int) -> None:
    _pin(1)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(AUTH)
        assert sock.recv(len(b"ACK\n"), socket.MSG_WAITALL) == b"ACK\n"
        print(*LOADS[kind](sock, seconds, payload_bytes))


def _pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity") and core in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {core})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--payload", type=int, default=256)
    parser.add_argument("--load", nargs=2, metavar=("PORT", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        generate_load(int(options.load[0]), options.load[1], options.seconds, options.payload)
        return
    settings = ["--seconds", str(options.seconds), "--payload", str(options.payload)]
    results: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for kind in LOADS:
            for name, serve in SERVERS.items():

                def load(port: int, kind: str = kind) -> Measured:
                    command = [sys.executable, __file__, "--load", str(port), kind, *settings]
                    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                    _pin(0)
                    figure, records = process.communicate()[0].split()
                    return float(figure), int(records)

                (figure, records), cpu_s = serve(load)
                results.setdefault((kind, name), []).append((figure, cpu_s / records * 1e6))
    print(f"payload {options.payload} B, medians of {options.rounds} rounds of {options.seconds} s")
    for kind, unit in (("pipeline", "MB/s"), ("stop-and-wait", "us p50")):
        for name in SERVERS:
            figures, cpu = zip(*results[kind, name], strict=True)
            print(
                f"  {kind:14} {name:8} {statistics.median(figures):8.1f} {unit:7}"
                f" {statistics.median(cpu):8.3f} us CPU a record   {[round(v, 1) for v in figures]}"
            )


if __name__ == "__main__":
    main()
