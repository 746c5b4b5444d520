"""Telling whether a large piece of text is UTF-8, without making a string of it.

Decoding a mebibyte only to see whether it can be decoded takes a millisecond where there is more than ASCII, several
times what everything else about a chunk takes. What UTF-8 is (RFC 3629) can be asked in whole-array steps as well:

- a byte is a continuation (80..BF) exactly where a lead byte one, two or three places before demands one;
- C0, C1 and F5..FF never occur;
- the byte after E0, ED, F0 or F4 has a narrower range (no overlong forms, no surrogates, nothing above U+10FFFF).

Steps that the highest byte of a tile makes pointless are left out: ASCII needs one step, most alphabets half of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgesocket.records import Bytes

TILE_BYTES = 256 * 1024
"""How much is looked at in one go: text and working memory stay in the processor's second-level cache."""

CONTEXT_BYTES = 3
"""How far before a tile a lead byte may stand that demands something inside it."""

# Lead byte; whether the byte after it is wrong below the limit (or else from the limit on); the limit.
_NARROW_RANGES = ((0xE0, True, 0xA0), (0xED, False, 0xA0), (0xF0, True, 0x90), (0xF4, False, 0x90))
_C0 = np.uint8(0xC0)
_HIGHEST_LEAD = 0xF4
_ABOVE_CONTINUATIONS = -0x40  # 80..BF are the lowest bytes with a sign


class Utf8Checker:
    """Checks text for UTF-8; keeps its working memory from call to call. Not thread-safe."""

    __slots__ = ("_one", "_two")

    def __init__(self) -> None:
        self._one = np.zeros(TILE_BYTES + CONTEXT_BYTES, dtype=np.uint8)
        self._two = np.zeros(TILE_BYTES + CONTEXT_BYTES, dtype=np.uint8)

    def is_utf8(self, data: Bytes, start: int, end: int) -> bool:
        """Whether `data[start:end]` is UTF-8; its last byte must be ASCII."""
        for at in range(start, end, TILE_BYTES):
            context = min(at - start, CONTEXT_BYTES)
            text = data[at - context : min(at + TILE_BYTES, end)]
            highest = int(np.maximum.reduce(text))
            if highest > 0x7F and not (
                highest <= _HIGHEST_LEAD
                and self._continues_where_demanded(text, context, highest)
                and self._has_no_forbidden_pair(text, highest)
            ):
                return False
        return True

    def _continues_where_demanded(self, text: Bytes, context: int, highest: int) -> bool:
        """Whether continuations stand exactly where they are demanded; the first `context` bytes are not judged."""
        size = len(text)
        demanded, other = self._one[:size].view(np.bool_), self._two[:size].view(np.bool_)
        demanded[0] = False
        np.greater_equal(text[:-1], 0xC0, out=demanded[1:])
        if highest >= 0xE0:
            demanded[2:] |= np.greater_equal(text[:-2], 0xE0, out=other[2:])
        if highest >= 0xF0:
            demanded[3:] |= np.greater_equal(text[:-3], 0xF0, out=other[3:])
        np.less(text.view(np.int8), _ABOVE_CONTINUATIONS, out=other)
        return not _any(np.not_equal(demanded, other, out=demanded)[context:])

    def _has_no_forbidden_pair(self, text: Bytes, highest: int) -> bool:
        if np.minimum.reduce(np.bitwise_xor(text, _C0, out=self._one[: len(text)])) < 2:
            return False
        leads, wrong = self._one[: len(text) - 1].view(np.bool_), self._two[: len(text) - 1].view(np.bool_)
        for lead, below, limit in _NARROW_RANGES:
            if lead <= highest and _any(np.equal(text[:-1], lead, out=leads)):
                (np.less if below else np.greater_equal)(text[1:], limit, out=wrong)
                if _any(np.logical_and(leads, wrong, out=wrong)):
                    return False
        return True


def _any(flags: npt.NDArray[np.bool_]) -> bool:
    """Whether any flag is set; faster than counting them."""
    return bool(np.maximum.reduce(flags.view(np.uint8)))
