"""Reading the headers of many batch lines at once.

A batch line starts with `__BATCH__:<digits>:`. For lines whose ids have the same number of digits this header has one
size, so a window of 16, 24 or 32 bytes that *ends* with the header's second colon holds, seen as little-endian 64-bit
words:

- last word: the 7 low digits and the colon (for shorter ids also the end of the prefix);
- the words before: higher digits and prefix; the bytes of the first word that lie before the line are masked away.

One gather copies these windows out of the chunk, and everything after that is arithmetic on a few words a line:

- `consecutive_count` asks one question: are these lines the ids f, f+1, f+2, ...? The last four digits of a run of
  consecutive ids are a slice of a table of 10,000 words, the other bytes are constants between two multiples of
  10,000. So a few XORs and comparisons verify every byte of every header, and no digit is ever turned into a number.
- `read_ids` does turn digits into numbers (eight at a time, by multiply and shift) for ids that are not consecutive.

Both check *every* byte: a line that is shorter than its header, or has any other byte in it, never passes, because the
LF that ends it is neither a digit nor part of the prefix. Reading a few bytes beyond the line is therefore harmless,
and the memory must have `HEADROOM` bytes before the first line and `SLACK` bytes after the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.grammar import BATCH_PREFIX, MAX_ID_DIGITS
from edgesocket.records import Bytes, IdArray, Offsets

Words = npt.NDArray[np.uint64]

HEADROOM = 8
"""Bytes of readable memory before the first line: a window may start up to seven bytes before its line."""

SLACK = 32
"""Bytes of readable memory after the last line: the header of a very short last line would reach there."""

_LOW_DIGITS = 4
_LOW_SPAN = 10**_LOW_DIGITS


def _low_digit_words() -> Words:
    """Entry i has the four digits of i at their place in a header's last word, zeros elsewhere."""
    table = np.zeros((_LOW_SPAN, 8), dtype=np.uint8)
    numbers = np.arange(_LOW_SPAN)
    for place in range(_LOW_DIGITS):
        table[:, 6 - place] = ord("0") + numbers // 10**place % 10
    return table.view("<u8").ravel().astype(np.uint64)


_LOW_WORDS = _low_digit_words()


def _word(raw: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(raw, "little"))


@dataclass(frozen=True, slots=True)
class _Column:
    """How one word of the window is read.

    Attributes:
        zeros: the bytes of a header whose digits are all 0; XOR leaves 0..9 for digits and 0 for everything else.
        mask: which bytes belong to the line.
        carry: added to the XORed word, it lifts a byte to 128 or more where a digit is above 9 or a constant differs.
        shift: bits that bring the last digit to the highest byte.
        weight: what the number made of this word's digits counts, 0 for a word without digits.
    """

    zeros: np.uint64
    mask: np.uint64
    carry: np.uint64
    shift: np.uint64
    weight: np.uint64


@dataclass(frozen=True, slots=True)
class HeaderLayout:
    """Where things are in a header whose id has `digits` digits, leading zeros counted.

    Attributes:
        size: bytes of the header, both colons included.
        window: bytes of the window that ends with the header: a multiple of 8, at least `size`.
        window_type: numpy type of one window.
        columns: one per word of the window.
    """

    digits: int
    size: int
    window: int
    window_type: np.dtype[np.void]
    columns: tuple[_Column, ...]

    @property
    def highest_id(self) -> int:
        """The highest id that can be written with this many digits."""
        return min(int(10**self.digits) - 1, MAX_BATCH_ID)

    def header_of(self, batch_id: int) -> bytes:
        """The header of `batch_id`, `size` bytes."""
        return b"%b%0*d:" % (BATCH_PREFIX, self.digits, batch_id)

    def words_of(self, batch_id: int) -> Words:
        """The window of the header of `batch_id`, bytes before the line being zero."""
        return np.frombuffer(self.header_of(batch_id).rjust(self.window, b"\0"), dtype="<u8")


