"""What is asked of the kernel, and what is asked of it about a connection."""

import socket
import sys
import time
from collections.abc import Iterator

import pytest
from test_departures import Pair, tcp_pair

from edgesocket.net import socket_options
from edgesocket.net.options import ListenOptions

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = tcp_pair()
    with ours, theirs:
        yield ours, theirs


def test_a_receive_ends_after_a_tick_without_bytes(pair: Pair) -> None:
    ours, _ = pair
    socket_options.tune(ours, ListenOptions(port=1, accept_timeout_ms=30))
    start = time.monotonic()

    with pytest.raises(BlockingIOError):
        ours.recv(1)

    assert 0.02 < time.monotonic() - start < 1


def test_a_tick_is_short_enough_for_every_limit_and_never_zero() -> None:
    assert ListenOptions(port=1).tick_ms == 1000
    assert ListenOptions(port=1, accept_timeout_ms=50).tick_ms == 50
    assert ListenOptions(port=1, accept_timeout_ms=60_000).tick_ms == 1000
    assert ListenOptions(port=1, reply_stall_timeout_ms=400).tick_ms == 100
    assert ListenOptions(port=1, user_timeout_ms=800).tick_ms == 100
    assert ListenOptions(port=1, user_timeout_ms=0).tick_ms == 1000
    assert ListenOptions(port=1, accept_timeout_ms=1).tick_ms == 10


@linux_only
def test_the_buffers_are_left_to_the_kernel(pair: Pair) -> None:
    ours, _ = pair
    before = [ours.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
    socket_options.tune(ours, ListenOptions(port=1))

    assert [ours.getsockopt(socket.SOL_SOCKET, o) for o in (socket.SO_RCVBUF, socket.SO_SNDBUF)] == before


@linux_only
def test_bytes_that_a_closed_window_keeps_back_are_unsent_not_unacknowledged(pair: Pair) -> None:
    ours, theirs = pair
    assert socket_options.outgoing(ours) == (0, 0)
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(bytes(100_000))
    deadline = time.monotonic() + 10
    while socket_options.outgoing(ours)[1]:
        assert time.monotonic() < deadline

    unsent, unacknowledged = socket_options.outgoing(ours)

    assert unsent > 0
    assert unacknowledged == 0
    assert theirs.recv(10)


def test_a_fin_is_seen_behind_unread_bytes_and_is_no_reset(pair: Pair) -> None:
    ours, theirs = pair
    assert not socket_options.has_hung_up(ours)
    theirs.send(b"x")
    theirs.shutdown(socket.SHUT_WR)

    assert socket_options.unread(ours) == b"x"
    assert socket_options.has_hung_up(ours) or sys.platform != "linux"
    assert not socket_options.has_reset(ours)
    assert ours.recv(10) == b"x"
    assert socket_options.unread(ours) == b""


def test_a_reset_is_seen_and_nothing_can_be_read(pair: Pair) -> None:
    ours, theirs = pair
    assert socket_options.unread(ours) is None
    socket_options.reset_on_close(theirs)
    theirs.close()

    assert socket_options.has_reset(ours)
    assert socket_options.unread(ours) == b""


def test_a_platform_without_the_options_is_asked_for_none(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name, raising=False)
    monkeypatch.setattr(socket_options, "_LINUX", False)
    monkeypatch.setattr(socket_options, "_HUNG_UP", 0)
    ours, theirs = pair

    socket_options.tune(ours, ListenOptions(port=1))

    assert socket_options.outgoing(ours) == (0, 0)
    assert not socket_options.has_hung_up(ours)
    theirs.close()
    assert socket_options.has_hung_up(ours)
