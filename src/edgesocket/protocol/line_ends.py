"""Finding the line feeds of a chunk.

Comparing a mebibyte with LF takes some 40 us; asking numpy *where* the comparison is true takes four times as long,
because it looks at the bytes one after another. So the flags are looked at eight at a time, as words: few words are
not zero, and the place of the flag inside such a word comes out of one multiplication. A word with two line feeds
(lines of under eight bytes: never a valid batch) sends the chunk the slow way. Where lines are long, a plain search
for one after the other is faster still.

Where there are compiled `kernels` they do all of this in one pass.
"""

from __future__ import annotations

import numpy as np

from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.grammar import LF
from edgesocket.protocol.kernels import Kernels
from edgesocket.records import Bytes, Offsets

TILE_BYTES = 256 * 1024
"""How much is looked at in one go: data and flags stay in the processor's second-level cache."""

LONG_LINE_BYTES = 2048
"""From this line length on searching is faster than comparing."""

_SHORT_LINES_BORNE = 4

_LF_BYTE = bytes([LF])

# Times a word with a flag in byte k, the highest byte of the product is _MARK + k; each further flag adds _MARK more.
_MARK = 16
_PLACE = np.uint64(sum((_MARK + k) << 8 * (7 - k) for k in range(8)))
_HIGHEST_BYTE = np.uint64(56)
_MOST = np.uint64(_MARK + 7)


class LineEndFinder:
    """Finds line feeds; keeps its working memory from call to call. Not thread-safe.

    Args:
        kernels: the compiled form, if it is to be used.

    Attributes:
        ascii_only: whether the chunk last looked at was ASCII throughout. Seen on the way, while a tile is in the
            cache: a pass of its own over the chunk would cost twice as much.
        may_have_cr: False where no line of it ends with CR LF.
    """

    __slots__ = ("_flags", "_kernels", "_words", "ascii_only", "may_have_cr")

    def __init__(self, kernels: Kernels | None = None) -> None:
        self.ascii_only = False
        self.may_have_cr = True
        self._kernels = kernels
        self._flags = np.zeros(TILE_BYTES, dtype=np.bool_)
        self._words = np.zeros(TILE_BYTES // 8, dtype=np.bool_)

    def find(self, chunk: Chunk) -> Offsets:
        """Positions of the chunk's line feeds in its `data`, rising. Sets `ascii_only` and `may_have_cr`."""
        data = chunk.data
        if self._kernels is not None:
            feeds, self.ascii_only, self.may_have_cr = self._kernels.line_feeds(data, chunk.start, chunk.end)
            return feeds
        if chunk.memory is not None:
            searched = _search(chunk.memory, chunk.start, chunk.end)
            if searched is not None:
                self.ascii_only = _is_ascii(data[chunk.start : chunk.end])
                return searched
        found: list[Offsets] = []
        ascii_only = True
        for at in range(chunk.start, chunk.end, TILE_BYTES):
            end = min(at + TILE_BYTES, chunk.end)
            found.append(self._compare(data, at, end))
            ascii_only = ascii_only and _is_ascii(data[at:end])
        self.ascii_only = ascii_only
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _compare(self, data: Bytes, start: int, end: int) -> Offsets:
        size = end - start
        word_count = (size + 7) >> 3
        flags = self._flags
        np.equal(data[start:end], LF, out=flags[:size])
        flags[size : word_count << 3] = False
        words = flags[: word_count << 3].view("<u8")
        places: Offsets = np.not_equal(words, 0, out=self._words[:word_count]).nonzero()[0]
        marks = words.take(places)
        marks *= _PLACE
        marks >>= _HIGHEST_BYTE
        if len(marks) and np.maximum.reduce(marks) > _MOST:
            return np.flatnonzero(flags[:size]) + start
        places <<= 3
        places += marks.view(np.int64)
        places += start - _MARK
        return places


def _is_ascii(data: Bytes) -> bool:
    return bool(np.maximum.reduce(data) < 0x80)


def _search(memory: bytes | bytearray, start: int, end: int) -> Offsets | None:
    """Look for one line feed after the other; None as soon as the lines turn out too short for that."""
    found: list[int] = []
    at, expected = start, start - _SHORT_LINES_BORNE * LONG_LINE_BYTES
    while at < end:
        at = memory.find(_LF_BYTE, at, end) + 1
        found.append(at - 1)
        expected += LONG_LINE_BYTES
        if at < expected:
            return None
    return np.array(found, dtype=np.int64)
