"""The exact line splitter: bytes in, lines out, whatever the pieces they come in.

A line ends with LF; one CR before it is dropped; every other byte (lone CR, NUL, VT, U+2028) belongs to the line.
A line longer than the limit is never held: it is skipped to its LF and reported once, there, as `OVERLONG`.
Standard library only: the collector side reads replies with it.
"""

from __future__ import annotations

import enum
from typing import Final


class Overlong(enum.Enum):
    """Stands where a line longer than the limit was."""

    OVERLONG = "overlong"


OVERLONG: Final = Overlong.OVERLONG


def exceeds(length: int, last_byte: int, max_line_bytes: int) -> bool:
    """Whether `length` bytes without LF, the last being `last_byte`, are too long whatever comes next.

    One byte more than the limit is still fine while it is a CR that an LF may follow.
    """
    return length > max_line_bytes + (last_byte == 0x0D)


class LineSplitter:
    """Splits a byte stream into lines.

    Guarantees: the lines do not depend on how the stream was cut into pieces; holds at most `max_line_bytes` + 1
    bytes between calls; time is linear in the bytes fed, also for a peer that drips one byte a call.
    """

    __slots__ = ("_max_line_bytes", "_partial", "_skipping")

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._partial = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | Overlong]:
        """Take the next bytes of the stream; returns the lines they complete, without line ends."""
        first, *others = data.split(b"\n")
        if not others:
            self._keep(first)
            return []
        lines = [self._complete(first)]
        rest = others.pop()
        lines += map(self._line, others)
        self._keep(rest)
        return lines

    @property
    def held_bytes(self) -> int:
        """Bytes of the line that is not complete yet."""
        return len(self._partial)

    def _complete(self, piece: bytes) -> bytes | Overlong:
        if self._skipping:
            self._skipping = False
            return OVERLONG
        if not self._partial:
            return self._line(piece)
        self._partial += piece
        line = self._line(bytes(self._partial))
        self._partial.clear()
        return line

    def _line(self, line: bytes) -> bytes | Overlong:
        line = line.removesuffix(b"\r")
        return line if len(line) <= self._max_line_bytes else OVERLONG

    def _keep(self, piece: bytes) -> None:
        if self._skipping or not piece:
            return
        if exceeds(len(self._partial) + len(piece), piece[-1], self._max_line_bytes):
            self._skipping = True
            self._partial = bytearray()
        else:
            self._partial += piece
