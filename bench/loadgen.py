"""The load generator in Python, for machines without a C compiler: same options, same lines, same JSON as loadgen.c.

Whole-buffer operations do most of the work here too (one compare for a chunk of replies, one strided write for a digit
of all ids), so `full` stays fast; in `window` and `stop` the reply times include this program's own steps. loadgen.c
says what the modes mean.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

ID_DIGITS = 16
BUFFER_BYTES = 1_250_000
RECEIVE_BYTES = 256 * 1024
RECEIVED = b"RECEIVED\n"
PATTERN = RECEIVED * (RECEIVE_BYTES // len(RECEIVED) + 3)
PREFIX = b"__BATCH__:"
TEXT = (
    b'2025-11-30T01:14:02.511Z INFO [gateway-7] {"event": "reading", "sensor": "t-204", '
    b'"value": 21.75, "unit": "C"} path=/var/lib/edge/queue took=12ms '
)
EXIT_USAGE, EXIT_UNAVAILABLE, EXIT_TRY_LATER, EXIT_AUTH = 64, 69, 75, 77


def fail(code: int, message: str) -> NoReturn:
    """Complain and end."""
    print(f"loadgen: {message}", file=sys.stderr)
    raise SystemExit(code)


class Lines:
    """The prebuilt lines. Their number is a power of ten, so a pass changes the upper digits of the ids only."""

    def __init__(self, payload_bytes: int, first_id: int, given: Sequence[bytes] = ()) -> None:
        self.line_bytes = len(PREFIX) + ID_DIGITS + 1 + payload_bytes + 1
        self.count = 1
        while self.count < 100_000 and self.count * 10 * self.line_bytes <= BUFFER_BYTES:
            self.count *= 10
        repeated = TEXT * (payload_bytes // len(TEXT) + 2)
        texts = given or [repeated[n * 7 % len(TEXT) :][:payload_bytes] for n in range(len(TEXT))]
        payloads = [texts[n % len(texts)] for n in range(self.count)]
        self.bytes = bytearray(b"".join(b"%b%016d:%b\n" % (PREFIX, n, text) for n, text in enumerate(payloads)))
        self.high = b"0" * (ID_DIGITS + 1 - len(str(self.count)))
        self.stamp(-(-first_id // self.count) * self.count)

    def stamp(self, first_id: int) -> None:
        """Give the lines the ids from `first_id` on, a multiple of their number."""
        high = b"%0*d" % (len(self.high), first_id // self.count)
        for place, (old, new) in enumerate(zip(self.high, high, strict=True)):
            if old != new:
                self.bytes[len(PREFIX) + place :: self.line_bytes] = bytes([new]) * self.count
        self.high = high
        self.next_pass_id = first_id + self.count


@dataclass
class Tally:
    """Replies counted in order."""

    received: int = 0
    queue_full: int = 0
    other: int = 0
    other_sample: str = ""
    carry: bytes = b""

    @property
    def answered(self) -> int:
        """Replies of any kind."""
        return self.received + self.queue_full + self.other

    def add(self, data: bytes) -> None:
        """Count the replies that end in `data`."""
        phase = len(self.carry)
        if self.carry == RECEIVED[:phase] and data == PATTERN[phase : phase + len(data)]:
            lines, rest = divmod(phase + len(data), len(RECEIVED))
            self.received += lines
            self.carry = RECEIVED[:rest]
            return
        *replies, self.carry = (self.carry + data).split(b"\n")
        for reply in replies:
            if reply == RECEIVED[:-1]:
                self.received += 1
            elif reply.startswith(b"QUEUE_FULL:"):
                self.queue_full += 1
            else:
                self.other += 1
                self.other_sample = self.other_sample or reply[:63].decode("ascii", "replace")


@dataclass(frozen=True)
class Edge:
    """Where a measured slice begins or ends."""

    at: float
    server_cpu: float | None
    own_cpu: float
    received: int
    answered: int


@dataclass
class Edges:
    """Takes the edges when they are due: by time after the warm-up, or by the number of records."""

    options: argparse.Namespace
    start: float
    taken: list[Edge] = field(default_factory=list)

    def passed(self, at: float, received: int, answered: int) -> bool:
        """Take an edge if one is due. True once the last has been taken."""
        options, count = self.options, len(self.taken)
        slices: int = options.slices
        if count <= slices:
            if options.records:
                due = answered >= options.records // slices * count
            else:
                begin = self.taken[0].at if self.taken else self.start + options.warmup
                due = at >= begin + options.seconds / slices * count
            if due:
                self.taken.append(Edge(at, process_cpu(options.server_pid), time.process_time(), received, answered))
        return len(self.taken) > slices

    def slices(self) -> Iterator[dict[str, float]]:
        """What happened between two edges."""
        for a, b in zip(self.taken, self.taken[1:], strict=False):
            piece: dict[str, float] = {
                "seconds": b.at - a.at,
                "received": b.received - a.received,
                "answered": b.answered - a.answered,
                "own_cpu_s": b.own_cpu - a.own_cpu,
            }
            if a.server_cpu is not None and b.server_cpu is not None:
                piece["server_cpu_s"] = b.server_cpu - a.server_cpu
            yield piece


def process_cpu(pid: int) -> float | None:
    """CPU seconds of all threads of a process, by its CPU clock; None where the system has none."""
    if pid <= 0 or not sys.platform.startswith("linux"):
        return None
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


class Collector:
    """One connection and the run over it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lines = Lines(options.payload, options.first_id or int(time.time()) * 1_000_000, read_payloads(options))
        self.tally = Tally()
        self.times: list[float] = []
        self.sent = 0
        self.stop_writing = threading.Event()
        self.writer_done = threading.Event()
        self.socket = self.connect()
        self.edges = Edges(options, time.monotonic())

    def connect(self) -> socket.socket:
        """Connect and authenticate; a server reopens its listener a moment after the last collector has gone."""
        deadline = time.monotonic() + self.options.connect
        while time.monotonic() < deadline:
            try:
                connection = socket.create_connection((self.options.host, self.options.port))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(b"__AUTH__:" + self.options.token.encode() + b"\n")
                reply = b"ACK\n" if self.options.no_replies else connection.makefile("rb", buffering=0).readline()
            except OSError:
                reply = b""
            if reply == b"ACK\n":
                return connection
            if reply == b"AUTH_FAILED\n":
                fail(EXIT_AUTH, "AUTH_FAILED")
            time.sleep(0.01)
        fail(EXIT_UNAVAILABLE, f"no server let this collector in: {self.options.port}")

    def write_forever(self) -> None:
        """Send without waiting until told to stop or all records are out; always ends at a line end."""
        lines = self.lines
        try:
            while not self.stop_writing.is_set():
                left = self.options.records - self.sent if self.options.records else lines.count
                count = min(left, lines.count)
                if count <= 0:
                    break
                self.socket.sendall(memoryview(lines.bytes)[: count * lines.line_bytes])
                self.sent += count
                lines.stamp(lines.next_pass_id)
                if self.options.no_replies and self.edges.passed(time.monotonic(), self.sent, self.sent):
                    break
        except OSError:
            pass
        self.writer_done.set()

    def run_full(self) -> None:
        """Write in one thread, read in this one."""
        if self.options.no_replies:
            self.write_forever()
            return
        self.edges.passed(time.monotonic(), 0, 0)
        writer = threading.Thread(target=self.write_forever)
        writer.start()
        measured = False
        while not (measured and self.writer_done.is_set() and self.tally.answered >= self.sent):
            data = self.receive()
            if not data:
                break
            self.tally.add(data)
            if not measured and self.edges.passed(time.monotonic(), self.tally.received, self.tally.answered):
                measured = True
                self.stop_writing.set()
        self.stop_writing.set()
        if not self.writer_done.is_set():
            self.socket.shutdown(socket.SHUT_RDWR)
        writer.join()

    def receive(self) -> bytes:
        """What has come, or nothing when the server has gone or is silent for too long."""
        try:
            return self.socket.recv(RECEIVE_BYTES)
        except OSError:
            return b""

    def run_window(self, window: int) -> None:
        """Keep at most `window` lines unanswered and note how long each reply took."""
        lines, tally, options = self.lines, self.tally, self.options
        sent_at = [0.0] * window
        at = answered = 0
        measured = self.edges.passed(time.monotonic(), 0, 0)
        while True:
            while not measured and self.sent - answered < window:
                count = min(window - (self.sent - answered), lines.count - at)
                if options.records:
                    count = min(count, options.records - self.sent)
                if count <= 0:
                    break
                now = time.monotonic()
                for n in range(self.sent, self.sent + count):
                    sent_at[n % window] = now
                self.socket.sendall(memoryview(lines.bytes)[at * lines.line_bytes : (at + count) * lines.line_bytes])
                self.sent += count
                at = (at + count) % lines.count
                if at == 0:
                    lines.stamp(lines.next_pass_id)
            if self.sent == answered:
                break
            data = self.receive()
            if not data:
                break
            now = time.monotonic()
            tally.add(data)
            if self.edges.taken and not measured:
                self.times.extend(now - sent_at[n % window] for n in range(answered, tally.answered))
            answered = tally.answered
            measured = measured or self.edges.passed(now, tally.received, answered)

    def result(self) -> dict[str, object]:
        """What loadgen.c prints."""
        tally = self.tally
        found: dict[str, object] = {
            "sent": self.sent,
            "received": tally.received,
            "queue_full": tally.queue_full,
            "other": tally.other,
            "other_sample": tally.other_sample,
            "line_bytes": self.lines.line_bytes,
            "next_id": self.lines.next_pass_id + self.lines.count,
            "slices": list(self.edges.slices()),
        }
        if self.times:
            times = sorted(self.times)
            found["p50_ns"] = int(times[len(times) // 2] * 1e9)
            found["p99_ns"] = int(times[len(times) * 99 // 100] * 1e9)
        return found


def read_payloads(options: argparse.Namespace) -> list[bytes]:
    """The payloads of the file of `--payloads`, if there is one: one a line, all of `--payload` bytes."""
    if options.payloads is None:
        return []
    payloads: list[bytes] = options.payloads.read_bytes().removesuffix(b"\n").split(b"\n")
    if any(len(payload) != options.payload for payload in payloads):
        fail(EXIT_USAGE, "every line of --payloads has --payload bytes")
    return payloads


def read_options() -> argparse.Namespace:
    """The options of loadgen.c."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", required=True)
    parser.add_argument("--token", default="bench")
    parser.add_argument("--mode", choices=["full", "window", "stop"], default="full")
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--payload", type=int, default=256)
    parser.add_argument("--payloads", type=Path, help="a file with payloads, one a line, all of --payload bytes")
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--first-id", type=int, default=0)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--server-pid", type=int, default=0)
    parser.add_argument("--connect", type=float, default=10.0)
    parser.add_argument("--drain", type=float, default=20.0)
    parser.add_argument("--no-replies", action="store_true")
    options = parser.parse_args()
    if options.no_replies and options.mode != "full":
        parser.error("--no-replies needs --mode full")
    if options.records and options.records < options.slices:
        parser.error("--records is at least --slices")
    return options


def main() -> None:
    """Run once and print one JSON object."""
    options = read_options()
    collector = Collector(options)
    collector.socket.settimeout(options.drain)
    if options.mode == "full":
        collector.run_full()
    else:
        collector.run_window(1 if options.mode == "stop" else options.window)
    collector.socket.close()
    if len(collector.edges.taken) <= options.slices:
        fail(EXIT_TRY_LATER, "the connection ended before the measurement did")
    if not options.no_replies and collector.tally.answered < collector.sent:
        fail(EXIT_TRY_LATER, "some lines were never answered")
    print(json.dumps(collector.result()))


if __name__ == "__main__":
    main()
