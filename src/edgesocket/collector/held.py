"""Batches that were refused for now, and until when each waits."""

from __future__ import annotations

from bisect import bisect_left, insort

_Run = tuple[int, int, float]
"""First id, last id, and when they may go out again."""


class HeldIds:
    """A map from ids to times, kept as runs: a full queue refuses hundreds in a row at one moment. Pure."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def put(self, first: int, last: int, until: float) -> None:
        """`first..last` wait until then, whatever was known of them before."""
        self.drop(first, last)
        insort(self._runs, (first, last, until))

    def drop(self, first: int, last: int) -> None:
        """`first..last` do not wait any more; those that did not are no error."""
        runs = self._runs
        low = bisect_left(runs, first, key=_last_of)
        high = low
        kept: list[_Run] = []
        while high < len(runs) and runs[high][0] <= last:
            run_first, run_last, until = runs[high]
            if run_first < first:
                kept.append((run_first, first - 1, until))
            if run_last > last:
                kept.append((last + 1, run_last, until))
            high += 1
        if low < high:
            runs[low:high] = kept

    @property
    def lowest(self) -> tuple[int, float] | None:
        """The lowest id that waits, and until when."""
        return (self._runs[0][0], self._runs[0][2]) if self._runs else None

    def __bool__(self) -> bool:
        return bool(self._runs)


def _last_of(run: _Run) -> int:
    return run[1]
