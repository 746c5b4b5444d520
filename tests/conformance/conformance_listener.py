"""Plays transcripts on the real listener: source, sockets and engine in this process, stepped by the transcript.

Lines go over loopback; the pump, the checkpoints and the crashes are the real ones, one call each.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance_core import row_of, take_the_room
from conformance_transcript import TOKEN, Act, Event, Expect, Send, rows_of

from edgesocket.checkpoint.effects import PrepareSinks
from edgesocket.components.sink import Sink
from edgesocket.sources import edge_socket
from edgesocket.testing.sinks import GateSink, ListSink, ListStorage
from tests.support.rig import Rig
from tests.support.tls import TlsSocket

PATIENCE_S = 10.0


class ListeningRig(Rig):
    """A rig whose source has its port open. `gate` stands before the sink of the running incarnation."""

    gate: GateSink

    def __init__(self, directory: Path, **options: Any) -> None:
        defaults = {"port": 0, "token": TOKEN, "accept_timeout_ms": 50}
        super().__init__(directory, ListStorage(), self._make_gate, {**defaults, **options})

    def _make_gate(self, storage: ListStorage) -> Sink:
        self.gate = GateSink(ListSink(storage, with_ids=True))
        return self.gate

    def start(self) -> ListeningRig:
        super().start()
        self.source.start()
        return self

    def crash(self, *, boot: str = "") -> None:
        """As if the process died: nothing is sent, written or synced any more."""
        assert self.incarnation is not None
        self.incarnation._stop_keeper()
        self.source.close(clean=False)
        super().crash(boot=boot)

    def __enter__(self) -> ListeningRig:
        return self if self.incarnation is not None else self.start()

    def __exit__(self, *_: object) -> None:
        if self.incarnation is not None:
            self.crash()

    @property
    def port(self) -> int:
        server = self.source._server
        assert server is not None
        return server.port

    def listener(self) -> dict[str, Any]:
        """What the listener says of itself."""
        described: dict[str, Any] = self.source.status()["listener"]
        return described

    def wait_until_listening(self) -> None:
        """Return when the port is open for the next collector."""
        wait_for(lambda: self.listener()["state"] == "listening")

    def collector(self) -> Peer:
        """An authenticated collector."""
        peer = Peer(self.port)
        assert peer.ask(f"__AUTH__:{TOKEN}") == "ACK"
        return peer

    def take(self, count: int = 1 << 40) -> int:
        """Hand at most `count` records to the sink. Returns how many there were."""
        usual, edge_socket.POLL_RECORDS = edge_socket.POLL_RECORDS, count
        try:
            return self.pump()
        finally:
            edge_socket.POLL_RECORDS = usual

    def rows(self) -> list[bytes]:
        """The rows that a completed checkpoint has published."""
        return [row_of(batch_id, payload) for batch_id, payload in self.storage.pairs]


class Peer:
    """One TCP connection to a source."""

    def __init__(self, port: int, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        """Connect; with `tls` shake hands when something is first sent or received."""
        self.sock: Any = socket.create_connection((address, port), timeout=PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._tls = tls
        self._read = b""

    def _shake_hands(self) -> None:
        if self._tls is not None:
            context, self._tls = self._tls, None
            self.sock = TlsSocket(self.sock, context)

    def send(self, data: bytes) -> None:
        self._shake_hands()
        self.sock.sendall(data)

    def line(self) -> str:
        """The next reply; "" at the end of the connection."""
        self._shake_hands()
        while b"\n" not in self._read:
            data = self.sock.recv(65536)
            if not data:
                assert not self._read, f"half a reply: {self._read!r}"
                return ""
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def lines(self, count: int) -> list[str]:
        return [self.line() for _ in range(count)]

    def ask(self, *requests: str | bytes) -> str:
        """Send lines in one write; returns the replies, joined by blanks."""
        self.send(b"".join((r.encode() if isinstance(r, str) else r) + b"\n" for r in requests))
        return " ".join(self.lines(len(requests)))

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        pieces, self._read = [self._read], b""
        try:
            self._shake_hands()
            while data := self.sock.recv(65536):
                pieces.append(data)
        except ConnectionResetError:
            pass
        return b"".join(pieces)

    def half_close(self) -> None:
        """Send no more; no error where the connection has ended already."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with RST; what was not read is lost."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Hold:
    """Holds the receiver thread where it compares a token."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def in_front_of(self, accepts_token: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        def compare(token: bytes) -> bool:
            self.reached.set()
            assert self.released.wait(PATIENCE_S)
            return accepts_token(token)

        return compare


class ListenerPlayer:
    """Plays on one rig that has been started; with `tls`, which its source then has to speak, over that."""

    def __init__(self, rig: ListeningRig, tls: ssl.SSLContext | None = None) -> None:
        self._rig = rig
        self._tls = tls
        self._peers: dict[int, Peer] = {}
        self._hold: Hold | None = None
        self._procedure: Any = None
        self._effect: Any = None
        self._jobs = 1

    def play(self, events: list[Event]) -> None:
        """Perform every event; after the last one nothing more may come."""
        try:
            for event in events:
                match event:
                    case Send(who, data):
                        self._peer(who).send(data)
                    case Expect(who, replies):
                        assert self._peer(who).lines(len(replies)) == list(replies)
                    case Act(words):
                        self._act(words)
            for peer in self._peers.values():
                peer.half_close()
                assert peer.rest() == b"", "a reply nobody expects"
        finally:
            for peer in self._peers.values():
                peer.close()

    def _peer(self, who: int) -> Peer:
        if who not in self._peers:
            self._peers[who] = Peer(self._rig.port, tls=self._tls)
        return self._peers[who]

    def _act(self, words: str) -> None:
        word, _, rest = words.partition(" ")
        if word == "rows":
            assert self._rig.rows() == rows_of(words)
        elif word == "take":
            moved = self._rig.take(int(rest or 1 << 40))
            assert not rest or moved == int(rest)
        elif word == "pause":
            time.sleep(int(rest) / 1000)
        elif word not in ("client", "quiet"):
            self._actions[words]()

    @property
    def _actions(self) -> dict[str, Callable[[], object]]:
        return {
            "connect": lambda: self._peer(1),
            "checkpoint": self._checkpoint,
            "checkpoint begins": self._begin,
            "checkpoint completes": self._complete,
            "checkpoint fails": self._fail,
            "source closes": lambda: self._closed(1),
            "source closes 2": lambda: self._closed(2),
            "collector closes its writing side": lambda: self._peers[1].half_close(),
            "connection lost": self._lose,
            "kill -9": self._crash,
            "host lost": lambda: self._crash(boot=f"boot-{time.monotonic_ns()}"),
            "new job": self._new_job,
            "another producer takes the room": self._race,
            "another producer gives it back": lambda: self._end_race(),
            "the token of 1 is being compared": self._be_slow,
            "2 connects": self._second,
            "2 is refused": self._refused,
            "the comparison ends": lambda: self._hold and self._hold.released.set(),
        }

    # ---- connections ---------------------------------------------------------------------------------------------

    def _closed(self, who: int) -> None:
        peer = self._peers.pop(who)
        assert peer.rest() == b""
        peer.close()

    def _lose(self) -> None:
        self._peers.pop(1).close()
        self._rig.wait_until_listening()

    def _be_slow(self) -> None:
        self._hold = Hold()
        source = self._rig.source
        source.accepts_token = self._hold.in_front_of(source.accepts_token)  # type: ignore[method-assign]

    def _second(self) -> None:
        if self._hold is not None:
            assert self._hold.reached.wait(PATIENCE_S)
        self._peer(2)
        if self._hold is None:
            wait_for(lambda: self._rig.listener()["waiting_peers"])

    def _refused(self) -> None:
        try:
            Peer(self._rig.port).close()
        except ConnectionRefusedError:
            return
        raise AssertionError("the second collector was let in")

    # ---- the job -------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        assert self._rig.checkpoint().completed

    def _fail(self) -> None:
        self._rig.gate.hold(fail=True, calls=["prepare"])
        assert not self._rig.checkpoint().completed
        self._rig.gate.release()

    def _begin(self) -> None:
        """Step 1, up to where the sinks prepare."""
        incarnation = self._rig.incarnation
        assert incarnation is not None
        runner = incarnation._checkpoints
        assert runner is not None
        self._procedure = incarnation._make_checkpoint(runner._number, True)
        runner._number += 1
        self._effect = next(self._procedure)
        while not isinstance(self._effect, PrepareSinks):
            self._effect = self._procedure.send(self._rig._perform(self._effect))

    def _complete(self) -> None:
        try:
            while True:
                self._effect = self._procedure.send(self._rig._perform(self._effect))
        except StopIteration as end:
            assert end.value.completed

    def _crash(self, boot: str = "") -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
        self._rig.crash(boot=boot)
        self._rig.start()

    def _new_job(self) -> None:
        self._jobs += 1
        self._rig.directory = self._rig.directory.with_name(f"job-{self._jobs}")
        self._rig.storage = ListStorage()
        self._crash()

    def _race(self) -> None:
        self._end_race = take_the_room(self._rig.source._service)


def wait_for(what: Callable[[], object]) -> None:
    """Wait until `what()` is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)
