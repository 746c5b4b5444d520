"""Finding line feeds, by comparison and by search."""

from __future__ import annotations

import numpy as np
import pytest

from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.line_ends import LONG_LINE_BYTES, TILE_BYTES, LineEndFinder


def positions(chunk: Chunk) -> list[int]:
    return (np.flatnonzero(chunk.data[chunk.start : chunk.end] == 10) + chunk.start).tolist()


def without_memory(lines: bytes) -> Chunk:
    """A chunk that cannot be searched, as those of very long lines are."""
    chunk = Chunk.of(lines)
    chunk.memory = None
    return chunk


@pytest.mark.parametrize("make", [Chunk.of, without_memory])
@pytest.mark.parametrize("size", [0, 1, 2, 6, 7, 8, 9, 15, 63, 64, 1000, LONG_LINE_BYTES, 10 * LONG_LINE_BYTES])
@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_equal_lines(make: type, size: int, count: int) -> None:
    chunk = make((b"x" * size + b"\n") * count)

    assert LineEndFinder().find(chunk).tolist() == positions(chunk)


@pytest.mark.parametrize("gap", range(1, 20))
def test_two_line_feeds_in_every_place_of_a_word(gap: int) -> None:
    for before in range(16):
        chunk = without_memory(b"x" * before + b"\n" + b"x" * (gap - 1) + b"\n" + b"y" * 30 + b"\n")
        assert LineEndFinder().find(chunk).tolist() == positions(chunk)


def test_bytes_next_to_lf_in_value_are_not_taken_for_it() -> None:
    chunk = without_memory(bytes(value for value in range(256) if value != 10) * 3 + b"\n")

    assert LineEndFinder().find(chunk).tolist() == [chunk.end - 1]


@pytest.mark.parametrize("extra", [-1, 0, 1, 7, 8])
def test_line_feeds_at_the_edges_of_tiles(extra: int) -> None:
    lines = b"x" * (TILE_BYTES - 1) + b"\n\n" + b"x" * (TILE_BYTES - 2 + extra) + b"\nxx\n"
    chunk = without_memory(lines)

    assert LineEndFinder().find(chunk).tolist() == positions(chunk)


def test_what_an_earlier_chunk_left_behind_is_not_found() -> None:
    finder = LineEndFinder()
    finder.find(without_memory(b"\n" * 100))
    chunk = without_memory(b"x" * 12 + b"\n")

    assert finder.find(chunk).tolist() == [chunk.end - 1]


def test_long_lines_that_turn_short() -> None:
    chunk = Chunk.of((b"x" * (3 * LONG_LINE_BYTES) + b"\n") * 4 + b"short\n" * 3000)

    assert LineEndFinder().find(chunk).tolist() == positions(chunk)
