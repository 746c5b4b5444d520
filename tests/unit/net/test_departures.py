"""The good end of a connection that got its last word: not a reset that takes the word back, and not for long."""

import socket
from collections.abc import Iterator

import pytest

from edgesocket.net.departures import CAPACITY, LINGER_S, Departures

Pair = tuple[socket.socket, socket.socket]


def tcp_pair() -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    return ours, theirs


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = tcp_pair()
    with ours, theirs:
        yield ours, theirs


def test_the_peer_sees_the_word_and_the_end_at_once(pair: Pair) -> None:
    ours, theirs = pair
    departures = Departures()
    ours.send(b"REJECTED\n")
    departures.add(ours, now=0.0)

    assert theirs.recv(100) == b"REJECTED\n"
    assert theirs.recv(100) == b""
    assert len(departures) == 1
    departures.close_all()


def test_what_the_peer_still_sends_is_thrown_away_and_resets_nothing(pair: Pair) -> None:
    ours, theirs = pair
    departures = Departures()
    ours.send(b"REJECTED\n")
    departures.add(ours, now=0.0)
    for _ in range(10):
        theirs.sendall(bytes(10_000))
        departures.sweep(now=0.1)

    theirs.shutdown(socket.SHUT_WR)

    assert theirs.recv(100) == b"REJECTED\n"
    assert theirs.recv(100) == b""
    departures.close_all()


def test_it_is_over_when_the_peer_has_hung_up(pair: Pair) -> None:
    ours, theirs = pair
    departures = Departures()
    departures.add(ours, now=0.0)
    theirs.close()
    while len(departures):
        departures.sweep(now=0.1)

    assert ours.fileno() == -1


def test_a_peer_that_has_hung_up_already_is_not_kept(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    assert ours.recv(1) == b""
    departures = Departures()
    departures.add(ours, now=0.0)

    assert len(departures) == 0
    assert ours.fileno() == -1


def test_a_peer_that_does_not_hang_up_is_kept_for_a_short_time_only(pair: Pair) -> None:
    ours, _ = pair
    departures = Departures()
    departures.add(ours, now=10.0)

    departures.sweep(now=10.0 + LINGER_S - 0.01)
    assert ours.fileno() >= 0
    departures.sweep(now=10.0 + LINGER_S)
    assert ours.fileno() == -1


def test_the_oldest_makes_room() -> None:
    departures = Departures()
    pairs = [tcp_pair() for _ in range(CAPACITY + 1)]
    for ours, _ in pairs:
        departures.add(ours, now=0.0)

    assert len(departures) == CAPACITY
    assert pairs[0][0].fileno() == -1
    assert pairs[1][0].fileno() >= 0
    departures.close_all()
    assert len(departures) == 0
    for _, theirs in pairs:
        theirs.close()
