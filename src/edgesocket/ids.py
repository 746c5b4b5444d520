"""Sets of batch ids, kept as ranges.

A batch id is a positive integer up to `MAX_BATCH_ID`. Ids mostly come one after another, so a set of a hundred
million ids is mostly one pair of numbers here. Everything that remembers ids (ledger, arrival log, commit records)
uses this set; its cost grows with the number of ranges, never with the number of ids.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

MAX_BATCH_ID = 2**63 - 1
"""The largest batch id: a Java long."""

IdRange = tuple[int, int]
"""First and last id of a range, both inclusive."""

_SHIFTS_A_PASS = 16
"""So many list shifts cost less than one pass over the ranges."""


class IdRanges:
    """A set of ids as sorted, disjoint, non-adjacent inclusive ranges.

    Not thread-safe. Adding at the upper end is O(1); other changes are O(ranges) at worst (one list shift). A change by
    another set costs about one such change, and a pass over that set and what lies between its ends here.
    """

    __slots__ = ("_last", "firsts")

    def __init__(self, ranges: Iterable[IdRange] = ()) -> None:
        self.firsts: list[int] = []
        """First id of each range, rising; to be read only. Its length is the number of ranges."""
        self._last: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Put `first..last` into the set, joining what touches it."""
        firsts, lasts = self.firsts, self._last
        if not firsts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
            return
        if first >= firsts[-1]:
            if last > lasts[-1]:
                lasts[-1] = last
            return
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1)
        if low < high:
            first = min(first, firsts[low])
            last = max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> None:
        """Take `first..last` (nothing where `first` > `last`) out of the set; what is not in it is no error."""
        if first > last:
            return
        firsts, lasts = self.firsts, self._last
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        if low >= high:
            return
        new_first: list[int] = []
        new_last: list[int] = []
        if firsts[low] < first:
            new_first.append(firsts[low])
            new_last.append(first - 1)
        if lasts[high - 1] > last:
            new_first.append(last + 1)
            new_last.append(lasts[high - 1])
        firsts[low:high] = new_first
        lasts[low:high] = new_last

    def update(self, other: IdRanges) -> None:
        """Add every range of `other`."""
        low, high = self._reach(other)
        if high - low > _SHIFTS_A_PASS * len(other):
            for first, last in other:
                self.add(first, last)
        else:
            self._put(low, high, IdRanges(sorted([*self._slice(low, high), *other])))

    def difference_update(self, other: IdRanges) -> None:
        """Take every range of `other` out; what is not in it is no error."""
        low, high = self._reach(other)
        if high - low > _SHIFTS_A_PASS * len(other):
            for first, last in other:
                self.remove(first, last)
        else:
            kept = (piece for first, last in self._slice(low, high) for piece in other.missing(first, last))
            self._put(low, high, IdRanges(kept))

    def _reach(self, other: IdRanges) -> tuple[int, int]:
        """Which ranges (a slice) can touch the other set."""
        if not other:
            return 0, 0
        return bisect_left(self._last, other.firsts[0] - 1), bisect_right(self.firsts, other._last[-1] + 1)

    def _slice(self, low: int, high: int) -> Iterable[IdRange]:
        return zip(self.firsts[low:high], self._last[low:high], strict=True)

    def _put(self, low: int, high: int, ranges: IdRanges) -> None:
        self.firsts[low:high] = ranges.firsts
        self._last[low:high] = ranges._last

    def clear(self) -> None:
        """Empty the set."""
        self.firsts.clear()
        self._last.clear()

    def pieces(self, first: int, last: int) -> list[IdRange]:
        """The parts of the set inside `first..last` (nothing where `first` > `last`), clipped to it, rising."""
        if first > last:
            return []
        low = bisect_left(self._last, first)
        high = bisect_right(self.firsts, last)
        return [(max(self.firsts[i], first), min(self._last[i], last)) for i in range(low, high)]

    def missing(self, first: int, last: int) -> list[IdRange]:
        """The parts of `first..last` that are not in the set, rising."""
        holes: list[IdRange] = []
        position = first
        for low, high in self.pieces(first, last):
            if low > position:
                holes.append((position, low - 1))
            position = high + 1
        if position <= last:
            holes.append((position, last))
        return holes

    def first_at_or_above(self, id_: int) -> int | None:
        """The lowest member that is `id_` or higher, or None."""
        i = bisect_left(self._last, id_)
        return None if i == len(self._last) else max(self.firsts[i], id_)

    def run_end(self, id_: int) -> int | None:
        """The last id of the range that holds `id_`, or None where it is not a member."""
        i = bisect_left(self._last, id_)
        return self._last[i] if i < len(self._last) and self.firsts[i] <= id_ else None

    def keep_highest(self, range_count: int) -> int:
        """Drop the lowest ranges until at most `range_count` (1 or more) are left.

        Returns:
            The highest id that was dropped, 0 for none.
        """
        if len(self.firsts) <= range_count:
            return 0
        highest = self._last[-range_count - 1]
        del self.firsts[:-range_count]
        del self._last[:-range_count]
        return highest

    def first_of_newest(self, range_count: int) -> int:
        """The lowest id of the highest `range_count` ranges; 0 where there are not that many."""
        return self.firsts[-range_count] if len(self.firsts) > range_count else 0

    @property
    def lowest(self) -> int | None:
        """The lowest member, or None for the empty set."""
        return self.firsts[0] if self.firsts else None

    @property
    def highest(self) -> int | None:
        """The highest member, or None for the empty set."""
        return self._last[-1] if self._last else None

    @property
    def id_count(self) -> int:
        """How many ids are in the set."""
        return sum(self._last) - sum(self.firsts) + len(self.firsts)

    def copy(self) -> IdRanges:
        """An independent copy."""
        twin = IdRanges()
        twin.firsts = self.firsts.copy()
        twin._last = self._last.copy()
        return twin

    def to_list(self) -> list[list[int]]:
        """The ranges as JSON can hold them: `[[first, last], ...]`."""
        return [[first, last] for first, last in self]

    def __contains__(self, id_: int) -> bool:
        i = bisect_left(self._last, id_)
        return i < len(self._last) and self.firsts[i] <= id_

    def __iter__(self) -> Iterator[IdRange]:
        return iter(list(zip(self.firsts, self._last, strict=True)))

    def __len__(self) -> int:
        """How many ranges (not ids) the set has."""
        return len(self.firsts)

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdRanges):
            return NotImplemented
        return self.firsts == other.firsts and self._last == other._last

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IdRanges({[(f, t) for f, t in self]!r})"


def runs_of(ids: Iterable[int]) -> list[IdRange]:
    """Ids in the order given, folded into runs of consecutive ids: 5, 6, 7, 3 -> (5, 7), (3, 3)."""
    runs: list[IdRange] = []
    for id_ in ids:
        if runs and runs[-1][1] + 1 == id_:
            runs[-1] = (runs[-1][0], id_)
        else:
            runs.append((id_, id_))
    return runs
