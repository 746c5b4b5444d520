"""The port: how often it is tried, what cannot be retried, and that two jobs never share one."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from net_harness import AUTH, Collector, Running, running

from edgesocket.errors import ListenerError
from edgesocket.net.events import BindRetried, ListenerOpened, PortLockUnavailable, ServerFailed
from edgesocket.net.listener import BindCancelledError
from edgesocket.net.port_lock import PortLock


@pytest.fixture
def holder() -> Iterator[socket.socket]:
    """A foreign socket that listens on a port."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        yield holder


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def test_a_port_that_stays_taken_is_given_up_after_the_first_try_and_max_retries_more(
    tmp_path: Path, holder: socket.socket
) -> None:
    it = Running(tmp_path, port=port_of(holder), max_retries=3, reconnect_interval_ms=100)
    start = time.monotonic()

    with pytest.raises(ListenerError, match=rf"port {it.port}: Address already in use \(tried 4 times\)"):
        it.server.start()

    assert 0.3 <= time.monotonic() - start < 0.6
    assert [e.tries for e in it.told(BindRetried)] == [1, 2, 3]
    assert it.state() == "failed"
    assert list(tmp_path.iterdir()) == []


def test_without_retries_there_is_one_try(tmp_path: Path, holder: socket.socket) -> None:
    it = Running(tmp_path, port=port_of(holder), max_retries=0)

    with pytest.raises(ListenerError, match="tried 1 time"):
        it.server.start()

    assert it.events == []


@pytest.mark.parametrize("how", ["stop", "abort"])
def test_unlimited_retries_go_on_and_can_be_cancelled_at_once(tmp_path: Path, holder: socket.socket, how: str) -> None:
    it = Running(tmp_path, port=port_of(holder), max_retries=-1, reconnect_interval_ms=20)
    raised: list[BaseException] = []

    def start() -> None:
        try:
            it.server.start()
        except ListenerError as error:
            raised.append(error)

    starter = threading.Thread(target=start)
    starter.start()
    it.wait_for(lambda: len(it.told(BindRetried)) > 5)
    assert it.state() == "binding"
    assert it.server.describe()["bind_problem"] == "Address already in use"
    getattr(it.server, how)()
    starter.join(1)

    assert isinstance(raised[0], BindCancelledError)
    assert it.state() == "stopped"


def test_a_port_that_becomes_free_is_taken(tmp_path: Path, holder: socket.socket) -> None:
    port = port_of(holder)
    threading.Timer(0.25, holder.close).start()
    with running(tmp_path, port=port, max_retries=10, reconnect_interval_ms=50) as it, it.collector():
        assert it.told(ListenerOpened)[0].tries > 1
        assert it.server.describe()["bind_problem"] == ""


SERVE_UNTIL_KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from net_harness import Running

it = Running(Path(sys.argv[2]))
it.server.start()
print(it.port, flush=True)
time.sleep(60)
"""


@pytest.fixture
def other_engine(tmp_path: Path) -> "Iterator[tuple[subprocess.Popen[str], int]]":
    command = [sys.executable, "-c", SERVE_UNTIL_KILLED, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def test_after_a_kill_with_a_collector_connected_the_port_can_be_had_at_once(
    tmp_path: Path, other_engine: "tuple[subprocess.Popen[str], int]"
) -> None:
    process, port = other_engine
    with Collector(port) as collector:
        collector.send(AUTH)
        assert collector.line() == "ACK"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

        with running(tmp_path, port=port, max_retries=0) as it, it.collector():
            pass


def test_two_live_engines_never_share_a_port_even_while_it_is_suspended(
    tmp_path: Path, other_engine: "tuple[subprocess.Popen[str], int]"
) -> None:
    process, port = other_engine
    with Collector(port) as collector:
        collector.send(AUTH)
        assert collector.line() == "ACK"
        it = Running(tmp_path, port=port, max_retries=1, reconnect_interval_ms=10)

        with pytest.raises(ListenerError, match=rf"another EdgeSocket job \(pid {process.pid}, job test\).*2 times"):
            it.server.start()


def test_a_listener_on_the_loopback_address_alone_holds_the_port(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()

        with pytest.raises(ListenerError, match="Address already in use"):
            Running(tmp_path, port=port_of(holder), max_retries=0).server.start()


def test_a_listener_on_ipv6_alone_does_not_hold_the_port(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as free, socket.socket(socket.AF_INET6) as holder:
        try:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            holder.bind(("::1", port_of(free)))
        except OSError:
            pytest.skip("no IPv6 here")
        holder.listen()
        free.close()

        with running(tmp_path, port=port_of(holder), max_retries=0) as it, it.collector():
            pass


BIND_PORT_80 = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from net_harness import Running
from edgesocket.errors import ListenerError

it = Running(Path(sys.argv[2]), port=80, max_retries=-1, reconnect_interval_ms=60_000)
if os.geteuid() == 0:
    os.setuid(65534)  # only now: another user may not be able to read this checkout
try:
    it.server.start()
except ListenerError as error:
    print(error)
"""


