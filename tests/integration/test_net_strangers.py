"""Strangers: who may not connect is closed at once, and who guesses has to wait, without a lock on its neighbours."""

from __future__ import annotations

import ipaddress
import time
from pathlib import Path

from net_harness import AUTH, Collector, Running, running

from edgesocket.net.backoff import FREE_FAILURES
from edgesocket.net.events import AddressSlowedDown, PeerNotAllowed

WRONG = b"__AUTH__:wrong\n"


def guess(it: Running, times: int, address: str = "127.0.0.1") -> None:
    for _ in range(times):
        with Collector(it.port, address) as peer:
            peer.send(WRONG)
            assert peer.rest() == b"AUTH_FAILED\n"


def seconds_until_ack(it: Running, address: str = "127.0.0.1") -> float:
    started = time.monotonic()
    with Collector(it.port, address) as collector:
        collector.send(AUTH)
        assert collector.line() == "ACK"
    return time.monotonic() - started


class TestAllow:
    NETWORKS = (ipaddress.ip_network("127.0.0.2/31"),)

    def test_who_is_in_no_network_is_closed_without_a_word_and_counted(self, tmp_path: Path) -> None:
        with running(tmp_path, allow=self.NETWORKS) as it:
            for _ in range(3):
                with Collector(it.port) as stranger:
                    assert stranger.rest() == b""
            with Collector(it.port, "127.0.0.3") as collector:
                collector.send(AUTH)
                assert collector.line() == "ACK"
            assert it.server.describe()["peers_not_allowed"] == 3
            assert [event.peer.split(":")[0] for event in it.told(PeerNotAllowed)] == ["127.0.0.1"] * 3

    def test_a_flood_of_them_does_not_hold_up_the_collector(self, tmp_path: Path) -> None:
        with running(tmp_path, allow=self.NETWORKS) as it:
            crowd = [Collector(it.port) for _ in range(300)]
            assert seconds_until_ack(it, "127.0.0.2") < 2
            for peer in crowd:
                peer.close()
            assert it.server.describe()["waiting_peers"] == 0


class TestBackoff:
    def test_the_first_failures_are_answered_at_once(self, tmp_path: Path) -> None:
        with running(tmp_path, auth_backoff_max_ms=5000) as it:
            guess(it, FREE_FAILURES)
            assert seconds_until_ack(it) < 0.2
            assert not it.told(AddressSlowedDown)

    def test_further_ones_are_told_so_later_each_time_and_others_at_once(self, tmp_path: Path) -> None:
        with running(tmp_path, auth_backoff_max_ms=5000) as it:
            guess(it, FREE_FAILURES)
            started = time.monotonic()
            guess(it, 2)
            assert time.monotonic() - started >= 0.75
            guess(it, 1, "127.0.0.2")
            assert time.monotonic() - started < 2
            assert [event.wait_ms for event in it.told(AddressSlowedDown)] == [250, 500]

    def test_a_right_token_from_an_address_that_waits_is_heard_at_once_and_makes_it_good(self, tmp_path: Path) -> None:
        with running(tmp_path, auth_backoff_max_ms=300) as it:
            guess(it, FREE_FAILURES + 3)
            assert seconds_until_ack(it) < 0.2
            it.wait_for(lambda: it.state() == "listening")
            started = time.monotonic()
            guess(it, FREE_FAILURES)
            assert time.monotonic() - started < 0.25

    def test_one_who_guesses_all_the_time_beside_it_does_not_keep_a_collector_waiting(self, tmp_path: Path) -> None:
        """Both sit behind one address, and the one who guesses has all the connections there that it may have."""
        with running(tmp_path, auth_backoff_max_ms=5000, max_waiting_peers_per_address=4) as it:
            guess(it, FREE_FAILURES + 2)  # from here on a wait is longer than this test takes
            before = len(it.told(AddressSlowedDown))
            guessing = []
            for n in range(1, 9):  # one by one: more than four that have not been heard would be too many
                guessing.append(Collector(it.port))
                guessing[-1].send(WRONG)
                it.wait_for(lambda n=n: len(it.told(AddressSlowedDown)) == before + n)
            assert it.server.describe()["waiting_peers"] == 0, "who is refused takes no place"
            assert seconds_until_ack(it) < 0.2
            answers = [peer.rest() for peer in guessing]
            assert answers == [b""] * 4 + [b"AUTH_FAILED\n"] * 4, "and no more than may wait are waited for"
            for peer in guessing:
                peer.close()

    def test_silent_ones_of_its_address_do_not_keep_a_collector_out_either(self, tmp_path: Path) -> None:
        with running(tmp_path, auth_backoff_max_ms=5000, max_waiting_peers_per_address=2) as it:
            guess(it, FREE_FAILURES + 1)
            silent = [Collector(it.port) for _ in range(2)]
            it.wait_for(lambda: it.server.describe()["waiting_peers"] == 2)
            assert seconds_until_ack(it) < 0.2
            for peer in silent:
                peer.close()

    def test_the_wait_ends_with_a_stop(self, tmp_path: Path) -> None:
        with running(tmp_path, auth_backoff_max_ms=5000) as it:
            guess(it, FREE_FAILURES + 1)
            with Collector(it.port) as waiting:
                waiting.send(WRONG)
                it.wait_for(lambda: len(it.told(AddressSlowedDown)) == 2)
                started = time.monotonic()
                it.server.stop()
                assert waiting.rest() == b""
                assert time.monotonic() - started < 0.4

    def test_it_outlives_the_opening_of_the_port(self, tmp_path: Path) -> None:
        with running(tmp_path, auth_backoff_max_ms=5000) as it:
            guess(it, FREE_FAILURES)
            assert seconds_until_ack(it, "127.0.0.2") < 0.2
            it.wait_for(lambda: it.state() == "listening")
            started = time.monotonic()
            guess(it, 1)
            assert time.monotonic() - started >= 0.25
