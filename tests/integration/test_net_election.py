"""Who becomes the collector, what everyone else gets, and that nobody before authentication is in the way."""

import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest
from net_harness import AUTH, TOKEN, Collector, Gate, descriptors, refused, resident_bytes, running

from edgesocket.net.events import (
    AuthenticationFailed,
    CollectorConnected,
    CollectorDisconnected,
    DisconnectReason,
    ListenerOpened,
    PeerDropped,
    PeerRejected,
    PeerTimedOut,
)


def test_the_first_to_authenticate_is_served_and_a_second_connect_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        assert refused(it.port)

        collector.send(b"__BATCH__:1:a\n")

        assert collector.line() == "RECEIVED"
        assert it.state() == "connected"


def test_the_port_opens_again_when_the_collector_has_left(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        for n in range(1, 4):
            with it.collector():
                pass
            it.wait_for(lambda n=n: len(it.source.endings) == n and it.state() == "listening")

        assert len(it.told(ListenerOpened)) == 4
        assert [e.port for e in it.told(ListenerOpened)] == [it.port] * 4
        assert [e.reason for e in it.told(CollectorDisconnected)] == [DisconnectReason.PEER_CLOSED] * 3


def test_a_collector_that_resets_makes_way_too(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        it.collector().reset()
        it.wait_for(lambda: it.state() == "listening")

        with it.collector() as second:
            second.send(b"__COMMIT__:1\n")
            assert second.line() == "PENDING"

        assert it.source.endings[0] == DisconnectReason.PEER_RESET


def test_everyone_in_the_lobby_and_in_the_backlog_is_answered_rejected(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it:
        in_the_lobby = [Collector(it.port) for _ in range(3)]
        in_the_lobby[1].send(b"__AUTH__:my-e")
        it.wait_for(lambda: it.server.describe()["waiting_peers"] == 3)
        it.source.before_token = gate
        elected = Collector(it.port)
        elected.send(AUTH)
        gate.wait_until_reached()
        in_the_backlog = [Collector(it.port) for _ in range(5)]
        in_the_backlog[0].send(AUTH)
        in_the_backlog[1].send(AUTH + b"__BATCH__:1:late\n" * 1000)
        in_the_backlog[2].send(b"__AUTH__:wrong\n")
        gate.open()

        assert elected.line() == "ACK"
        for other in in_the_lobby + in_the_backlog:
            assert other.rest() == b"REJECTED\n"
            other.close()

        assert len(it.told(PeerRejected)) == 8
        assert it.source.sessions == [e.peer for e in it.told(CollectorConnected)]
        assert len(it.source.sessions) == 1
        elected.close()


def test_a_rejected_peer_in_the_middle_of_a_long_write_still_reads_its_reply(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it:
        it.source.before_token = gate
        elected, late = Collector(it.port), None
        elected.send(AUTH)
        gate.wait_until_reached()
        late = Collector(it.port)
        writer = threading.Thread(target=_write_until_closed, args=(late.sock,))
        writer.start()
        gate.open()
        assert elected.line() == "ACK"

        assert late.line() == "REJECTED"

        elected.close()
        late.sock.shutdown(socket.SHUT_RDWR)
        writer.join()
        late.close()


def _write_until_closed(sock: socket.socket) -> None:
    try:
        for _ in range(10_000):
            sock.sendall(AUTH + b"x" * 100_000)
    except OSError:
        pass


def test_a_thousand_silent_connections_do_not_hold_up_the_collector(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        silent = [Collector(it.port) for _ in range(1000)]
        it.wait_for(lambda: len(it.told(PeerDropped)) == 992)

        with it.collector() as collector:
            collector.send(b"__BATCH__:1:a\n")
            assert collector.line() == "RECEIVED"

        counted = it.server.describe()
        for peer in silent:
            peer.close()
        # The collector itself waits with them until its first line is there, and may push one more of them out.
        assert counted["peers_dropped"] in (992, 993)
        assert counted["peers_dropped"] + counted["peers_rejected"] == 1000


def test_the_collector_in_a_burst_of_silent_connections_is_heard_before_anyone_is_dropped(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it:
        it.source.before_token = gate
        first = Collector(it.port)
        first.send(b"__AUTH__:wrong\n")
        gate.wait_until_reached()
        crowd = [Collector(it.port) for _ in range(10)]
        collector = Collector(it.port)
        collector.send(AUTH)
        crowd += [Collector(it.port) for _ in range(40)]
        gate.open()

        assert collector.line() == "ACK"
        for peer in [first, collector, *crowd]:
            peer.close()


def test_a_waiting_peer_whose_line_has_come_is_elected_when_its_turn_to_be_dropped_comes(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, max_waiting_peers_per_address=2) as it:
        oldest, second = Collector(it.port), Collector(it.port)
        it.wait_for(lambda: it.server.describe()["waiting_peers"] == 2)
        it.source.before_token = gate
        held = Collector(it.port, source_address="127.0.0.2")
        held.send(b"__AUTH__:wrong\n")
        gate.wait_until_reached()
        newcomer = Collector(it.port)
        oldest.send(AUTH)
        gate.open()

        assert oldest.line() == "ACK"
        for other in (second, newcomer):
            assert other.rest() == b"REJECTED\n"
            other.close()
        held.close()
        oldest.close()


def test_the_oldest_of_the_same_address_makes_room(tmp_path: Path) -> None:
    with running(tmp_path, max_waiting_peers_per_address=2) as it:
        other_address = Collector(it.port, source_address="127.0.0.2")
        it.wait_for(lambda: it.server.describe()["waiting_peers"] == 1)
        peers = [Collector(it.port) for _ in range(3)]

        assert peers[0].rest() == b""
        it.wait_for(lambda: it.server.describe()["waiting_peers"] == 3)
        assert it.server.describe()["peers_dropped"] == 1
        for peer in [other_address, *peers]:
            peer.close()


def test_a_first_line_that_comes_byte_by_byte_is_one_line(tmp_path: Path) -> None:
    with running(tmp_path, accept_timeout_ms=10) as it, Collector(it.port) as collector:
        for n in range(len(AUTH)):
            collector.send(AUTH[n : n + 1])

        assert collector.line() == "ACK"


def test_the_time_for_the_first_line_is_for_all_of_it_and_ends_without_a_reply(tmp_path: Path) -> None:
    with (
        running(tmp_path, auth_timeout_ms=200) as it,
        Collector(it.port) as silent,
        Collector(it.port) as dripping,
    ):
        with contextlib.suppress(OSError):
            for n in range(len(AUTH) - 1):
                dripping.send(AUTH[n : n + 1])
                time.sleep(0.03)

        assert silent.rest() == b""
        assert dripping.rest() == b""
        assert it.server.describe()["auth_timed_out"] == 2
        assert len(it.told(PeerTimedOut)) == 2
        assert it.server.describe()["auth_failed"] == 0


@pytest.mark.parametrize(
    "line",
    [b"__AUTH__:wrong\n", b"__AUTH__:\n", b"\n", b"GET / HTTP/1.1\r\n", b"__AUTH__:\xff\xfe\n", b"x" * 5000],
    ids=["wrong token", "empty token", "empty line", "other protocol", "not UTF-8", "too long"],
)
def test_a_wrong_first_line_is_answered_and_closed(tmp_path: Path, line: bytes) -> None:
    with running(tmp_path) as it, Collector(it.port) as peer:
        peer.send(line)

        assert peer.rest() == b"AUTH_FAILED\n"
        it.wait_for(lambda: it.told(AuthenticationFailed))


def test_a_wrong_first_line_with_requests_behind_it_is_still_answered(tmp_path: Path) -> None:
    with running(tmp_path) as it, Collector(it.port) as peer:
        peer.send(b"__AUTH__:wrong\n" + b"__BATCH__:1:x\n" * 10_000)

        assert peer.line() == "AUTH_FAILED"
        assert it.source.records == 0


def test_a_right_token_in_a_line_with_crlf_is_right(tmp_path: Path) -> None:
    with running(tmp_path) as it, Collector(it.port) as peer:
        peer.send(AUTH.replace(b"\n", b"\r\n"))

        assert peer.line() == "ACK"


def test_a_thousand_wrong_tokens_leave_nothing_behind(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        with Collector(it.port) as peer:
            peer.send(b"__AUTH__:wr0ng-secret\n")
            peer.rest()
        descriptors_before, threads_before, memory_before = descriptors(), set(threading.enumerate()), resident_bytes()
        for _ in range(1000):
            with Collector(it.port) as peer:
                peer.send(b"__AUTH__:wr0ng-secret\n")
                assert peer.rest() == b"AUTH_FAILED\n"
        it.wait_for(lambda: descriptors() <= descriptors_before)

        assert set(threading.enumerate()) <= threads_before
        assert resident_bytes() - memory_before < 8 << 20
        assert it.server.describe()["auth_failed"] == 1001
        everything_told = repr(it.events) + repr(it.server.describe())
        assert "wr0ng" not in everything_told
        assert TOKEN.decode() not in everything_told


def test_a_storm_of_health_checks_leaves_nothing_behind(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        before = descriptors()
        for n in range(1000):
            peer = Collector(it.port)
            peer.reset() if n % 2 else peer.close()
        it.wait_for(lambda: it.server.describe()["connections"] >= 1000 and descriptors() <= before)

        with it.collector():
            pass

        assert it.source.sessions
        assert it.server.describe()["waiting_peers"] == 0


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
def test_a_peer_that_is_gone_before_its_election_is_never_elected(tmp_path: Path, how: str) -> None:
    gate = Gate()
    with running(tmp_path) as it:
        it.source.before_token = gate
        held = Collector(it.port)
        held.send(b"__AUTH__:wrong\n")
        gate.wait_until_reached()
        dead = Collector(it.port)
        dead.send(AUTH)
        getattr(dead, how)()
        gate.open()
        assert held.rest() == b"AUTH_FAILED\n"
        it.wait_for(lambda: it.server.describe()["peers_left"] == 1)

        with it.collector():
            assert len(it.source.sessions) == 1

        for peer in (held, dead):
            peer.close()


def test_a_collector_that_wrote_everything_and_closed_its_writing_side_gets_its_answers(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path) as it:
        it.source.before_token = gate
        held = Collector(it.port)
        held.send(b"__AUTH__:wrong\n")
        gate.wait_until_reached()
        piped = Collector(it.port)
        piped.send(AUTH + b"__BATCH__:1:a\n__BATCH__:2:b\n__BATCH__:3:no line end")
        piped.half_close()
        gate.open()

        assert piped.rest() == b"ACK\nRECEIVED\nRECEIVED\n"
        assert it.source.kept == [(1, b"a"), (2, b"b")]
        for peer in (held, piped):
            peer.close()
