"""Ends: a graceful stop answers what was read and nothing else; an abort lets no further byte out."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from net_harness import AUTH, Collector, CountingSource, Gate, Running, descriptors, refused, running

from edgesocket.net.events import DisconnectReason


def seconds(start: float) -> float:
    return time.monotonic() - start


def test_a_stop_in_the_middle_of_a_line_drops_that_line_only(tmp_path: Path) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        collector.send(b"__BATCH__:1:a\n__BATCH__:2:b")
        it.wait_for(lambda: it.source.records == 1)

        assert it.server.stop()

        assert collector.rest() == b"RECEIVED\n"
        assert it.source.kept == [(1, b"a")]
        assert it.source.endings == [DisconnectReason.STOPPED]
        assert it.state() == "stopped"


@pytest.mark.parametrize("connected", [True, False], ids=["connected", "listening"])
@pytest.mark.parametrize("how", ["stop", "abort"])
def test_an_idle_receiver_ends_at_once_whatever_accept_timeout_is(tmp_path: Path, connected: bool, how: str) -> None:
    with running(tmp_path, accept_timeout_ms=60_000) as it:
        peer = it.collector(auth=connected)
        start = time.monotonic()
        getattr(it.server, how)()

        assert it.server.join(10)
        assert seconds(start) < 0.5
        assert peer.rest() == b""
        assert refused(it.port)
        peer.close()


def test_a_stop_hands_over_the_replies_that_are_owed(tmp_path: Path) -> None:
    lines = 600_000
    with running(tmp_path, CountingSource(keep=False)) as it, it.collector() as collector:
        collector.send(b"__BATCH__:1:x\n__COMMIT__:1\n" * 3000)
        collector.send(b"__BATCH__:1:x\n" * lines)
        it.wait_for(lambda: it.source.records == lines + 3000)
        assert it.server.describe()["owed_reply_runs"] > 0
        stopper = threading.Thread(target=it.server.stop)
        stopper.start()

        assert collector.rest() == b"RECEIVED\nPENDING\n" * 3000 + b"RECEIVED\n" * lines
        stopper.join()
        assert it.source.endings == [DisconnectReason.STOPPED]


@pytest.mark.parametrize("write_s", [2, 60], ids=["and reads only afterwards", "and never ends"])
def test_replies_reach_a_collector_that_is_still_writing_when_the_stop_comes(tmp_path: Path, write_s: int) -> None:
    # What it still writes has to be taken, and thrown away, or it never comes to its reading; and closing with unread
    # bytes is a reset, which takes back what has not arrived yet.
    gate = Gate()
    with running(tmp_path, CountingSource(keep=False)) as it, it.collector() as collector:
        it.source.before_handle = lambda _: gate() if it.source.records > 600_000 else None
        writer = threading.Thread(target=_write_for, args=(write_s, collector.sock))
        writer.start()
        gate.wait_until_reached()
        assert it.server.describe()["owed_reply_runs"] > 0
        stopper = threading.Thread(target=it.server.stop)
        stopper.start()
        gate.open()
        if write_s < 5:
            writer.join()
        answered = collector.rest()
        stopper.join()
        writer.join()

        assert answered == b"RECEIVED\n" * it.source.records


def _write_for(write_s: int, sock: socket.socket) -> None:
    start = time.monotonic()
    try:
        while seconds(start) < write_s:
            sock.sendall(b"__BATCH__:1:x\n" * 10_000)
    except OSError:
        pass


def test_a_collector_that_does_not_read_holds_up_a_stop_for_the_grace_only(tmp_path: Path) -> None:
    with running(tmp_path, CountingSource(keep=False)) as it, it.collector() as collector:
        collector.send(b"__BATCH__:1:x\n" * 1_000_000)
        it.wait_for(lambda: it.source.records == 1_000_000)
        start = time.monotonic()

        assert it.server.stop(grace_s=0.3)

        assert 0.3 <= seconds(start) < 1.0


def test_a_handler_that_does_not_come_back_is_left_behind(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it, it.collector() as collector:
        it.source.before_handle = gate
        collector.send(b"__BATCH__:1:x\n")
        gate.wait_until_reached()

        assert not it.server.stop(grace_s=0.1)

        gate.open()
        assert it.server.join(10)
        assert collector.rest() == b""


def test_a_stop_asked_for_by_the_handler_itself_does_not_wait_for_itself(tmp_path: Path) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        it.source.before_handle = lambda _: it.server.stop()
        collector.send(b"__BATCH__:1:x\n")

        assert collector.rest() == b"RECEIVED\n"
        assert it.server.join(10)
        assert it.source.endings == [DisconnectReason.STOPPED]


def test_after_an_abort_not_a_byte_goes_out(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it, it.collector() as collector:
        collector.send(b"__COMMIT__:1\n")
        assert collector.line() == "PENDING"
        it.source.before_handle = gate
        collector.send(b"__BATCH__:1:x\n")
        gate.wait_until_reached()

        it.server.abort()
        gate.open()

        assert collector.rest() == b""
        assert it.server.join(10)
        assert it.source.records == 1
        assert it.source.endings == [DisconnectReason.ABORTED]
        assert it.state() == "stopped"


def test_after_an_abort_nobody_in_the_lobby_is_answered(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it, Collector(it.port) as wrong, Collector(it.port) as silent:
        it.source.before_token = gate
        wrong.send(b"__AUTH__:wrong\n")
        gate.wait_until_reached()
        it.server.abort()
        gate.open()

        assert wrong.rest() == b""
        assert silent.rest() == b""


def test_an_abort_ends_a_conversation_in_which_replies_are_stuck(tmp_path: Path) -> None:
    with running(tmp_path, CountingSource(keep=False), accept_timeout_ms=60_000) as it, it.collector() as collector:
        collector.send(b"__BATCH__:1:x\n" * 1_000_000)
        it.wait_for(lambda: it.source.records == 1_000_000)
        sent = it.server.describe()["sent_bytes"]
        start = time.monotonic()

        it.server.abort()

        assert it.server.join(10)
        assert seconds(start) < 0.5
        assert it.server.describe()["sent_bytes"] == sent


@pytest.mark.parametrize("when", ["before a reply", "while idle", "in the lobby"])
def test_a_source_that_may_not_answer_any_more_closes_everything_without_a_byte(tmp_path: Path, when: str) -> None:
    with running(tmp_path, accept_timeout_ms=50) as it:
        peer = it.collector(auth=when != "in the lobby")
        if when == "before a reply":
            it.source.before_handle = lambda _: setattr(it.source, "owner", False)
            peer.send(b"__BATCH__:1:x\n")
        else:
            it.source.owner = False

        assert peer.rest() == b""
        assert it.server.join(10)
        assert it.state() == "fenced"
        assert it.server.failure is None
        assert it.source.endings == ([] if when == "in the lobby" else [DisconnectReason.FENCED])
        assert refused(it.port)
        peer.close()


def test_fifty_starts_and_stops_leave_nothing_behind(tmp_path: Path) -> None:
    def once() -> None:
        with running(tmp_path) as it, it.collector() as collector:
            collector.send(b"__BATCH__:1:x\n")
            assert collector.line() == "RECEIVED"
            assert it.server.stop()

    once()
    before, threads = descriptors(), threading.active_count()
    for _ in range(50):
        once()

    # Fewer is what an earlier test left behind, and what has ended meanwhile.
    assert descriptors() <= before
    assert threading.active_count() <= threads
    assert list(tmp_path.iterdir()) == []


def test_the_same_port_can_be_had_again_right_after_a_stop_with_a_collector(tmp_path: Path) -> None:
    first = Running(tmp_path)
    first.server.start()
    port = first.port
    collector = first.collector()
    assert first.server.stop()
    for _ in range(3):
        with running(tmp_path, port=port, max_retries=0) as it, it.collector():
            it.server.stop()
    collector.close()


def test_stop_and_abort_can_be_called_before_start_and_twice(tmp_path: Path) -> None:
    it = Running(tmp_path)

    assert it.server.stop()
    it.server.abort()
    it.server.abort()

    with pytest.raises(Exception, match="stopped before"):
        it.server.start()
    assert it.state() == "stopped"


STOPPED_BY_A_SIGNAL = """
import signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from net_harness import Running
from edgesocket.net.listener import BindCancelledError

