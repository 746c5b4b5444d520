"""Payloads as a file and the wire have them: each with its line feed behind it. Pure, standard library only.

Most payloads of a collector are lines of a file. Split and joined again at every step they would be copied a dozen
times; as `EndedLines` they are cut once, by the fast line reader of the interpreter, and written as they are. To
whoever wants payloads it is a sequence of them, without line feeds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from typing import overload


class EndedLines(Sequence[bytes]):
    """A sequence of payloads, none of which holds a line feed. Never changes.

    Attributes:
        written: the first id and the batch lines, where they were written ahead (`collector_session.write_ahead`).
    """

    __slots__ = ("_count", "_data", "_end", "_ended", "written")

    def __init__(self, data: bytes, end: int | None = None) -> None:
        """Of complete lines that lie one behind the other.

        Args:
            data: the lines, each with its line feed.
            end: behind the last one's line feed, where something else follows.
        """
        self._data: bytes | None = data
        self._end = len(data) if end is None else end
        self._ended: list[bytes] | None = None
        self.written: tuple[int, bytes] | None = None
        if self._end and data[self._end - 1] != 0x0A:
            raise ValueError("the last line has no line feed")
        self._count = len(self.ended)

    @classmethod
    def of(cls, ended: list[bytes]) -> EndedLines:
        """Of lines that are cut already: one line feed in each, at its end. The list belongs to the result."""
        lines = cls.__new__(cls)
        lines._data = None
        lines._end = 0
        lines._ended = ended
        lines._count = len(ended)
        lines.written = None
        return lines

    @classmethod
    def between(cls, joined: bytes | memoryview, count: int) -> EndedLines:
        """Of `count` payloads with a line feed between each two."""
        if not count:
            return cls.of([])
        ended = BytesIO(joined).readlines()
        if len(ended) < count:
            ended.append(b"\n")
        else:
            ended[-1] += b"\n"
        return cls.of(ended)

    @property
    def ended(self) -> list[bytes]:
        """The payloads with a line feed behind each; not to be changed."""
        if self._ended is None:
            assert self._data is not None
            self._ended = BytesIO(self._data).readlines()
            if self._end < len(self._data):
                self._ended.pop()
        return self._ended

    @property
    def joined(self) -> memoryview:
        """The payloads with a line feed between each two."""
        return memoryview(self._whole())[: max(0, self._end - 1)]

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads."""
        return (sum(map(len, self.ended)) if self._data is None else self._end) - self._count

    def pack(self) -> None:
        """Keep them in one piece only: less memory, and slower to be taken apart again."""
        self._whole()
        self._ended = None

    def _whole(self) -> bytes:
        if self._data is None:
            self._data = b"".join(self.ended)
            self._end = len(self._data)
        return self._data

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return (line[:-1] for line in self.ended)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> EndedLines: ...
    def __getitem__(self, place: int | slice) -> bytes | EndedLines:
        if not isinstance(place, slice):
            return self.ended[place][:-1]
        whole = place.indices(self._count) == (0, self._count, 1)
        return self if whole else EndedLines.of(self.ended[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EndedLines({list(self)!r})"


def payload_bytes(payloads: Sequence[bytes]) -> int:
    """Bytes of all of them."""
    return payloads.payload_bytes if isinstance(payloads, EndedLines) else sum(map(len, payloads))


def fitting(payloads: Sequence[bytes], most_bytes: int) -> int:
    """How many of them, from the first on, have at most so many bytes together."""
    if isinstance(payloads, EndedLines):
        ends = list(accumulate(map(len, payloads.ended)))
        return bisect_right(range(len(ends)), most_bytes, key=lambda place: ends[place] - place - 1)
    return bisect_right(list(accumulate(map(len, payloads))), most_bytes)


def joined_lines(parts: Sequence[Sequence[bytes]]) -> Sequence[bytes]:
    """One sequence of several, in order."""
    if len(parts) == 1:
        return parts[0]
    together: list[bytes] = []
    if all(isinstance(part, EndedLines) for part in parts):
        for part in parts:
            assert isinstance(part, EndedLines)
            together += part.ended
        return EndedLines.of(together)
    for part in parts:
        together += part
    return together
