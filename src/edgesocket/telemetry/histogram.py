"""Counts how long things took, in a fixed number of buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

DURATION_BOUNDS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of buckets for what usually takes milliseconds and must not take a minute."""


class Histogram:
    """How often a value was at most as large as each bound. One thread writes; any may read.

    Args:
        bounds: upper bounds, rising. What is larger than all of them is only in `count`.
    """

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float] = DURATION_BOUNDS_S) -> None:
        self.sum = 0.0
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value, in the unit of the bounds."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def as_json(self) -> dict[str, Any]:
        """`{"buckets": [[bound, how many were at most that], ...], "sum", "count"}`, each count including those before.

        `count` includes what is above the last bound.
        """
        buckets = []
        total = 0
        counts = list(self._counts)  # one moment, while another thread may write
        for bound, count in zip(self._bounds, counts, strict=False):
            total += count
            buckets.append([bound, total])
        return {"buckets": buckets, "sum": round(self.sum, 6), "count": total + counts[-1]}