it = Running(Path(sys.argv[3]), port=int(sys.argv[1]), max_retries=-1, reconnect_interval_ms=60_000)
signal.signal(signal.SIGTERM, lambda *_: it.server.stop())
print("trying", flush=True)
try:
    it.server.start()
except BindCancelledError as error:
    print(error)
"""


def test_a_signal_ends_the_tries_to_bind_at_once(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        port = holder.getsockname()[1]
        command = [sys.executable, "-c", STOPPED_BY_A_SIGNAL, str(port), str(Path(__file__).parent), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "trying\n"
            time.sleep(0.3)
            start = time.monotonic()
            os.kill(process.pid, signal.SIGTERM)
            said = process.stdout.read()
            assert process.wait(10) == 0

        assert seconds(start) < 1
        assert f"cannot listen on port {port}: Address already in use (tried 1 time)" in said


def test_what_a_stop_cannot_answer_any_more_is_not_handled_either(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it, it.collector() as collector:
        it.source.before_handle = gate
        collector.send(b"__BATCH__:1:x\n")
        gate.wait_until_reached()
        collector.send(b"__BATCH__:2:y\n")
        stopper = threading.Thread(target=it.server.stop)
        stopper.start()
        it.wait_for(lambda: it.server._control.stopping)
        gate.open()
        stopper.join()

        assert collector.rest() == b"RECEIVED\n"
        assert it.source.kept == [(1, b"x")]


def test_the_backlog_of_a_stopped_listener_is_not_answered(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it, Collector(it.port) as first:
        it.source.before_token = gate
        first.send(AUTH)
        gate.wait_until_reached()
        it.server._control.stop(5)
        gate.open()
        assert it.server.join(10)

        assert first.rest() in (b"", b"ACK\n")
        assert it.source.records == 0
