"""Several lines that are one record: stack traces, and the like.

A rule says where a record begins, where it ends, or which lines go on with one. There is one assembler a file: lines of
two files never meet in a record.

What a record becomes depends on nothing but the lines from its first one on. That is why a position in a file, put at
the first line of the record that is not complete, is all that has to be remembered to go on after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

INDENTED = r"^[ \t]"
"""As `continuation`: lines that begin with a blank or a tab go on with the record before."""

MOST_LINES = 1_000
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilineRule:
    r"""Which lines are one record. At least one of the three patterns; `start` and `continuation` exclude each other.

    The patterns are Python regular expressions, looked for anywhere in the line (`^` ties them to its start), in UTF-8.

    Attributes:
        start: a line that matches begins a record; all others go on with the one before.
        continuation: a line that matches goes on with the record before; all others begin one.
        end: a line that matches is the last of its record.
        joiner: what stands between the lines of a record, as a record on the wire cannot hold a line feed.
            By default a backslash and an n.
        max_lines, max_bytes: a record of several lines is never larger, the joiners counted; what would go on with it
            begins another one. Nothing is lost by that.
    """

    start: str | None = None
    continuation: str | None = None
    end: str | None = None
    joiner: str = "\\n"
    max_lines: int = MOST_LINES
    max_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: says what is wrong.
        """
        if self.start is None and self.continuation is None and self.end is None:
            raise ValueError("a multiline rule needs start, continuation or end")
        if self.start is not None and self.continuation is not None:
            raise ValueError("a multiline rule has start or continuation, not both")
        for name in ("start", "continuation", "end"):
            _compiled(name, getattr(self, name))
        if "\n" in self.joiner:
            raise ValueError("joiner must not hold a line feed: a record is one line on the wire")
        if self.max_lines < 1 or self.max_bytes < 1:
            raise ValueError("max_lines and max_bytes must be at least 1")


def _compiled(name: str, pattern: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if pattern is None else re.compile(pattern.encode())
    except re.error as problem:
        raise ValueError(f"{name} is not a regular expression: {problem}") from None


def _never(_line: bytes) -> bool:
    return False


def _begins(rule: MultilineRule) -> Callable[[bytes], object]:
    start, continuation = _compiled("start", rule.start), _compiled("continuation", rule.continuation)
    if start is not None:
        return start.search
    if continuation is not None:
        search = continuation.search
        return lambda line: search(line) is None
    return _never


class MultilineAssembler:
    """Makes records of lines by a rule. Pure."""

    def __init__(self, rule: MultilineRule, max_bytes: int) -> None:
        """Begin.

        Args:
            rule: which lines go together.
            max_bytes: a second cap on the bytes of a record of several lines.
        """
        self._begins = _begins(rule)
        end = _compiled("end", rule.end)
        self._ends: Callable[[bytes], object] = end.search if end else _never
        self._joiner = rule.joiner.encode()
        self._max_lines = rule.max_lines
        self._max_bytes = min(rule.max_bytes, max_bytes)
        self._lines: list[bytes] = []
        self._bytes = 0
        self.start: int | None = None
        """Where the first line of the record that is not complete began; None: there is none."""
        self.capped = 0
        """How often a cap ended a record."""

    def feed(self, starts: list[int], lines: list[bytes]) -> list[tuple[int, bytes]]:
        """Take complete lines and where each began; return the records they complete, with where those began."""
        records: list[tuple[int, bytes]] = []
        for start, line in zip(starts, lines, strict=True):
            size = len(line) + len(self._joiner)
            if self._lines:
                full = len(self._lines) >= self._max_lines or self._bytes + size > self._max_bytes
                if self._begins(line) or full:
                    self.capped += full and not self._begins(line)
                    records += self.flush()
            if not self._lines:
                self.start = start
                size = len(line)
            self._lines.append(line)
            self._bytes += size
            if self._ends(line):
                records += self.flush()
        return records

    def flush(self) -> list[tuple[int, bytes]]:
        """End the record that is not complete, if there is one."""
        if self.start is None:
            return []
        record = (self.start, self._joiner.join(self._lines))
        self._lines = []
        self._bytes = 0
        self.start = None
        return [record]
