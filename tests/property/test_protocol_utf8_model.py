"""The whole-array UTF-8 check and the decoder agree on any bytes."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.protocol import utf8

characters = st.characters(exclude_categories=["Cs"]).map(str.encode)
damaged = st.sampled_from(
    [
        b"\x80",
        b"\xbf",
        b"\xc0",
        b"\xc1\x80",
        b"\xc2",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xe0\xa0",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf0\x90\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
    ]
)
texts = st.lists(st.one_of(characters, characters, characters, st.just(b"a"), damaged), max_size=25).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(texts, st.binary(max_size=40)), st.integers(4, 40))
def test_agrees_with_the_decoder(text: bytes, tile_bytes: int) -> None:
    text += b"\n"
    try:
        text.decode("utf-8")
        expected = True
    except UnicodeDecodeError:
        expected = False

    with patch.object(utf8, "TILE_BYTES", tile_bytes):
        checker = utf8.Utf8Checker()
        assert checker.is_utf8(np.frombuffer(text, dtype=np.uint8), 0, len(text)) is expected
