"""Memory of `edgesocket run` under load that is meant to fill it: measured, and each limit with its reason.

What is measured is the largest resident size that /proc shows for the real process, above what it had when its port
was open. Limits are sums of what the design lets be held, plus `NOISE` for the allocator and the interpreter.
"""

from __future__ import annotations

import base64
import json
import resource
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from edgesocket.ingress.record_queue import PINNED_SLACK_BYTES
from edgesocket.protocol.chunks import DEFAULT_BUFFER_BYTES, DEFAULT_KEPT_BUFFERS
from tests.support.jobs import Job, Wire, free_port, wait_for_ack, wait_until, write_job
from tests.support.memory import HAS_PROC, MIB, Meter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_PROC, reason="resident memory is read from /proc, which this system does not have"),
]

NOISE = 16 * MIB
RECEIVE = DEFAULT_BUFFER_BYTES
"""What one receive takes at most."""
KEPT_BUFFERS = DEFAULT_KEPT_BUFFERS
"""So many receive buffers are kept for the next receive."""
LINE = 16 * MIB
"""`max_line_bytes`."""
PATIENCE_S = 60.0


@contextmanager
def _running(directory: Path, *, stdout: int = subprocess.DEVNULL, **job: str) -> Iterator[tuple[Job, int, Meter]]:
    """A job with its port open, that port, and a meter that starts now."""
    port = free_port()
    with Job(write_job(directory, port, **job), stdout=stdout) as running:
        assert running.wait_until_listening(), running.log_text()
        try:
            yield running, port, Meter(running.pid)
        except BaseException:
            print(running.log_text())
            raise
        finally:
            running.kill()
            if running.process.stdout is not None:
                running.process.stdout.close()


def _assert_within(meter: Meter, limit: int) -> None:
    grown = meter.grown()
    assert grown <= limit, f"grew by {grown / MIB:.1f} MiB, allowed were {limit / MIB:.1f}"


def test_100_mb_without_a_newline_before_authentication(tmp_path: Path) -> None:
    """Held are at most the 4 KiB of a first line: nothing that could be seen above the noise."""
    with _running(tmp_path, sink="Null {}") as (_, port, meter):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
            try:
                for _ in range(100):
                    peer.sendall(b"x" * 1_000_000)
            except OSError:
                pass  # refused after 4 KiB, and closed soon after
            try:
                assert peer.recv(100) in (b"AUTH_FAILED\n", b"")
            except ConnectionResetError:
                pass
        _assert_within(meter, NOISE)
        with Wire(port) as wire:
            assert wire.ask("__BATCH__:1:ok") == "RECEIVED"


def test_100_mb_without_a_newline_after_authentication(tmp_path: Path) -> None:
    """Held are at most `max_line_bytes` of a line, and a receive; the rest is skipped and answered once."""
    with _running(tmp_path, sink="Null {}") as (_, port, meter), Wire(port) as wire:
        for _ in range(100):
            wire.socket.sendall(b"x" * 1_000_000)
        assert wire.ask("", "__BATCH__:1:ok") == "BAD_REQUEST RECEIVED"
        _assert_within(meter, LINE + RECEIVE + NOISE)


