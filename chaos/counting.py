"""What was lost and what was doubled: numbered lines in, numbers out. No processes here, so it can be tested alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

PADDING = "." * 80
_NUMBER = slice(5, 14)


def line_of(number: int) -> str:
    """The line with that number, without its end: `line 000000042 ....`."""
    return f"line {number:09d} {PADDING}"


def number_of(line: str | bytes) -> int:
    """The number in a line that `line_of` made, or any line that begins so. Raises ValueError for another one."""
    text = line.decode(errors="replace") if isinstance(line, bytes) else line
    if not text.startswith("line "):
        raise ValueError(f"no line of this run: {text[:40]!r}")
    return int(text[_NUMBER])


@dataclass(frozen=True)
class Tally:
    """What became of lines 0 to `written` - 1.

    Attributes:
        written: how many there were.
        lost: numbers that are not in the sink.
        doubled: numbers that are there more than once.
        strange: how many rows are no line that was written.
    """

    written: int
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    strange: int

    @property
    def is_clean(self) -> bool:
        """Whether each line is there once, and nothing else is."""
        return not (self.lost or self.doubled or self.strange)


def tally(written: int, found: Iterable[int]) -> Tally:
    """Compare what was written with what a reader of the sink finds, repeats included."""
    seen = Counter(found)
    return Tally(
        written,
        lost=tuple(number for number in range(written) if number not in seen),
        doubled=tuple(sorted(number for number, count in seen.items() if count > 1 and 0 <= number < written)),
        strange=sum(count for number, count in seen.items() if not 0 <= number < written),
    )


class Tape:
    """The same for an hour of lines: a byte each, and what was counted need not be kept.

    Attributes:
        found: lines that came.
        doubled: rows that were there before.
        strange: rows that are no line that was written.
    """

    def __init__(self) -> None:
        self._seen = bytearray()
        self.found = 0
        self.doubled = 0
        self.strange = 0

    def count(self, number: int) -> None:
        """One row of the sink."""
        if number < 0:
            self.strange += 1
            return
        if number >= len(self._seen):
            self._seen.extend(bytes(max(number + 1 - len(self._seen), 1 << 16)))
        if self._seen[number]:
            self.doubled += 1
        else:
            self._seen[number] = 1
            self.found += 1

    def has(self, number: int) -> bool:
        """Whether that line has come."""
        return 0 <= number < len(self._seen) and self._seen[number] == 1

    def numbers(self) -> list[int]:
        """All lines that have come."""
        return [number for number, seen in enumerate(self._seen) if seen]

    def lost(self, written: int) -> int:
        """How many of lines 0 to `written` - 1 are not there."""
        return written - sum(self._seen[:written])
