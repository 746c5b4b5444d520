"""UTF-8 checked in whole-array steps, against the decoder."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from edgesocket.protocol.utf8 import CONTEXT_BYTES, TILE_BYTES, Utf8Checker


def agrees_with_the_decoder(text: bytes, checker: Utf8Checker) -> bool:
    try:
        text.decode("utf-8")
        expected = True
    except UnicodeDecodeError:
        expected = False
    data = np.frombuffer(b"\xff\xe2" + text + b"\xff", dtype=np.uint8)
    return checker.is_utf8(data, 2, 2 + len(text)) is expected


EDGES = bytes.fromhex("00 41 7F 80 8F 90 9F A0 BF C0 C1 C2 DF E0 ED EF F0 F4 F5 FF")


@pytest.mark.parametrize("tail", [b"", b"\x80", b"\xbf\x80", b"\x80\x80\xbf", b"a\x80"])
def test_every_first_byte_with_every_kind_of_second_byte(tail: bytes) -> None:
    checker = Utf8Checker()

    for first, second in itertools.product(range(256), EDGES):
        assert agrees_with_the_decoder(bytes([first, second]) + tail + b"\n", checker), (first, second)


def test_every_code_point_at_a_border() -> None:
    borders = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF]
    checker = Utf8Checker()

    for one, two in itertools.product(borders, borders):
        assert agrees_with_the_decoder((chr(one) + chr(two) + "\n").encode(), checker)
    for surrogate in (0xD800, 0xDBFF, 0xDC00, 0xDFFF):
        assert agrees_with_the_decoder(chr(surrogate).encode("utf-8", "surrogatepass") + b"\n", checker)


@pytest.mark.parametrize("character", ["ä", "中", "😀"])
@pytest.mark.parametrize("damage", [None, b"a", b"\x80"])
def test_characters_across_the_edge_of_a_tile(character: str, damage: bytes | None) -> None:
    """Wherever the edge cuts the character, and when a byte is missing or there is one too many after the edge."""
    raw = character.encode()
    checker = Utf8Checker()
    for before in range(1, len(raw) + 1):
        after = raw[before:] if damage is None else damage
        text = b"x" * (TILE_BYTES - before) + raw[:before] + after + b"y" * 10 + b"\n"
        assert agrees_with_the_decoder(text, checker)


def test_the_context_is_as_long_as_the_longest_demand() -> None:
    assert len("😀".encode()) - 1 == CONTEXT_BYTES