def test_replies_that_nobody_reads(tmp_path: Path) -> None:
    """Equal replies in a row are one run, so good and bad lines take turns here and every reply is a run of its own.

    Reading pauses at 1 MiB of runs (8,192 of them). The receive before that brings at most `RECEIVE` of lines, 12 bytes
    each, and each of these is an event and then a run, well under 1 KiB together.
    """
    stall = "reply_stall_timeout_ms = 2000"
    lines = b"".join(b"__BATCH__:%d:x\nbad\n" % n for n in range(100_000, 200_000))
    with _running(tmp_path, sink="Null {}", source=stall) as (job, port, meter):
        with Wire(port) as wire:
            wire.socket.settimeout(0.5)
            sent = 0
            with pytest.raises(OSError):  # the socket is full, or was cut
                while sent < 1000 * MIB:
                    sent += wire.socket.send(lines[sent % len(lines) :][:65536])
            assert sent < 100 * MIB, "reading must have paused"
            wait_until(lambda: "neither read its replies" in job.log_text(), PATIENCE_S, "the end of the conversation")
        _assert_within(meter, RECEIVE // 12 * 1024 + MIB + NOISE)
        wait_until(lambda: job.log_text().count("listener opened") == 2, PATIENCE_S, "opening the port again")
        with Wire(port) as wire:
            assert wire.ask("__BATCH__:1:ok") == "RECEIVED", "the next collector is served"


def test_five_million_lines_written_before_the_first_reply_is_read(tmp_path: Path) -> None:
    """All five million replies come; what is owed is a few runs.

    Records wait in a queue of 65,536, each at most 24 bytes of payload and offsets besides the receive buffers that
    they keep alive (a line here has 23 bytes): 65,536 x 47 bytes, twice because the sink holds as many.
    Fingerprints of the newest 65,536 records take less than 64 bytes each. Receive buffers are kept for reuse.
    """
    records, total, step = 65_536, 5_000_000, 50_000
    source = f"local_queue_capacity = {records}"
    with _running(tmp_path, sink="Null {}", source=source) as (_, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        for first in range(1_000_000, 1_000_000 + total, step):
            wire.socket.sendall(b"".join(b"__BATCH__:%d:row\n" % n for n in range(first, first + step)))
        counts = {b"RECEIVED": 0, b"QUEUE_FULL:500": 0}
        carry = b""
        while sum(counts.values()) < total:
            piece = wire.socket.recv(MIB)
            assert piece, f"the connection ended after {counts}"
            *replies, carry = (carry + piece).split(b"\n")
            for word in counts:
                counts[word] += replies.count(word)
        assert sum(counts.values()) == total
        assert not carry
        assert wire.ask("__PING__") == "BAD_REQUEST", "one reply for each line: the next one is the next line's"
        _assert_within(meter, 2 * records * 47 + records * 64 + KEPT_BUFFERS * RECEIVE + NOISE)


def test_a_thousand_silent_connections(tmp_path: Path) -> None:
    """At most 64 peers may be authenticating, with 4 KiB each and a descriptor; the collector gets in at once."""
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * count)), hard))
    peers: list[socket.socket] = []
    try:
        with _running(tmp_path, sink="Null {}") as (_, port, meter):
            before = meter.descriptors()
            for number in range(count):
                peers.append(socket.socket())
                peers[-1].bind((f"127.0.1.{1 + number % 200}", 0))  # at most 8 of one address are let in
                peers[-1].connect(("127.0.0.1", port))
            started = time.monotonic()
            with Wire(port) as wire:
                assert wire.authenticated == "ACK"
                assert wire.ask("__BATCH__:1:ok") == "RECEIVED"
            assert time.monotonic() - started < 5
            assert meter.descriptors() <= before + 64 + 128 + 8, "waiting, departing, and the files of a checkpoint"
            _assert_within(meter, 64 * 4096 + NOISE)
    finally:
        for peer in peers:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _gzip_of_zeros(mebibytes: int) -> bytes:
    """A GZIP stream that inflates to so many MiB.

    64 MiB are compressed once, ending at a byte, and repeated: that is a valid stream. The checksum is left zero
    for more than that, as nobody gets so far; the size field of the trailer is zero for 4 GiB in any case.
    """
    unit = min(mebibytes, 64)
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    checksum, pieces = 0, []
    for _ in range(unit):
        pieces.append(squeezer.compress(bytes(MIB)))
        checksum = zlib.crc32(bytes(MIB), checksum)
    pieces.append(squeezer.flush(zlib.Z_FULL_FLUSH))
    body = b"".join(pieces) * (mebibytes // unit) + squeezer.flush()
    trailer = (checksum if unit == mebibytes else 0).to_bytes(4, "little")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body + trailer + (mebibytes * MIB % 2**32).to_bytes(4, "little")


def _packet_line(batch_id: int, stream: bytes) -> bytes:
    payload = base64.b64encode(stream).decode()
    envelope = {"version": 1, "payload": payload, "compression": "GZIP", "encryption": "NONE"}
    return b"__BATCH__:%d:%s" % (batch_id, json.dumps(envelope).encode())


def test_a_bomb_of_4_gib(tmp_path: Path) -> None:
    """It is refused at 64 MiB, and none of these are held: only the line, its base64 text, and the compressed bytes."""
    line = _packet_line(1, _gzip_of_zeros(4096))
    assert 5 * MIB < len(line) < 6 * MIB
    with _running(tmp_path, sink="Null {}", source="packet_mode = PACKET") as (_, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        assert wire.ask(line) == "DECODE_FAILED"
        assert wire.ask(_packet_line(2, _gzip_of_zeros(1))) == "RECEIVED"
        _assert_within(meter, 4 * len(line) + NOISE)


def test_50_bombs_in_a_row(tmp_path: Path) -> None:
    """As one, because nothing of a refused packet stays. (The bound is 4 MiB here, so that it takes seconds.)"""
    line = _packet_line(1, _gzip_of_zeros(512))
    source = "packet_mode = PACKET\n max_record_bytes = 4 MiB"
    with _running(tmp_path, sink="Null {}", source=source) as (_, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        for _ in range(50):
            assert wire.ask(line) == "DECODE_FAILED"
        assert wire.ask(_packet_line(2, _gzip_of_zeros(4))) == "RECEIVED"
        _assert_within(meter, 4 * len(line) + NOISE)


def test_50_records_in_the_queue_that_inflate_to_16_mib_each(tmp_path: Path) -> None:
    """They wait compressed and are inflated one by one: one record, its text, and what inflating it takes (4/3)."""
    record = 16 * MIB
    line = _packet_line(0, _gzip_of_zeros(16)).removeprefix(b"__BATCH__:0:")
    source = "packet_mode = PACKET\n max_record_bytes = 16 MiB"
    job = {"sink": "Console {}", "source": source}
    with _running(tmp_path, stdout=subprocess.PIPE, **job) as (running, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        for n in range(1, 51):  # the sink holds the first one until somebody reads
            assert wire.ask(b"__BATCH__:%d:%s" % (n, line)) == "RECEIVED"
        with _read_by_somebody(running):
            assert wait_for_ack(wire, 50, PATIENCE_S) == "ACK:50"
            _assert_within(meter, 3 * record + NOISE)


def test_records_of_16_mib_against_a_shut_sink(tmp_path: Path) -> None:
    """`local_queue_max_bytes` (256 MiB) is the mark; behind it every record is read, refused and forgotten.

    Besides the queue there are: what the sink was given (a poll ends behind 16 MiB: up to two records) with the text it
    makes of it, and in the receiver one line being received, and one being looked at with its text.

    The sink is Console, with a pipe that nobody reads. 2,000 lines are 32 GB; once the queue is full one line is like
    the next, so after 100 of them it goes on only as long as five seconds allow.
    """
    in_sink, in_receiver = 2 * 2 * LINE, 3 * LINE
    limit = 256 * MIB + in_sink + in_receiver + NOISE
    payload = b"x" * (LINE - 40)
    env = "checkpoint.timeout = 100"
    job = {"sink": "Console {}", "env": env}
    with _running(tmp_path, stdout=subprocess.PIPE, **job) as (running, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        replies: list[str] = []
        deadline = time.monotonic() + 5
        while len(replies) < 100 or (len(replies) < 2000 and time.monotonic() < deadline):
            wire.socket.sendall(b"__BATCH__:%d:%s\n" % (len(replies) + 1, payload))
            replies.append(wire.read())
        accepted = replies.index("QUEUE_FULL:500")
        assert set(replies[:accepted]) == {"RECEIVED"}
        assert set(replies[accepted:]) == {"QUEUE_FULL:500"}
        assert 16 <= accepted <= 18, "sixteen fit into the queue, and the sink has one or two"
        _assert_within(meter, limit)
        wire.close()
        assert running.stop() == ExitCode.TRY_LATER, "a sink that is stuck cannot hold up a stop for ever"
        assert "the last confirmed batch is 0" in running.log_text()


def test_a_full_queue_inside_a_checkpoint(tmp_path: Path) -> None:
    """A checkpoint holds the queue as it was cut and the blob made of it, while the queue may fill again.

    A queue takes up to twice its bytes and `PINNED_SLACK_BYTES`, because records keep the buffers alive that they came
    in; the blob is exact. The sink is slow: a pipe that somebody reads now and then. It has two records and their text.
    """
    queue, line = 64 * MIB, 4 * MIB
    queue_with_buffers = 2 * queue + PINNED_SLACK_BYTES + LINE
    in_sink = 2 * (16 * MIB + line)
    payload = b"x" * (line - 40)
    job = {"sink": "Console {}", "source": f"local_queue_max_bytes = {queue}", "env": "checkpoint.interval = 200"}
    with _running(tmp_path, stdout=subprocess.PIPE, **job) as (running, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        with _read_by_somebody(running, bytes_a_second=40 * MIB):
            deadline = time.monotonic() + PATIENCE_S
            refused = sent = 0
            while _checkpoints(tmp_path) < 3 or refused < 5:
                assert time.monotonic() < deadline
                sent += 1
                if wire.ask(b"__BATCH__:%d:%s" % (sent, payload)) != "RECEIVED":
                    refused += 1
                    time.sleep(0.02)
            _assert_within(meter, 2 * queue_with_buffers + queue + in_sink + LINE + NOISE)


def test_a_few_good_lines_among_much_rubbish(tmp_path: Path) -> None:
    """Queued records point into receive buffers; those that hold little else are copied out of them.

    So 12,800 records of a byte do not keep a receive buffer for every 64 of them: `PINNED_SLACK_BYTES` and no more.
    """
    step, rounds = 64, 200
    rubbish = b"x" * (RECEIVE // 2)
    source = "local_queue_capacity = 65536"
    job = {"sink": "Console {}", "source": source}
    with _running(tmp_path, stdout=subprocess.PIPE, **job) as (_, port, meter), Wire(port) as wire:
        wire.socket.settimeout(PATIENCE_S)
        assert wire.ask(b"__BATCH__:1:" + b"x" * 200_000) == "RECEIVED", "more than the pipe takes: the sink is shut"
        for first in range(2, rounds * step, step):
            good = b"".join(b"__BATCH__:%d:x\n" % n for n in range(first, first + step))
            wire.socket.sendall(rubbish + b"\n" + good)
            assert [wire.read() for _ in range(step + 1)] == ["BAD_REQUEST"] + ["RECEIVED"] * step
        _assert_within(meter, PINNED_SLACK_BYTES + KEPT_BUFFERS * RECEIVE + NOISE)


def _checkpoints(directory: Path) -> int:
    """Completed checkpoints, from the names in the log (a claim and a start come before them)."""
    return max(0, len(list(directory.glob(".edgesocket/*/log/*.json"))) - 2)


@contextmanager
def _read_by_somebody(job: Job, bytes_a_second: int | None = None) -> Iterator[None]:
    """Read the standard output of the job on a thread."""
    stream = job.process.stdout
    assert stream is not None
    ending = threading.Event()

    def read() -> None:
        while not ending.is_set() and (piece := stream.read1(MIB)):  # type: ignore[union-attr, attr-defined]
            if bytes_a_second:
                ending.wait(len(piece) / bytes_a_second)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        job.kill()  # so that a read in progress ends
        thread.join(10)
