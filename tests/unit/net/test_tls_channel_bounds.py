"""What a peer inside TLS may cost that sends records without a byte for us in them, such as key updates."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest

from edgesocket.net import tls_channel
from edgesocket.net.channel import TlsRefusedError
from edgesocket.net.control import Control
from edgesocket.net.tls_channel import OWN_WORDS_BYTES, PULLS, STRANGER_BYTES, TlsChannel

NOTHING_FOR_US = b"\x16" * 4096


class PlayedTls:
    """OpenSSL that finds only records of its own in what comes, and answers each receive with `answer`."""

    def __init__(self) -> None:
        self.answer = b""

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, server_side: bool) -> PlayedTls:
        assert server_side
        self.incoming, self.outgoing = incoming, outgoing
        return self

    def do_handshake(self) -> None:
        pass

    def read(self, most: int, room: memoryview) -> int:
        if self.incoming.read():
            self.outgoing.write(self.answer)
        raise ssl.SSLWantReadError

    def write(self, data: bytes) -> int:
        return self.outgoing.write(data)

    def pending(self) -> int:
        return 0


class Stage:
    def __init__(self) -> None:
        self.control = Control(lambda: True)
        self.ours, self.peer = socket.socketpair()
        self.peer.setblocking(False)
        self.tls = PlayedTls()
        self.channel = TlsChannel(self.ours, self.control, self.tls)  # type: ignore[arg-type]
        self.room = memoryview(bytearray(4096))

    def flood(self) -> None:
        """Until the kernel takes no more."""
        try:
            while True:
                self.peer.send(NOTHING_FOR_US)
        except BlockingIOError:
            pass

    def is_unread(self) -> bool:
        try:
            return bool(self.ours.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.ours.close()
    stage.peer.close()
    stage.control.wake.close()


@pytest.mark.parametrize("how", ["receive_now", "receive"])
def test_one_call_receives_a_few_times_and_leaves_the_rest_for_later(
    stage: Stage, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_channel, "_READ_BYTES", 16 * 1024)
    stage.ours.settimeout(0.2 if how == "receive" else 0)
    stage.channel.send(b"ACK\n")  # it is known, so that nothing but the number of receives is a limit
    stage.flood()

    with pytest.raises(BlockingIOError):
        getattr(stage.channel, how)(stage.room)
    assert stage.is_unread()


def test_a_stranger_that_goes_on_is_refused_and_one_that_was_answered_is_not(stage: Stage) -> None:
    def come(times: int) -> None:
        for _ in range(times):
            stage.flood()
            with pytest.raises(BlockingIOError):
                stage.channel.receive_now(stage.room)

    rounds = STRANGER_BYTES // (PULLS * tls_channel._LOBBY_READ_BYTES)
    come(rounds)
    with pytest.raises(TlsRefusedError, match="too much before its first line"):
        come(2)
    stage.channel.send(b"ACK\n")
    come(3 * rounds)


def test_a_stranger_that_goes_too_far_behind_its_first_line_counts_as_gone(stage: Stage) -> None:
    stage.channel._from_stranger = STRANGER_BYTES + 1

    assert stage.channel.is_spent()


@pytest.mark.parametrize("known", [False, True])
def test_one_that_makes_tls_answer_and_never_reads_is_gone_before_the_answers_fill_memory(
    stage: Stage, known: bool
) -> None:
    stage.channel._known = known
    stage.tls.answer = bytes(16 * 1024)

    with pytest.raises(ConnectionResetError, match="does not read"):
        for _ in range(100):
            stage.flood()
            try:
                stage.channel.receive_now(stage.room)
            except BlockingIOError:
                stage.channel._from_stranger = 0
    unsent = len(stage.channel._unsent) + stage.tls.outgoing.pending
    assert OWN_WORDS_BYTES < unsent < 2 * OWN_WORDS_BYTES


def test_replies_that_wait_for_room_are_no_words_of_tls_itself(stage: Stage) -> None:
    replies = bytes(tls_channel._SEND_BYTES)
    with pytest.raises(BlockingIOError):
        for _ in range(100):
            stage.channel.send(replies)
    assert len(stage.channel._unsent) + stage.tls.outgoing.pending > 0
    stage.flood()

    with pytest.raises(BlockingIOError):
        stage.channel.receive_now(stage.room)
