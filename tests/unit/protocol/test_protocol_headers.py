"""Many headers read at once, against one read after the other."""

from __future__ import annotations

import numpy as np
import pytest

from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.headers import consecutive_count, layout_of, read_ids
from edgesocket.records import Offsets

BORDERS = [1, 8, 9, 95, 998, 9_997, 99_999, 129_996, 9_999_990, 19_999_996, 10**12 - 5, 10**15 + 10**7 - 3, 2**63 - 8]


def lines_of(ids: list[int], width: int = 0) -> tuple[Chunk, Offsets]:
    lines = [b"__BATCH__:%0*d:p%d\n" % (width, batch_id, batch_id % 7) for batch_id in ids]
    chunk = Chunk.of(b"".join(lines))
    lengths = np.array([0, *map(len, lines)])[:-1]
    return chunk, np.cumsum(lengths) + chunk.start


@pytest.mark.parametrize("first", BORDERS)
def test_consecutive_ids_of_one_width(first: int) -> None:
    layout = layout_of(len(str(first)))
    ids = list(range(first, min(first + 7, layout.highest_id + 1)))
    chunk, starts = lines_of(ids)

    assert consecutive_count(chunk.data, starts, layout, first) == len(ids)


def test_consecutive_ids_over_several_tables() -> None:
    ids = list(range(1_005_000, 1_036_000))
    chunk, starts = lines_of(ids)

    assert consecutive_count(chunk.data, starts, layout_of(7), ids[0]) == len(ids)


@pytest.mark.parametrize("width", range(2, 20))
def test_consecutive_ids_with_leading_zeros(width: int) -> None:
    ids = list(range(5, 9 if width == 1 else 95))
    chunk, starts = lines_of(ids, width)

    assert consecutive_count(chunk.data, starts, layout_of(width), 5) == len(ids)


@pytest.mark.parametrize("place", [0, 1, 50, 9_999, 10_000, 14_999])
@pytest.mark.parametrize("wrong", [-1, 1, 10, 10_000, -1_000_000])
def test_the_count_ends_at_the_first_other_id(place: int, wrong: int) -> None:
    ids = list(range(2_003_000, 2_018_000))
    ids[place] += wrong
    chunk, starts = lines_of(ids)

    assert consecutive_count(chunk.data, starts, layout_of(7), 2_003_000) == place


def test_the_first_wrong_byte_counts_wherever_it_is() -> None:
    """A wrong byte late in the last word does not hide one that comes earlier in another word."""
    ids = list(range(5_000_100, 5_000_140))
    chunk, starts = lines_of(ids)
    data = chunk.data.copy()
    data[starts[30] + 16] ^= 1
    data[starts[20] + 3] ^= 1

    assert consecutive_count(data, starts, layout_of(7), ids[0]) == 20


@pytest.mark.parametrize("digits", range(1, 20))
def test_ids_of_every_width(digits: int) -> None:
    low, high = 10 ** (digits - 1), 10**digits - 1
    ids = sorted({low, low + 1, (low + high) // 2, high - 1, high, int("1234567890123456789"[:digits])})
    if digits == 19:
        ids += [2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1]
    chunk, starts = lines_of(ids)

    values, valid = read_ids(chunk.data, starts, layout_of(digits))

    assert valid.tolist() == [batch_id <= 2**63 - 1 for batch_id in ids]
    assert values[valid].tolist() == [batch_id for batch_id in ids if batch_id <= 2**63 - 1]


def test_zero_is_no_id() -> None:
    chunk, starts = lines_of([0, 1, 0], width=5)

    assert read_ids(chunk.data, starts, layout_of(5))[1].tolist() == [False, True, False]


def test_lines_shorter_than_the_header_are_not_valid() -> None:
    chunk = Chunk.of(b"__BATCH__:1234567:\n\n__BATCH__:1\n__COMMIT__:5\n__BATCH__:123456:x\n__BATCH__:12345678:\n")
    starts = np.flatnonzero(chunk.data[: chunk.end] == 10)[:-1] + 1
    starts = np.concatenate(([chunk.start], starts))

    assert read_ids(chunk.data, starts, layout_of(7))[1].tolist() == [True, False, False, False, False, False]
