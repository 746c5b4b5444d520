"""TLS peers that are owed a REJECTED, and can only read it when their handshake is done.

The collector that was elected must not wait for that. So their handshakes go on beside the conversation, a few steps
at a time, now and then, for a short while; whoever is not done by then is closed without a word.
"""

from __future__ import annotations

from collections import deque

from edgesocket.net.channel import Channel, TlsRefusedError
from edgesocket.net.departures import Departures
from edgesocket.protocol.replies import REJECTED

PATIENCE_S = 4.0
CAPACITY = 64
STEPS_A_SWEEP = 16
"""Handshakes that go on in one sweep: each may cost a signature, a millisecond or so."""

_ROOM_BYTES = 4096


class Farewells:
    """At most `CAPACITY` of them; the oldest is closed when another one comes. Not thread-safe."""

    def __init__(self, departures: Departures) -> None:
        self._departures = departures
        self._waiting: deque[tuple[Channel, float]] = deque()
        self._room = memoryview(bytearray(_ROOM_BYTES))

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, channel: Channel, now: float) -> None:
        """Take over a connection in the middle of its handshake."""
        if len(self._waiting) >= CAPACITY:
            self._waiting.popleft()[0].sock.close()
        self._waiting.append((channel, now + PATIENCE_S))

    def sweep(self, now: float) -> None:
        """Go on with some of the handshakes. Raises SilencedError when nothing may be sent any more."""
        for _ in range(min(len(self._waiting), STEPS_A_SWEEP)):
            channel, deadline = self._waiting.popleft()
            if now >= deadline or self._is_over(channel):
                channel.sock.close()
            elif channel.established:
                self._say(channel, now)
            else:
                self._waiting.append((channel, deadline))

    def close_all(self) -> None:
        """Close all of them now."""
        while self._waiting:
            self._waiting.popleft()[0].sock.close()

    def _is_over(self, channel: Channel) -> bool:
        """One step of the handshake; whether it came to nothing."""
        try:
            count = channel.receive_now(self._room)
        except BlockingIOError:
            return False
        except (OSError, TlsRefusedError):
            return True
        return not count

    def _say(self, channel: Channel, now: float) -> None:
        try:
            channel.send(REJECTED.encode())
            channel.say_end()
        except OSError:
            channel.sock.close()
        else:
            self._departures.add(channel.sock, now)
