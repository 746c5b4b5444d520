"""When batches came, to a second, without a time for each of them: what a watch over the oldest one needs.

Now and then a mark says how high ids had risen by then. A batch came at the latest when the first mark at or above its
id was made. One that came late, below ids that were already there, counts as old as its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left

MOST_MARKS = 1024
"""Marks that are kept: about a quarter of an hour of seconds; beyond that every second one of them goes."""


class ArrivalTimes:
    """Marks of how high ids had risen when. Not thread-safe."""

    def __init__(self) -> None:
        self._highest: list[int] = []
        self._times: list[float] = []

    def mark(self, highest: int, now: float) -> None:
        """By `now` (seconds of a steady clock), ids had risen to `highest`."""
        if self._highest and highest <= self._highest[-1]:
            return
        self._highest.append(highest)
        self._times.append(now)
        if len(self._highest) > MOST_MARKS:
            # From the end, so that the newest stays. An id between two of them counts as younger than it is.
            self._highest = self._highest[::-2][::-1]
            self._times = self._times[::-2][::-1]

    def forget_below(self, id_: int) -> None:
        """Nobody will ask for ids below."""
        first = bisect_left(self._highest, id_)
        del self._highest[:first]
        del self._times[:first]

    def age_s(self, id_: int, now: float) -> float:
        """How long ago the batch of that id came; 0 for one above every mark."""
        at = bisect_left(self._highest, id_)
        return max(0.0, now - self._times[at]) if at < len(self._times) else 0.0
