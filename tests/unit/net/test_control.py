"""What may still be sent after an abort or a fence: nothing; and how a stop reaches a blocked receiver."""

import socket
import threading
from collections.abc import Iterator

import pytest

from edgesocket.net.control import Control, SilencedError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def control() -> Iterator[Control]:
    control = Control(lambda: True)
    yield control
    control.wake.close()


def test_sends_go_through_until_an_abort(control: Control, pair: Pair) -> None:
    ours, theirs = pair
    assert control.send(ours, b"one") == 3
    control.abort()

    with pytest.raises(SilencedError):
        control.send(ours, b"two")

    ours.close()
    assert theirs.recv(100) == b"one"
    assert theirs.recv(100) == b""
    assert control.stopping
    assert not control.fenced


def test_a_source_that_may_not_answer_silences_itself_for_ever(pair: Pair) -> None:
    ours, _ = pair
    answers = iter([True, False, True])
    control = Control(lambda: next(answers))
    control.send(ours, b"one")

    for _ in range(2):
        with pytest.raises(SilencedError):
            control.send(ours, b"two")

    assert control.fenced
    assert control.wake.is_set
    control.wake.close()


def test_being_silenced_is_noticed_without_a_send(control: Control) -> None:
    control.check_may_send()
    control.abort()

    with pytest.raises(SilencedError):
        control.check_may_send()


def test_a_send_that_would_wait_does_not(control: Control, pair: Pair) -> None:
    ours, _ = pair
    with pytest.raises(BlockingIOError):
        while True:
            control.send(ours, bytes(1 << 20))


@pytest.mark.parametrize("how", ["stop", "abort"])
def test_a_receiver_blocked_in_recv_is_woken(control: Control, pair: Pair, how: str) -> None:
    ours, _ = pair
    control.attach(ours)
    received: list[bytes] = []
    receiver = threading.Thread(target=lambda: received.append(ours.recv(100)))
    receiver.start()

    control.stop(5) if how == "stop" else control.abort()

    receiver.join(10)
    assert received == [b""]


def test_a_connection_attached_after_the_stop_does_not_block_either(control: Control, pair: Pair) -> None:
    ours, _ = pair
    control.stop(5)
    control.attach(ours)

    assert ours.recv(100) == b""


def test_a_stop_leaves_room_for_the_replies_that_are_owed(control: Control, pair: Pair) -> None:
    ours, theirs = pair
    control.attach(ours)
    control.stop(5)

    assert control.send(ours, b"owed") == 4
    assert theirs.recv(100) == b"owed"


def test_the_deadline_is_the_first_stops_and_an_abort_leaves_no_time(control: Control) -> None:
    control.stop(100)
    deadline = control.stop_deadline
    control.stop(1000)
    assert control.stop_deadline == deadline

    control.abort()

    assert control.stop_deadline == 0


def test_nothing_is_attached_after_closing(control: Control, pair: Pair) -> None:
    ours, _ = pair
    control.attach(ours)
    control.detach_and_close(reset=False)
    control.detach_and_close(reset=True)

    assert ours.fileno() == -1
    control.stop(5)
    control.abort()
