"""Connections that deliver late, in pieces, a part, or nothing at all.

A connection has two pipes. What is sent is cut into pieces that arrive in order. A connection that is cut delivers
some prefix of what is on its way, at any byte, and each end learns of it by itself; one that is half open delivers
nothing more, and each end believes in it until its keepalive says otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from edgesocket.testing.simulator.loop import Actor, Loop
from edgesocket.testing.simulator.settings import Settings


class End(Protocol):
    """Who sits at one end of a connection."""

    @property
    def actor(self) -> Actor:
        """Whose events these are."""

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""

    def lost(self) -> None:
        """The connection is gone; comes once, and nothing after it."""

    def drained(self) -> None:
        """There may be room to send again."""


class Pipe:
    """One direction.

    Attributes:
        blocked: the reader does not read.
        on_the_way: bytes that were sent and not read.
    """

    def __init__(self, loop: Loop, settings: Settings, reader: End, writer: End) -> None:
        self.blocked = False
        self.on_the_way = 0
        self._loop = loop
        self._settings = settings
        self._reader = reader
        self._writer = writer
        self._pieces: deque[bytes] = deque()
        self._unread: deque[bytes] = deque()
        self._last_arrival = 0.0
        self._swallows = False

    @property
    def room(self) -> int:
        """How many bytes may be sent now."""
        return max(0, self._settings.send_room - self.on_the_way)

    @property
    def last_arrival(self) -> float:
        """When everything sent so far has arrived."""
        return self._last_arrival

    def send(self, data: bytes) -> None:
        """Bytes leave; the caller has asked for room."""
        self.on_the_way += len(data)
        if self._swallows:
            return
        random = self._loop.random
        while data:
            size = len(data) if self._settings.pieces == 1 else random.randint(1, len(data))
            if random.random() < 1 / self._settings.pieces:
                size = len(data)
            self._pieces.append(data[:size])
            data = data[size:]
            latency_s = random.random() * self._settings.latency_ms / 1000
            self._last_arrival = max(self._last_arrival, self._loop.now + latency_s)
            self._loop.at(self._last_arrival, self._arrive, self._reader.actor)

    def _arrive(self) -> None:
        if not self._pieces:
            return
        piece = self._pieces.popleft()
        if self._pieces and self._settings.merge and self._loop.random.random() < self._settings.merge:
            self._pieces[0] = piece + self._pieces[0]  # read together with the next
            return
        if self.blocked or self._unread:
            self._unread.append(piece)
        else:
            self._read(piece)

    def _read(self, piece: bytes) -> None:
        was_full = self.on_the_way >= self._settings.send_room
        self.on_the_way -= len(piece)
        self._reader.received(piece)
        if was_full:
            self._loop.after(0.0, self._writer.drained, self._writer.actor)

    def unblock(self) -> None:
        """The reader reads again."""
        self.blocked = False
        while self._unread and not self.blocked:
            self._read(self._unread.popleft())

    def swallow(self) -> None:
        """From now on nothing arrives."""
        self._swallows = True
        self._pieces.clear()

    def cut(self) -> None:
        """Keep some prefix of what is on its way, and nothing of what is sent from now on."""
        everything = b"".join(self._pieces)
        left = self._loop.random.randint(0, len(everything))
        kept: deque[bytes] = deque()
        for piece in self._pieces:
            if left > 0:
                kept.append(piece[:left])
            left -= len(piece)
        self._pieces = kept
        self._swallows = True


class Connection:
    """One TCP connection between a collector and a process of the ingress."""

    def __init__(self, loop: Loop, settings: Settings, client: End, server: End) -> None:
        self.up = Pipe(loop, settings, server, client)
        self.down = Pipe(loop, settings, client, server)
        self._loop = loop
        self._settings = settings
        self._ends = {"client": client, "server": server}
        self._ending: set[str] = set()

    def cut(self) -> None:
        """The network breaks it; both ends learn of it soon, each at its own time."""
        self.up.cut()
        self.down.cut()
        for side in ("client", "server"):
            self._lose(side, self._soon())

    def half_open(self) -> None:
        """Nothing arrives any more, and nobody says so."""
        self.up.swallow()
        self.down.swallow()
        for side in ("client", "server"):
            self._lose(side, self._loop.random.random() * self._settings.keepalive_ms / 1000)

    def client_gone(self) -> None:
        """The collector's process has ended: its kernel says so."""
        self._ending.add("client")
        self.up.cut()
        self.down.swallow()
        self._lose("server", self._soon())

    def server_gone(self, *, power: bool = False) -> None:
        """The ingress's process has ended; without power, nobody says so."""
        self._ending.add("server")
        self.up.swallow()
        if power:
            self.down.swallow()
            self._lose("client", self._loop.random.random() * self._settings.keepalive_ms / 1000)
        else:
            self.down.cut()
            self._lose("client", self._soon())

    def server_closes(self) -> None:
        """The ingress closes after everything it has sent has arrived."""
        self._ending.add("server")
        self.up.swallow()
        self._lose("client", self.down.last_arrival - self._loop.now + 0.001)

    def _soon(self) -> float:
        return self._loop.random.random() * 2 * self._settings.latency_ms / 1000

    def _lose(self, side: str, delay_s: float) -> None:
        end = self._ends[side]

        def lost() -> None:
            if side not in self._ending:
                self._ending.add(side)
                end.lost()

        self._loop.after(delay_s, lost, end.actor)
