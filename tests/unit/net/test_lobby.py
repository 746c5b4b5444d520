"""The lobby when the kernel has trouble: out of descriptors, connections that vanish, a broken listener."""

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from edgesocket.net.control import Control, SilencedError
from edgesocket.net.counters import Counters
from edgesocket.net.departures import Departures
from edgesocket.net.events import NetEvent, PeerDropped
from edgesocket.net.lobby import Lobby
from edgesocket.net.options import ListenOptions
from edgesocket.protocol.chunks import BufferPool
from edgesocket.protocol.session import ServerSession

AUTH = b"__AUTH__:t\n"


class TroubledListener:
    """A listener whose accept() fails as told before it works."""

    def __init__(self, errors: list[int]) -> None:
        self.errors = errors
        self.real = socket.create_server(("127.0.0.1", 0))
        self.real.setblocking(False)

    def fileno(self) -> int:
        return self.real.fileno()

    def accept(self) -> "tuple[socket.socket, tuple[str, int]]":
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        return self.real.accept()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.real.getsockname())


class Stage:
    """A lobby with everything around it."""

    def __init__(self) -> None:
        self.owner = True
        self.control = Control(lambda: self.owner)
        self.events: list[NetEvent] = []
        self.counters = Counters()
        self.departures = Departures()
        self.rounds = 0
        self.lobby = Lobby(
            ListenOptions(port=1, accept_timeout_ms=10),
            lambda: ServerSession(lambda token: token == b"t", BufferPool()),
            self.control,
            self.departures,
            self.counters,
            self.events.append,
        )

    def elect(self, listener: TroubledListener, rounds: int = 1000) -> str:
        """Returns the elected peer's name, or "" when there was none after some rounds."""

        def count_round(_: float) -> None:
            self.rounds += 1
            if self.rounds == rounds:
                self.control.stop(0)

        peer = self.lobby.elect(listener, count_round)  # type: ignore[arg-type]
        if peer is None:
            return ""
        peer.sock.close()
        return peer.name


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.lobby.close_all()
    stage.departures.close_all()
    stage.control.wake.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.ECONNABORTED, errno.EPROTO, errno.EHOSTUNREACH])
def test_a_connection_that_cannot_be_accepted_now_is_accepted_later(stage: Stage, number: int) -> None:
    listener = TroubledListener([number, number])
    with listener.real, listener.connect() as collector:
        collector.sendall(AUTH)

        assert stage.elect(listener) == "{}:{}".format(*collector.getsockname())


def test_without_descriptors_the_longest_waiting_peer_makes_room(stage: Stage) -> None:
    listener = TroubledListener([])
    with listener.real, listener.connect() as silent:
        assert stage.elect(listener, rounds=20) == ""
        assert len(stage.lobby) == 1
        stage.control.stopping = False
        listener.errors.append(errno.EMFILE)
        with listener.connect() as collector:
            collector.sendall(AUTH)
            assert stage.lobby._welcome(listener) is None  # type: ignore[arg-type]

        assert silent.recv(1) == b""
        assert [type(event) for event in stage.events] == [PeerDropped]


def test_a_broken_listener_is_an_error(stage: Stage) -> None:
    listener = TroubledListener([errno.EINVAL])
    with listener.real, listener.connect(), pytest.raises(OSError, match="Invalid argument"):
        stage.elect(listener)


def test_a_source_that_may_not_answer_does_not_refuse_either(stage: Stage) -> None:
    listener = TroubledListener([])
    stage.owner = False
    with listener.real, listener.connect() as wrong:
        wrong.sendall(b"__AUTH__:wrong\n")
        with pytest.raises(SilencedError):
            stage.elect(listener)

        stage.lobby.close_all()
        assert wrong.recv(100) == b""


def test_rejecting_a_peer_that_is_gone_is_no_error(stage: Stage) -> None:
    listener = TroubledListener([])
    with listener.real:
        listener.connect().close()
        with listener.connect() as there:
            stage.lobby.reject_all(listener)  # type: ignore[arg-type]

            assert there.recv(100) == b"REJECTED\n"
            assert stage.counters.peers_rejected == 2
