"""How much a collector takes on and has on its way, and what it counts.

The number of batches on their way shrinks to half when a queue turns out to be full, and grows by one a window received
after that, like a sender on a congested line: refused batches are sent again one by one, and a full window of them
would be slow to work off where a round trip is long.

Pure: no socket, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """How much a collector takes on.

    Attributes:
        batches: batches not yet received: on their way, or waiting in memory.
        payload_bytes: payload bytes on their way, and as many again may wait in memory. One larger batch goes alone.
        retain_bytes: everything kept in memory, received but unconfirmed batches included. Without meaning where the
            batches come from a source of the caller's.
    """

    batches: int = 256
    payload_bytes: int = 4 * 1024 * 1024
    retain_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True)
class WindowCounts:
    """Totals since the start. Each batch counts once in every field but `resent`.

    Attributes:
        offered: taken on; stays 0 where the batches come from a source of the caller's.
        sent: went out at least once.
        received: were answered RECEIVED at least once.
        confirmed: evicted by an ACK.
        refused: refused for good.
        resent: how often a batch went out again, or went out after an earlier process may have sent it.
    """

    offered: int = 0
    sent: int = 0
    received: int = 0
    confirmed: int = 0
    refused: int = 0
    resent: int = 0


class Congestion:
    """How many batches may be on their way: 1 to the limit."""

    __slots__ = ("_allowed", "_most")

    def __init__(self, most: int) -> None:
        """Args: the limit, which is also the beginning."""
        self._most = float(most)
        self._allowed = float(most)

    @property
    def allowed(self) -> int:
        """Batches that may be on their way now."""
        return int(self._allowed)

    def queue_full(self) -> None:
        """A queue turned out to be full."""
        self._allowed = max(1.0, self._allowed / 2)

    def received(self, batches: int) -> None:
        """So many were received, and none is refused now."""
        if self._allowed < self._most:
            self._allowed = min(self._most, self._allowed + batches / self._allowed)
