"""Where a line ends."""

from __future__ import annotations

import pytest

from edgesocket.protocol.lines import OVERLONG, LineSplitter


def test_one_cr_before_lf_belongs_to_the_line_end() -> None:
    assert LineSplitter(99).feed(b"a\r\nb\r\r\n\r\n\n") == [b"a", b"b\r", b"", b""]


@pytest.mark.parametrize("byte", [b"\r", b"\0", b"\v", b"\f", b"\x1c", b"\x85", "\u2028".encode(), b"\xff"])
def test_no_other_byte_ends_a_line(byte: bytes) -> None:
    assert LineSplitter(99).feed(b"a" + byte + b"b\n") == [b"a" + byte + b"b"]


def test_cr_at_the_edge_of_a_piece() -> None:
    splitter = LineSplitter(99)

    assert splitter.feed(b"a\r") == []
    assert splitter.feed(b"\nb\r") == [b"a"]
    assert splitter.feed(b"c\n") == [b"b\rc"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_limit_counts_the_line_without_its_end(end: bytes) -> None:
    assert LineSplitter(10).feed(b"x" * 10 + end + b"y" * 11 + end + b"z\n") == [b"x" * 10, OVERLONG, b"z"]


def test_the_limit_holds_byte_by_byte() -> None:
    splitter = LineSplitter(10)
    stream = b"x" * 10 + b"\r\n" + b"y" * 10 + b"\rz\n" + b"w" * 40 + b"\r\nlast\n"

    lines = [line for n in range(len(stream)) for line in splitter.feed(stream[n : n + 1])]

    assert lines == [b"x" * 10, OVERLONG, OVERLONG, b"last"]


def test_an_overlong_line_is_not_held_and_told_at_its_end() -> None:
    splitter = LineSplitter(1000)

    for _ in range(100):
        assert splitter.feed(b"x" * 600) == []
        assert splitter.held_bytes <= 1001
    assert splitter.held_bytes == 0
    assert splitter.feed(b"xx\nnext\n") == [OVERLONG, b"next"]


def test_a_last_line_without_lf_is_no_line() -> None:
    assert LineSplitter(99).feed(b"a\nb") == [b"a"]
