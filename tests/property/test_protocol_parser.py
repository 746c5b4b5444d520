"""The columnar reading, the exact reading and an independent model are one function of the bytes."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protocol_model import flatten, meaning_of
from protocol_strategies import odd_lines, streams

from edgesocket.protocol import blocks
from edgesocket.protocol.blocks import BlockParser
from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.exact import LineRules, exact_events, split_lines


def whole_lines(stream: bytes) -> bytes:
    return stream[: stream.rfind(b"\n") + 1]


def parse(lines: bytes, rules: LineRules, *, columns_only: bool, consecutive: bool = True) -> list[blocks.LineEvent]:
    """What the parser makes of the lines: the same with the compiled loops as with numpy's."""
    compiled = parse_once(lines, rules, columns_only=columns_only, consecutive=consecutive)
    with patch.object(blocks, "KERNELS", None):
        events = parse_once(lines, rules, columns_only=columns_only, consecutive=consecutive)
    assert flatten(events, rules.check_utf8) == flatten(compiled, rules.check_utf8)
    return events


def parse_once(lines: bytes, rules: LineRules, *, columns_only: bool, consecutive: bool) -> list[blocks.LineEvent]:
    parser = BlockParser(rules)
    parser._consecutive = consecutive
    if not columns_only:
        return parser.parse(Chunk.of(lines))
    with (
        patch.object(blocks, "MIN_RUN_LINES", 1),
        patch.object(blocks, "STRETCH_LINES", 3),
        patch.object(blocks, "UTF8_PIECE_BYTES", 40),
        patch.object(blocks, "_may_have_few_lines", lambda raw, most: False),
    ):
        return parser.parse(Chunk.of(lines))


@settings(max_examples=300, deadline=None)
@given(streams(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([5, 20, 40, 10**6]))
@example(b"\n", True, True, True, 10**6)
@example(b"\n\n\n\n\n\n\n\n\n\n", True, True, True, 10**6)
@example(b"__BATCH__:1:\n" * 3, True, True, True, 12)
@example(b"__BATCH__:1:x\n", True, True, True, 12)
@example(b"__BATCH__:1:x\r\n", True, True, True, 12)
@example(b"__BATCH__:1:\r\n", True, True, True, 12)
def test_nearly_valid_lines_mean_what_the_model_says(
    stream: bytes, columns_only: bool, consecutive: bool, check_utf8: bool, limit: int
) -> None:
    lines = whole_lines(stream)
    if not lines:
        return
    rules = LineRules(limit, check_utf8)

    events = parse(lines, rules, columns_only=columns_only, consecutive=consecutive)

    assert flatten(events, check_utf8) == meaning_of(lines, limit)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(odd_lines, st.binary(max_size=30)), max_size=60), st.booleans(), st.booleans())
def test_any_bytes_mean_what_the_model_says(parts: list[bytes], columns_only: bool, check_utf8: bool) -> None:
    lines = b"".join(parts) + b"\n"

    events = parse(lines, LineRules(10**6, check_utf8), columns_only=columns_only)

    assert flatten(events, check_utf8) == meaning_of(lines)


@settings(max_examples=100, deadline=None)
@given(streams(), st.booleans())
def test_exact_reading_means_what_the_model_says(stream: bytes, check_utf8: bool) -> None:
    lines = whole_lines(stream)

    events = exact_events(split_lines(lines), LineRules(10**6, check_utf8)) if lines else []

    assert flatten(events, check_utf8) == meaning_of(lines)


@pytest.mark.parametrize("digits", range(1, 20))
def test_every_byte_of_a_header_counts(digits: int) -> None:
    """Damage any byte of one header among regular ones, for every id width: only that line changes its meaning."""
    first = 10 ** (digits - 1) if digits > 1 else 1
    heads = [b"__BATCH__:%d:" % (first + n) for n in range(8)]
    lines = [head + b"payload\n" for head in heads]
    rules = LineRules(10**6, True)
    for place in range(len(heads[4])):
        for value in (b"/", b":", b"\0", b"9", b"\x7f", b"\x80", b"\xff", b"\n"):
            damaged = lines[4][:place] + value + lines[4][place + 1 :]
            stream = b"".join([*lines[:4], damaged, *lines[5:]])
            for columns_only, consecutive in ((True, True), (True, False), (False, True)):
                events = parse(stream, rules, columns_only=columns_only, consecutive=consecutive)
                assert flatten(events) == meaning_of(stream), (place, value)