def _layout(digits: int) -> HeaderLayout:
    header = BATCH_PREFIX + b"0" * digits + b":"
    kinds = b"p" * len(BATCH_PREFIX) + b"d" * digits + b"p"
    window = max(16, -(-len(header) // 8) * 8)
    header, kinds = header.rjust(window, b"\0"), kinds.rjust(window, b"-")
    columns: list[_Column] = []
    digits_after = digits
    for at in range(0, window, 8):
        kind = kinds[at : at + 8]
        digits_here = kind.count(b"d")
        digits_after -= digits_here
        columns.append(
            _Column(
                zeros=_word(header[at : at + 8]),
                mask=_word(bytes(0 if k == ord("-") else 0xFF for k in kind)),
                carry=_word(bytes(0x76 if k == ord("d") else 0x7F for k in kind)),
                shift=np.uint64(0 if kind.endswith(b"d") else 8),
                weight=np.uint64(10**digits_after if digits_here else 0),
            )
        )
    return HeaderLayout(digits, len(BATCH_PREFIX) + digits + 1, window, np.dtype((np.void, window)), tuple(columns))


_LAYOUTS = tuple(_layout(digits) for digits in range(1, MAX_ID_DIGITS + 1))
LONGEST_HEADER = _LAYOUTS[-1].size


def layout_of(digits: int) -> HeaderLayout:
    """The layout for ids of `digits` digits, 1..19."""
    return _LAYOUTS[digits - 1]


def _gather(data: Bytes, starts: Offsets, layout: HeaderLayout) -> Words:
    """The windows of the lines that begin at `starts`: shape (lines, words)."""
    windows: npt.NDArray[np.void] = np.ndarray(
        (len(data) - layout.window + 1,), dtype=layout.window_type, buffer=data, strides=(1,)
    )
    return windows[starts + (layout.size - layout.window)].view("<u8").reshape(len(starts), -1)


def _first_true(flags: npt.NDArray[np.bool_], none: int) -> int:
    return int(flags.argmax()) if np.count_nonzero(flags) else none


def consecutive_count(data: Bytes, starts: Offsets, layout: HeaderLayout, first_id: int) -> int:
    """How many of the lines, from the first on, carry the ids `first_id`, `first_id` + 1, ... in this layout.

    Args:
        data: the memory the lines are in.
        starts: where each line begins; ids up to `layout.highest_id` must be enough for all of them.
        layout: the layout all of them are expected to have.
        first_id: the id the first line is expected to have.
    """
    done, total = 0, len(starts)
    while done < total:
        low = (first_id + done) % _LOW_SPAN
        count = min(total - done, _LOW_SPAN - low)
        words = _gather(data, starts[done : done + count], layout)
        *high, last = layout.words_of(first_id + done)
        good = _first_true((words[:, -1] ^ _LOW_WORDS[low : low + count]) != (last ^ _LOW_WORDS[low]), count)
        for index, expected in enumerate(high):
            column = words[:good, index]
            if index == 0:
                column = column & layout.columns[0].mask
            good = _first_true(column != expected, good)
        done += good
        if good < count:
            break
    return done


_HIGH_BITS = _word(b"\x80" * 8)
_PAIRS = _word(b"\xff\x00" * 4)
_FOURS = _word(b"\xff\xff\x00\x00" * 2)
_TENS = np.uint64(10 * 2**8 + 1)
_HUNDREDS = np.uint64(100 * 2**16 + 1)
_TEN_THOUSANDS = np.uint64(10_000 * 2**32 + 1)
_8, _16, _32 = np.uint64(8), np.uint64(16), np.uint64(32)


def _numbers(digits: Words, shift: np.uint64) -> Words:
    """Turn words of eight values 0..9, most significant first, into numbers. Overwrites `digits`."""
    if shift:
        digits <<= shift
    digits *= _TENS
    digits >>= _8
    digits &= _PAIRS
    digits *= _HUNDREDS
    digits >>= _16
    digits &= _FOURS
    digits *= _TEN_THOUSANDS
    digits >>= _32
    return digits


def read_ids(data: Bytes, starts: Offsets, layout: HeaderLayout) -> tuple[IdArray, npt.NDArray[np.bool_]]:
    """Read the id of every line that begins with a header of this layout.

    Returns:
        ids: int64, one a line; of no meaning where the flag is False.
        valid: whether the line begins with a batch header of this layout with an id of 1..9223372036854775807.
    """
    words = _gather(data, starts, layout)
    total = np.zeros(len(starts), dtype=np.uint64)
    wrong = np.zeros(len(starts), dtype=np.uint64)
    for index, column in enumerate(layout.columns):
        digits = words[:, index] ^ column.zeros
        if index == 0:
            digits &= column.mask
        lifted = digits + column.carry
        lifted |= digits
        wrong |= lifted
        if column.weight:
            numbers = _numbers(digits, column.shift)
            numbers *= column.weight
            total += numbers
    wrong &= _HIGH_BITS
    # 19 digits hold up to 10**19 - 1, which still fits into 64 bits without a sign.
    total_minus_one = total - np.uint64(1)
    valid = (wrong == 0) & (total_minus_one < np.uint64(MAX_BATCH_ID))
    return total.view(np.int64), valid
