"""A link between the agent and the ingress that can be cut, go dead or be slow, and that reads along.

What passes tells what was promised, with nothing of the product asked: `__BATCH__:id:line` says which line an id is,
and `ACK:n` that the agent may forget all ids up to n.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Self

from chaos.counting import Tape, number_of

_PIECE_BYTES = 1 << 16
_TICK_S = 0.02
_MOST_WAITING = 1 << 20
_RESET = struct.pack("ii", 1, 0)


class Promises:
    """What the agent was told is safe. May be asked by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[int, int] = {}
        self._confirmed = Tape()
        self.acked = 0

    def batch(self, id_: int, number: int) -> None:
        """The agent offers this line under this id."""
        with self._lock:
            if not self._confirmed.has(number):
                self._lines[id_] = number

    def ack(self, watermark: int) -> None:
        """The ingress says that all ids up to this one are safe."""
        with self._lock:
            self.acked = max(self.acked, watermark)
            for id_ in [id_ for id_ in self._lines if id_ <= watermark]:
                number = self._lines.pop(id_)
                if not self._confirmed.has(number):
                    self._confirmed.count(number)

    def confirmed(self) -> list[int]:
        """Numbers of the lines that are promised to be safe."""
        with self._lock:
            return self._confirmed.numbers()

    @property
    def count(self) -> int:
        """How many those are."""
        return self._confirmed.found


class _Way:
    """One direction of a connection: bytes wait here until they are due."""

    def __init__(self, source: socket.socket, target: socket.socket, *, from_agent: bool) -> None:
        self.source, self.target, self.from_agent = source, target, from_agent
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.ended = False
        self.rest = b""


class Link:
    """Listens on a free port and passes on to `target`.

    Args:
        target: host and port of the ingress.
        dice: where a cut falls and how slow a slow link is.
        reads_along: whether what passes is the line protocol.
    """

    def __init__(self, target: tuple[str, int], dice: random.Random, *, reads_along: bool = True) -> None:
        self.promises = Promises()
        self.cuts = 0
        self._target, self._dice, self._reads_along = target, dice, reads_along
        self._lock = threading.Lock()
        self._ways: list[_Way] = []
        self._dead = False
        self._slow: tuple[float, int] | None = None
        self._ending = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="link")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(10)
        self._close_all()
        self._listener.close()

    def cut(self) -> None:
        """Break all connections, each at any byte of what is on its way."""
        with self._lock:
            for way in self._ways:
                piece = b"".join(data for _, data in way.waiting)
                with contextlib.suppress(OSError):
                    way.target.send(piece[: self._dice.randrange(len(piece) + 1)])
            self.cuts += self._close_all() // 2

    def die(self) -> None:
        """Take bytes and connections from now on, and pass nothing on: a half-open link."""
        self._dead = True

    def revive(self) -> None:
        """Undo `die`: what was swallowed is lost, so its connections break."""
        with self._lock:
            self._dead = False
            self.cuts += self._close_all() // 2

    def lead_to(self, target: tuple[str, int]) -> None:
        """Break all connections; new ones lead there."""
        self._target = target
        self.cut()

    def slow(self, delay_s: float, bytes_a_second: int) -> None:
        """From now on each piece takes so long, and no more goes through in a second."""
        self._slow = (delay_s, bytes_a_second)

    def fast(self) -> None:
        """Undo `slow`."""
        self._slow = None

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            with self._lock:
                reading = [way.source for way in self._ways if not way.ended and way.size < _MOST_WAITING]
            with contextlib.suppress(OSError, ValueError):  # one of them was cut meanwhile
                ready = set(select.select([self._listener, *reading], [], [], _TICK_S)[0])
                with self._lock:
                    self._round(ready)

    def _round(self, ready: set[socket.socket]) -> None:
        if self._listener in ready:
            self._accept()
        for way in list(self._ways):
            if way.source in ready and way in self._ways:
                self._take(way)
        for way in list(self._ways):
            if way in self._ways and not self._give(way):
                self._drop(way)

    def _accept(self) -> None:
        agent = self._listener.accept()[0]
        try:
            ingress = socket.create_connection(self._target, timeout=2)
        except OSError:
            _reset(agent)
            return
        for one in (agent, ingress):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ways += [_Way(agent, ingress, from_agent=True), _Way(ingress, agent, from_agent=False)]

    def _take(self, way: _Way) -> None:
        try:
            data = way.source.recv(_PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if self._dead:
            way.ended |= not data
            return
        if not data:
            way.ended = True
            return
        if self._reads_along:
            self._read_along(way, data)
        due = time.monotonic() + (self._slow[0] * self._dice.random() * 2 if self._slow else 0.0)
        way.waiting.append((due, data))
        way.size += len(data)

    def _give(self, way: _Way) -> bool:
        """Pass on what is due; False when the connection has ended."""
        most = int(self._slow[1] * _TICK_S) + 1 if self._slow else _MOST_WAITING
        while way.waiting and most > 0 and not self._dead:
            due, data = way.waiting[0]
            if self._slow is not None and due > time.monotonic():
                break
            try:
                sent = way.target.send(data[:most])
            except BlockingIOError:
                break
            except OSError:
                return False
            most -= sent
            way.size -= sent
            if sent < len(data):
                way.waiting[0] = (due, data[sent:])
            else:
                way.waiting.popleft()
        return not way.ended or bool(way.waiting) or self._dead

    def _drop(self, way: _Way) -> None:
        for one in [one for one in self._ways if one.source in (way.source, way.target)]:
            self._ways.remove(one)
            one.source.close()

    def _close_all(self) -> int:
        closed = len(self._ways)
        for way in self._ways:
            _reset(way.source)
        self._ways.clear()
        return closed

    def _read_along(self, way: _Way, data: bytes) -> None:
        lines = (way.rest + data).split(b"\n")
        way.rest = lines.pop()
        for line in lines:
            if way.from_agent and line.startswith(b"__BATCH__:"):
                _, id_, payload = line.split(b":", 2)
                with contextlib.suppress(ValueError):
                    self.promises.batch(int(id_), number_of(payload))
            elif not way.from_agent and line.startswith(b"ACK:"):
                self.promises.ack(int(line[4:]))


def _reset(one: socket.socket) -> None:
    """Close with RST: the other end must not take it for an orderly end."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    one.close()
