"""Whether a client still gets anywhere. Pure: time is an argument."""

from __future__ import annotations

import math

from edgesocket.collector.window import WindowCounts


class ProgressWatch:
    """Notes when something last moved.

    Progress is a batch that is received, confirmed or refused for good, and a batch that goes out for the first time:
    on a slow line one large batch may take minutes. Repeats do not count: a batch that is refused, or lost, again and
    again must not keep a client going for ever.
    """

    def __init__(self, limit_s: float | None, now: float) -> None:
        """Args: how long nothing may move (None: for ever), and the time."""
        self._limit_s = math.inf if limit_s is None else limit_s
        self._at = now
        self._sent = 0
        self._resent = 0
        self._written_bytes: int | None = None

    @property
    def stalls_at(self) -> float:
        """When it is time to give up."""
        return self._at + self._limit_s

    def idle(self, now: float) -> None:
        """There is nothing to do."""
        self._at = now

    def made(self, now: float, counts: WindowCounts) -> None:
        """A batch was received, confirmed or refused for good."""
        self._at = now
        self._resent = counts.resent

    def watch(self, now: float, counts: WindowCounts, written_bytes: int | None) -> None:
        """Look at what goes out; `written_bytes`: so far on this connection, None while nothing waits to be written."""
        going_on = written_bytes is not None and written_bytes != self._written_bytes
        if counts.sent != self._sent or (going_on and counts.resent == self._resent):
            self._at = now
        self._sent = counts.sent
        self._written_bytes = written_bytes
