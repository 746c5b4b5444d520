"""The conversation: every line answered once and in order, whatever the pauses, and only the dead are cut."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from net_harness import (
    AUTH,
    Collector,
    CountingSource,
    Gate,
    Running,
    refused,
    resident_bytes,
    running,
    wait_for,
)

from edgesocket.net import socket_options
from edgesocket.net.events import CollectorDisconnected, DisconnectReason, ServerFailed
from edgesocket.protocol.replies import queue_full
from edgesocket.protocol.reply_queue import FULL_BYTES, RUN_BYTES
from tests.support.namespaces import Network, network_or_skip


def batches(first: int, last: int, payload: bytes = b"x") -> bytes:
    return b"".join(b"__BATCH__:%d:%b\n" % (n, payload) for n in range(first, last + 1))


def test_requests_in_one_packet_with_the_first_line_are_answered_behind_its_ack(tmp_path: Path) -> None:
    with running(tmp_path) as it, Collector(it.port) as collector:
        collector.send(AUTH + b"__BATCH__:7:a\n__COMMIT__:7\nnonsense\n__BATCH__:0:b\n")

        assert [collector.line() for _ in range(5)] == ["ACK", "RECEIVED", "PENDING", "BAD_REQUEST", "INVALID_PARAM"]
        assert it.source.kept == [(7, b"a")]


def test_a_second_first_line_is_a_bad_request_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        collector.send(AUTH + b"__BATCH__:1:a\n")

        assert [collector.line(), collector.line()] == ["BAD_REQUEST", "RECEIVED"]


def test_a_line_that_comes_byte_by_byte_is_one_line(tmp_path: Path) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        for byte in b"__BATCH__:1:slow\n__BATCH__:2:too\n":
            collector.send(bytes([byte]))

        assert [collector.line(), collector.line()] == ["RECEIVED", "RECEIVED"]
        assert it.source.kept == [(1, b"slow"), (2, b"too")]


def test_a_pause_inside_a_line_of_many_times_accept_timeout_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path, accept_timeout_ms=50) as it, it.collector() as collector:
        for piece in (b"__BATC", b"H__:1", b"2:pay", b"load\n"):
            collector.send(piece)
            time.sleep(0.4)

        assert collector.line() == "RECEIVED"
        assert it.source.kept == [(12, b"payload")]


def test_a_quiet_collector_is_never_cut(tmp_path: Path) -> None:
    with (
        running(tmp_path, accept_timeout_ms=20, auth_timeout_ms=200, reply_stall_timeout_ms=200) as it,
        it.collector() as collector,
    ):
        time.sleep(1.0)
        collector.send(b"__COMMIT__:1\n")

        assert collector.line() == "PENDING"


def test_a_last_line_without_its_end_is_dropped_at_eof(tmp_path: Path) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        collector.send(b"__BATCH__:1:a\n__BATCH__:2:b")
        collector.half_close()

        assert collector.rest() == b"RECEIVED\n"
        assert it.source.kept == [(1, b"a")]
        it.wait_for(lambda: it.source.endings == [DisconnectReason.PEER_CLOSED])


def test_half_closed_with_more_replies_owed_than_the_kernel_takes_everything_is_answered(tmp_path: Path) -> None:
    lines = 1_000_000
    with running(tmp_path, CountingSource(keep=False)) as it, Collector(it.port) as collector:
        collector.send(AUTH + b"__BATCH__:1:x\n" * lines)
        collector.half_close()

        assert collector.rest() == b"ACK\n" + b"RECEIVED\n" * lines


@pytest.mark.slow
def test_five_million_lines_before_the_first_read_get_five_million_replies(tmp_path: Path) -> None:
    lines, a_write = 5_000_000, 50_000
    with running(tmp_path, CountingSource(keep=False), reply_stall_timeout_ms=2000) as it, it.collector() as collector:
        before = resident_bytes()
        chunk = b"__BATCH__:1:x\n" * a_write
        for _ in range(lines // a_write):
            collector.send(chunk)
        it.wait_for(lambda: it.source.records == lines)
        assert resident_bytes() - before < 32 << 20
        collector.send(b"__COMMIT__:1\n")
        collector.half_close()

        expected, got = 9 * lines + len(b"PENDING\n"), 0
        last = b""
        while data := collector.sock.recv(1 << 20):
            got += len(data)
            last = (last + data)[-100:]
        assert got == expected
        assert last.endswith(b"RECEIVED\nRECEIVED\nPENDING\n")


class UnfoldableReplies(CountingSource):
    """Answers every record differently from the one before, so that replies owed take memory each."""

    def __init__(self) -> None:
        super().__init__(keep=False)
        self.runs_before = 0

    def handle(self, events: list[Any], replies: Any) -> None:
        self.runs_before = max(self.runs_before, replies.run_count)
        for event in events:
            for _ in range(event.count):
                self.records += 1
                replies.add(queue_full(10**18 + self.records % 2))


def test_a_collector_that_never_reads_is_cut_after_the_stall_timeout_in_bounded_memory(tmp_path: Path) -> None:
    source = UnfoldableReplies()
    with (
        running(tmp_path, source, reply_stall_timeout_ms=500) as it,
        Collector(it.port, receive_buffer=4096) as collector,
    ):
        everything = AUTH + b"__BATCH__:1:x\n" * 2_000_000
        before = resident_bytes()
        with contextlib.suppress(OSError):
            collector.send(everything)
        it.wait_for(lambda: it.told(CollectorDisconnected))

        assert it.told(CollectorDisconnected)[0].reason is DisconnectReason.REPLIES_NOT_READ
        assert source.runs_before * RUN_BYTES < FULL_BYTES, "reading has to pause"
        assert resident_bytes() - before < 64 << 20
        it.wait_for(lambda: it.state() == "listening")
        with it.collector():
            pass


def test_a_collector_that_reads_slowly_is_not_cut(tmp_path: Path) -> None:
    lines = 60_000
    source = CountingSource(keep=False)
    with (
        running(tmp_path, source, reply_stall_timeout_ms=1000) as it,
        Collector(it.port, receive_buffer=16 * 1024) as collector,
    ):
        collector.shake_hands()
        writer = threading.Thread(target=collector.send, args=(AUTH + b"__BATCH__:1:x\n__COMMIT__:1\n" * lines,))
        writer.start()
        got, started = b"", time.monotonic()
        while time.monotonic() - started < 2.5:
            got += collector.sock.recv(4096)
            time.sleep(0.1)
        collector_half_closes = threading.Thread(target=lambda: (writer.join(), collector.half_close()))
        collector_half_closes.start()
        got += collector.rest()
        collector_half_closes.join()

        assert got == b"ACK\n" + b"RECEIVED\nPENDING\n" * lines


def test_a_closed_receive_window_is_not_taken_for_a_dead_peer(tmp_path: Path) -> None:
    # Linux ends a live connection whose peer keeps its window closed for TCP_USER_TIMEOUT; the rule here is the reply
    # stall timeout, and this collector goes on sending, now and then.
    lines = 0
    options = {"user_timeout_ms": 1000, "reply_stall_timeout_ms": 2000}
    with (
        running(tmp_path, CountingSource(keep=False), **options) as it,
        Collector(it.port, receive_buffer=4096) as collector,
    ):
        collector.send(AUTH)
        started = time.monotonic()
        while time.monotonic() - started < 4.0:
            collector.send(b"__BATCH__:1:x\n" * 5000)
            lines += 5000
            time.sleep(0.7)
        collector.half_close()

        assert collector.rest() == b"ACK\n" + b"RECEIVED\n" * lines


def test_replies_that_only_the_kernel_still_holds_count_as_owed(tmp_path: Path) -> None:
    options = {"user_timeout_ms": 1000, "reply_stall_timeout_ms": 1500}
    with (
        running(tmp_path, CountingSource(keep=False), **options) as it,
        Collector(it.port, receive_buffer=4096) as collector,
    ):
        started = time.monotonic()
        collector.send(AUTH + b"__BATCH__:1:x\n" * 5000)
        it.wait_for(lambda: it.source.records == 5000 and it.server.describe()["owed_reply_runs"] == 0)
        it.wait_for(lambda: it.told(CollectorDisconnected))

        assert it.told(CollectorDisconnected)[0].reason is DisconnectReason.REPLIES_NOT_READ
        assert time.monotonic() - started > 1.5


def test_the_kernel_is_asked_for_what_the_options_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned: list[socket.socket] = []
    real_tune = socket_options.tune

    def tune(sock: socket.socket, options: Any) -> None:
        real_tune(sock, options)
        tuned.append(sock)

    monkeypatch.setattr(socket_options, "tune", tune)
    options = {"keepalive_idle_s": 7, "keepalive_interval_s": 3, "keepalive_probes": 2, "user_timeout_ms": 4321}
    with running(tmp_path, **options) as it, it.collector():
        asked = tuned[0].getsockopt
        assert asked(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert asked(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert asked(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7
        assert asked(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 3
        assert asked(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 2
        assert asked(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4321


@pytest.fixture
def network() -> Iterator[Network]:
    with network_or_skip() as network:
        yield network


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with replies on the way"])
def test_a_half_open_collector_is_noticed(tmp_path: Path, network: Network, busy: bool) -> None:
    gate = Gate()
    options = {"keepalive_idle_s": 1, "keepalive_interval_s": 1, "keepalive_probes": 1, "user_timeout_ms": 2000}
    it = Running(tmp_path, **options)
    closing = contextlib.ExitStack()
    with network.inside(0):
        it.server.start()
        # The receiver thread was made in here, so it stays at this end.
    try:
        with network.inside(1):
            sock = closing.enter_context(socket.create_connection(("10.99.0.1", it.port)))
        sock.sendall(AUTH)
        assert sock.recv(100) == b"ACK\n"
        if busy:
            it.source.before_handle = gate
            sock.sendall(b"__BATCH__:1:x\n")
            gate.wait_until_reached()
        network.cut()
        gate.open()
        started = time.monotonic()
        wait_for(lambda: it.told(CollectorDisconnected))

        assert it.told(CollectorDisconnected)[0].reason is DisconnectReason.NO_SIGN_OF_LIFE
        assert time.monotonic() - started < 6
        wait_for(lambda: it.state() == "listening")
    finally:
        closing.close()
        it.server.abort()
        assert it.server.join(10)


@pytest.mark.parametrize("where", ["handle", "session_started", "accepts_token", "session_ended"])
def test_an_error_of_the_source_ends_conversation_and_server_and_is_reported(tmp_path: Path, where: str) -> None:
    class FailingSource(CountingSource):
        def __getattribute__(self, name: str) -> Any:
            if name == where:
                return _fail
            return super().__getattribute__(name)

    with running(tmp_path, FailingSource()) as it, Collector(it.port) as collector:
        collector.send(AUTH + b"__BATCH__:1:x\n")
        if where == "session_ended":
            assert [collector.line(), collector.line()] == ["ACK", "RECEIVED"]
            collector.half_close()
        rest = collector.rest()

        assert b"RECEIVED" not in rest
        assert it.server.join(10)
        assert isinstance(it.server.failure, OSError)
        assert it.told(ServerFailed)[0].error is it.server.failure
        assert it.state() == "failed"
        assert refused(it.port)
        if where in ("handle", "session_started"):
            assert it.source.endings == [DisconnectReason.FAILED]


def _fail(*_: object) -> None:
    raise ConnectionResetError("looks like a network error, but is the source's own")