def test_a_port_without_the_right_to_it_fails_at_once(tmp_path: Path) -> None:
    floor = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    if floor.exists() and int(floor.read_text()) <= 80:
        pytest.skip("everyone may bind port 80 here")
    command = [sys.executable, "-c", BIND_PORT_80, str(Path(__file__).parent), str(tmp_path)]

    said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout

    assert "cannot listen on port 80: Permission denied (tried 1 time; a port below 1024" in said


@pytest.mark.parametrize("host", ["203.0.113.1", "not an address"])
def test_an_address_that_is_not_ours_fails_at_once(tmp_path: Path, host: str) -> None:
    with pytest.raises(ListenerError, match="tried 1 time"):
        Running(tmp_path, host=host, max_retries=-1).server.start()


def test_a_port_taken_by_a_foreign_socket_between_two_collectors_is_retried_and_shown(tmp_path: Path) -> None:
    with running(tmp_path, max_retries=-1, reconnect_interval_ms=20) as it:
        collector = it.collector()
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(("0.0.0.0", it.port))
            thief.listen()
            collector.close()
            it.wait_for(lambda: len(it.told(BindRetried)) > 3)
            shown = it.server.describe()
            assert (shown["state"], shown["bind_problem"]) == ("binding", os.strerror(errno.EADDRINUSE))
        it.wait_for(lambda: it.state() == "listening")

        with it.collector():
            pass


def test_a_port_taken_for_good_between_two_collectors_fails_the_server(tmp_path: Path) -> None:
    with running(tmp_path, max_retries=2, reconnect_interval_ms=10) as it:
        collector = it.collector()
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(("0.0.0.0", it.port))
            thief.listen()
            collector.close()
            assert it.server.join(10)

        assert isinstance(it.server.failure, ListenerError)
        assert "tried 3 times" in str(it.server.failure)
        assert it.told(ServerFailed)
        assert it.state() == "failed"


def test_a_port_that_is_waited_for_between_two_collectors_can_be_stopped_at_once(tmp_path: Path) -> None:
    with running(tmp_path, max_retries=-1, reconnect_interval_ms=60_000) as it:
        collector = it.collector()
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(("0.0.0.0", it.port))
            thief.listen()
            collector.close()
            it.wait_for(lambda: it.told(BindRetried))
            start = time.monotonic()
            assert it.server.stop()

        assert time.monotonic() - start < 0.5
        assert it.state() == "stopped"


def test_where_no_lock_file_can_be_made_the_server_says_so_once_and_runs(tmp_path: Path) -> None:
    with running(tmp_path / "missing") as it:
        for n in (1, 2):
            with it.collector():
                pass
            it.wait_for(lambda n=n: len(it.source.endings) == n and it.state() == "listening")

        (told,) = it.told(PortLockUnavailable)
        assert "No such file" in told.cause


def test_a_lock_given_by_the_job_outlives_the_server(tmp_path: Path) -> None:
    lock = PortLock(str(tmp_path), "the job")
    it = Running(tmp_path)
    it.server = type(it.server)(it.server._options, it.source, port_lock=lock)
    it.server.start()
    assert it.server.stop()

    with pytest.raises(ListenerError, match="job the job"):
        Running(tmp_path, port=it.port, max_retries=0).server.start()

    lock.release()
    with running(tmp_path, port=it.port, max_retries=0):
        pass
