"""What the wire costs before anything is decided: received bytes -> blocks of records.

    python bench/micro_parse.py [--rounds 200] [--core 0]

Prints, for each line size, microseconds a MiB and nanoseconds a line for `LineReceiver` + `BlockParser` together, on
chunks of about one MiB, then the parts, then streams that are not regular, then small chunks. Memory is written before
each round, as a socket would, but the writing is not counted. The best time is what an idle machine gives; the median
says how idle it was.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from edgesocket.protocol.blocks import BlockParser
from edgesocket.protocol.chunks import BufferPool, Chunk, LineReceiver
from edgesocket.protocol.exact import LineRules, exact_events, split_lines
from edgesocket.protocol.line_ends import LineEndFinder
from edgesocket.protocol.replies import RECEIVED
from edgesocket.protocol.reply_queue import ReplyQueue

MIB = 1024 * 1024
RULES = LineRules(16 * MIB, check_utf8=True)
SIZES = (64, 256, 1024, 4096, 16384)


def batches(
    size: int, count: int, first: int = 1_000_000, step: int = 1, fill: bytes = b"x", end: bytes = b"\n"
) -> Iterator[bytes]:
    """`count` batch lines of `size` bytes."""
    for batch_id in range(first, first + count * step, step):
        head = b"__BATCH__:%d:" % batch_id
        room = size - len(head) - len(end)
        yield head + (fill * room)[: room // len(fill) * len(fill)] + end


def with_polls(lines: Iterator[bytes], every: int) -> Iterator[bytes]:
    """The lines with a commit poll after each `every`."""
    for number, line in enumerate(lines, 1):
        yield line
        if number % every == 0:
            yield b"__COMMIT__:%d\n" % number


class Timer:
    """Collects the durations of one thing."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def once(self, prepare: Callable[[], object], run: Callable[[], object]) -> tuple[float, float]:
        """Best and median duration of `run` in microseconds."""
        times = []
        for _ in range(self.rounds):
            prepare()
            begin = time.perf_counter_ns()
            result = run()
            times.append((time.perf_counter_ns() - begin) / 1000)
            del result
        return min(times), statistics.median(times)


def receive_and_parse(timer: Timer, stream: bytes) -> tuple[float, float, int]:
    """Best and median of one chunk through receiver and parser, and how many events came of it."""
    pool = BufferPool()
    receiver, parser = LineReceiver(pool, RULES.max_line_bytes), BlockParser(RULES)
    assert len(stream) <= pool.buffer_bytes
    events: list[object] = []

    def fill() -> None:
        events.clear()
        receiver.writable()[: len(stream)] = stream

    def run() -> None:
        receiver.writable()
        for chunk in receiver.received(len(stream)):
            assert isinstance(chunk, Chunk)
            events.extend(parser.parse(chunk))

    best, median = timer.once(fill, run)
    return best, median, len(events)


def report(name: str, stream: bytes, result: tuple[float, float, int]) -> None:
    best, median, events = result
    lines = stream.count(b"\n")
    scale = MIB / len(stream)
    print(
        f"  {name:34} {best * scale:7.0f} {median * scale:7.0f} us/MiB   {1000 * best / lines:7.1f} ns/line"
        f"   {lines:6} lines {events:5} events"
    )


def _read_exactly(stream: bytes) -> object:
    return exact_events(split_lines(stream), RULES)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--core", type=int, default=None)
    options = arguments.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    timer = Timer(options.rounds)

    print("regular lines                            best  median")
    for size in SIZES:
        stream = b"".join(batches(size, MIB // size))
        report(f"{size} B", stream, receive_and_parse(timer, stream))

    print("parts, us/MiB (best)")
    for size in SIZES:
        stream = b"".join(batches(size, MIB // size))
        chunk = Chunk.of(stream)
        finder = LineEndFinder()
        found, _ = timer.once(lambda: None, partial(finder.find, chunk))
        exact, _ = timer.once(lambda: None, partial(_read_exactly, stream))
        print(f"  {size:6} B: line feeds {found:6.0f}, the exact reading of the same lines {exact:8.0f}")

    print("irregular lines")
    kinds: dict[str, Callable[[int], Iterator[bytes]]] = {
        "CR LF": lambda size: batches(size, MIB // size, end=b"\r\n"),
        "German text": lambda size: batches(size, MIB // size, fill="xyzäxyz".encode()),
        "Chinese text": lambda size: batches(size, MIB // size, fill="中文".encode()),
        "commit poll every 64": lambda size: with_polls(batches(size, MIB // (size + 2)), 64),
        "commit poll every 4": lambda size: with_polls(batches(size, MIB // (size + 6)), 4),
        "one commit poll in the middle": lambda size: with_polls(batches(size, MIB // size - 1), MIB // size // 2 + 1),
        "ids get wider in the middle": lambda size: batches(size, MIB // size, first=10**7 - MIB // size // 2),
        "ids from 1": lambda size: batches(size, MIB // size, first=1),
        "16-digit ids": lambda size: batches(size, MIB // size, first=1_700_000_000_000_000),
        "every third id": lambda size: batches(size, MIB // size, step=3),
        "16-digit ids, step 1117": lambda size: batches(size, MIB // size, first=1_700_000_000_000_000, step=1117),
        "one line not UTF-8": lambda size: _one_bad(size),
    }
    for name, lines_of in kinds.items():
        for size in (64, 256, 1024):
            stream = b"".join(lines_of(size))
            report(f"{name}, {size} B", stream, receive_and_parse(timer, stream))

    print("small chunks of 256 B lines, us a chunk")
    for count in (1, 2, 8, 32, 64, 128, 512):
        stream = b"".join(batches(256, count))
        best, median, _ = receive_and_parse(timer, stream)
        print(f"  {count:4} lines {best:7.1f} {median:7.1f}   {1000 * best / count:7.0f} ns/line")

    print("replies: 1,000 x (add 4096 RECEIVED, send them)")
    replies = ReplyQueue()

    def answer() -> None:
        for _ in range(1000):
            replies.add(RECEIVED, 4096)
            replies.consumed(len(replies.peek(MIB)))

    best, _ = Timer(5).once(lambda: None, answer)
    print(f"  {best / 1000:.1f} us each")


def _one_bad(size: int) -> Iterator[bytes]:
    for number, line in enumerate(batches(size, MIB // size)):
        yield line[:-3] + b"\xff\xff\n" if number == 1000 else line


if __name__ == "__main__":
    main()
