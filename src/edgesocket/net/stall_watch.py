"""How long replies may be owed to a peer that does nothing, without sockets or clocks."""

from __future__ import annotations


class StallWatch:
    """Measures the time in which something is owed and nothing at all moves.

    A peer that takes a byte, or sends one, or is owed nothing, starts the time anew: one that is quiet, slow, or writes
    for hours before it reads is never stalled.
    """

    def __init__(self, timeout_s: float, now: float) -> None:
        self._timeout_s = timeout_s
        self._since = now
        self._progress: object = None

    def is_stalled(self, now: float, owed: bool, progress: object) -> bool:
        """Look once more.

        Args:
            now: seconds, of any steady clock.
            owed: whether bytes wait for the peer.
            progress: equal to the last look's if and only if no byte moved in between.
        """
        if not owed or progress != self._progress:
            self._since = now
            self._progress = progress
        return now - self._since >= self._timeout_s
