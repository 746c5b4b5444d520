"""Peers that are not the collector: a wrong token, a second collector, somebody who says nothing."""

from __future__ import annotations

from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.loop import Actor
from edgesocket.testing.simulator.network import Connection
from edgesocket.testing.simulator.source import TOKEN


class Stranger(Actor):
    """Connects once, says one thing, and leaves when the connection ends or after some time.

    Args:
        kind: 0 has the wrong token, 1 the right one, 2 says nothing.
    """

    connection: Connection | None = None

    def __init__(self, kind: int) -> None:
        super().__init__("stranger")
        self.actor = self
        self._kind = kind
        self._heard = b""

    def opened(self) -> None:
        """The network has made the connection."""
        assert self.connection is not None
        if self._kind < 2:
            token = TOKEN if self._kind else b"wrong"
            self.connection.up.send(b"__AUTH__:" + token + b"\n")

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._heard += data
        allowed = {0: (b"AUTH_FAILED\n", b"REJECTED\n"), 1: (b"ACK\n", b"REJECTED\n"), 2: (b"REJECTED\n",)}
        if not any(word.startswith(self._heard) for word in allowed[self._kind]):
            raise Violation("one-reply-a-request", f"a stranger of kind {self._kind} was told {self._heard!r}")

    def drained(self) -> None:
        """Nothing more is to be sent."""

    def lost(self) -> None:
        """The connection is gone."""
        self.alive = False

    def leave(self) -> None:
        """It hangs up."""
        if self.alive and self.connection is not None:
            self.alive = False
            self.connection.client_gone()
