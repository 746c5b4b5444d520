"""A server on loopback with a source that only counts, and a collector made of one socket."""

from __future__ import annotations

import gc
import hmac
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from edgesocket.net.events import NetEvent
from edgesocket.net.options import ListenOptions, TlsOptions
from edgesocket.net.server import IngressServer
from edgesocket.protocol.commands import Batch, Commit, Invalid
from edgesocket.protocol.replies import PENDING, RECEIVED
from edgesocket.records import RecordBlock
from tests.support.tls import TlsSocket

TOKEN = b"my-edge-token"
AUTH = b"__AUTH__:" + TOKEN + b"\n"
PATIENCE_S = 10.0


class CountingSource:
    """A conversation handler that answers RECEIVED to each record and PENDING to each poll."""

    def __init__(self, keep: bool = True) -> None:
        self.records = 0
        self.kept: list[tuple[int, bytes]] = []
        self.sessions: list[str] = []
        self.endings: list[str] = []
        self.keep = keep
        self.owner = True
        self.before_token: Callable[[bytes], None] = lambda token: None
        self.before_handle: Callable[[list[Any]], None] = lambda events: None

    def accepts_token(self, token: bytes) -> bool:
        self.before_token(token)
        return hmac.compare_digest(token, TOKEN)

    def session_started(self, peer: str) -> None:
        self.sessions.append(peer)

    def session_ended(self, reason: str) -> None:
        self.endings.append(str(reason))

    def may_send(self) -> bool:
        return self.owner

    def handle(self, events: list[Any], replies: Any) -> None:
        self.before_handle(events)
        for event in events:
            if isinstance(event, RecordBlock):
                self.records += event.count
                if self.keep:
                    self.kept += [(event.id_at(i), event.payload(i)) for i in range(event.count)]
                replies.add(RECEIVED, event.count)
            elif isinstance(event, Batch):
                self.records += 1
                if self.keep:
                    self.kept.append((event.batch_id, event.payload))
                replies.add(RECEIVED)
            elif isinstance(event, Commit):
                replies.add(PENDING)
            else:
                assert isinstance(event, Invalid)
                replies.add(event.reply)


class Gate:
    """Holds the receiver thread at one place until the test opens it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, *_: object) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)

    def wait_until_reached(self) -> None:
        assert self.reached.wait(PATIENCE_S)

    def open(self) -> None:
        self.opened.set()


class Running:
    """A started server with its source and everything it has told."""

    def __init__(self, directory: Path, source: CountingSource | None = None, **options: Any) -> None:
        self.source = source or CountingSource()
        if Collector.over_tls is not None and "tls" not in options:
            options["tls"] = Collector.over_tls.server
        self.events: list[NetEvent] = []
        options = {"port": 0, "job": "test", "accept_timeout_ms": 100, **options}
        self.server = IngressServer(
            ListenOptions(lock_directory=str(directory), **options), self.source, self.events.append
        )

    @property
    def port(self) -> int:
        return self.server.port

    def state(self) -> str:
        return str(self.server.describe()["state"])

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def collector(self, auth: bool = True) -> Collector:
        collector = Collector(self.port)
        if auth:
            collector.send(AUTH)
            assert collector.line() == "ACK"
        return collector

    def wait_for(self, what: Callable[[], object]) -> None:
        wait_for(what)


@contextmanager
def running(directory: Path, source: CountingSource | None = None, **options: Any) -> Iterator[Running]:
    """A server that is started, and ended whatever the test did."""
    it = Running(directory, source, **options)
    it.server.start()
    try:
        yield it
    finally:
        print(it.server.describe())  # shown when the test fails
        it.server.abort()
        assert it.server.join(PATIENCE_S), "the receiver did not end"


@dataclass(frozen=True)
class OverTls:
    """What a server and its collectors need to do all of a test over TLS."""

    server: TlsOptions
    client: ssl.SSLContext


class Collector:
    """One TCP connection. `line` and `rest` read; nothing is answered by itself.

    Attributes:
        over_tls: set for a whole test, so that whatever it does is done over TLS. The handshake is done when a
            collector first sends or receives: one that stays silent is silent all the time.
    """

    over_tls: ClassVar[OverTls | None] = None

    def __init__(self, port: int, source_address: str = "127.0.0.1", receive_buffer: int = 0) -> None:
        self._tls: ssl.SSLContext | None = None if self.over_tls is None else self.over_tls.client
        self.sock: Any = socket.socket()
        self.sock.settimeout(PATIENCE_S)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self.sock.bind((source_address, 0))
            self.sock.connect(("127.0.0.1", port))
        except OSError:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def shake_hands(self) -> None:
        """Put TLS around it, where the test is over TLS and there is none yet."""
        if self._tls is not None:
            context, self._tls = self._tls, None
            self.sock = TlsSocket(self.sock, context)

    def send(self, data: bytes) -> None:
        self.shake_hands()
        self.sock.sendall(data)

    def line(self) -> str:
        """The next reply without its line end; "" at the end of the stream."""
        self.shake_hands()
        while b"\n" not in self._read:
            data = self.sock.recv(65536)
            if not data:
                assert not self._read, f"half a reply: {self._read!r}"
                return ""
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def rest(self) -> bytes:
        """Everything up to the end of the stream; a reset counts as an end."""
        pieces, self._read = [self._read], b""
        try:
            self.shake_hands()
            while data := self.sock.recv(1 << 20):
                pieces.append(data)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            pass
        return b"".join(pieces)

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        self.sock.close()


def wait_for(what: Callable[[], object]) -> None:
    """Wait until `what()` is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def descriptors() -> int:
    """Open descriptors of this process."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def refused(port: int) -> bool:
    """Whether the kernel refuses a connection to the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False
