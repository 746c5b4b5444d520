"""Records do not depend on where the bytes are cut, nor on where a restart comes in between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.collector.intake.framing import Framer, FramingOptions, InvalidBytes, LongLines
from edgesocket.collector.intake.multiline import INDENTED, MultilineRule

TOKENS = ["a", "\n", "\r\n", "\r", "b c", "\t x", "START", "中文", "é", "𝒳", "ਊ", "\u0a0a\u0a00", "\ufeff"]
ENCODINGS = ["utf-8", "utf-16", "utf-16-be", "utf-32", "gbk", "gb18030", "latin-1", "shift_jis"]
RULES = [
    None,
    MultilineRule(start="START", max_lines=5, max_bytes=60),
    MultilineRule(continuation=INDENTED),
    MultilineRule(end="b c$"),
]

options = st.builds(
    FramingOptions,
    encoding=st.sampled_from(ENCODINGS),
    invalid=st.sampled_from(InvalidBytes),
    max_line_bytes=st.sampled_from([16, 17, 33, 1000]),
    long_lines=st.sampled_from(LongLines),
    skip_empty=st.booleans(),
    multiline=st.sampled_from(RULES),
)
broken = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)


def encoded(tokens: list[str], encoding: str, faults: list[tuple[int, int]]) -> bytes:
    data = bytearray("".join(tokens).encode(encoding, "ignore"))
    for at, value in faults:
        if at < len(data):
            data[at] = value
    return bytes(data)


def run(how: FramingOptions, data: bytes, cuts: list[int], restarts: set[int]) -> tuple[list[bytes], list[int]]:
    """Feed pieces of these sizes, the last size again and again; restart after the pieces named."""
    framer = Framer(how, positions=True)
    records: list[bytes] = []
    starts: list[int] = []
    piece = 0
    while framer.read_offset < len(data):
        size = cuts[min(piece, len(cuts) - 1)]
        records += framer.feed(data[framer.read_offset : framer.read_offset + size])
        starts += framer.starts
        if piece in restarts:
            framer = Framer(how, framer.state, positions=True)
        piece += 1
    records += framer.flush(final=True)
    return records, starts + framer.starts


def by_lines(how: FramingOptions, data: bytes, cuts: list[int], restarts: set[int]) -> list[bytes]:
    """As `run`, the way files are read: without positions, lines not taken apart where they need not be."""
    framer = Framer(how)
    records: list[bytes] = []
    piece = 0
    while framer.read_offset < len(data):
        size = cuts[min(piece, len(cuts) - 1)]
        records += framer.feed_lines(data[framer.read_offset : framer.read_offset + size])
        if piece in restarts:
            framer = Framer(how, framer.state)
        piece += 1
    return records + framer.flush(final=True)


@settings(max_examples=400, deadline=None)
@given(
    options,
    st.lists(st.sampled_from(TOKENS), max_size=80),
    broken,
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.sets(st.integers(0, 30), max_size=4),
)
def test_cuts_and_restarts_change_nothing(
    how: FramingOptions, tokens: list[str], faults: list[tuple[int, int]], cuts: list[int], restarts: set[int]
) -> None:
    data = encoded(tokens, how.encoding, faults)
    whole = run(how, data, [len(data) + 1], set())
    assert run(how, data, cuts, restarts) == whole
    assert run(how, data, [1], set()) == whole
    plain = Framer(how)
    assert plain.feed(data) + plain.flush(final=True) == whole[0]
    assert by_lines(how, data, [len(data) + 1], set()) == whole[0]
    assert by_lines(how, data, cuts, restarts) == whole[0]
    assert not [record for record in whole[0] if b"\n" in record or len(record) > how.max_line_bytes]
    assert whole[1] == sorted(whole[1])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=60), st.sampled_from(ENCODINGS))
def test_the_lines_are_those_of_a_plain_split(tokens: list[str], encoding: str) -> None:
    text = "".join(tokens).encode(encoding, "ignore").decode(encoding)
    data = text.encode(encoding)
    framer = Framer(FramingOptions(encoding=encoding))
    expected = text.removeprefix("\ufeff" if encoding not in ("utf-16", "utf-32", "gbk", "latin-1") else "\0").split(
        "\n"
    )
    if not expected[-1]:
        expected.pop()
    got = framer.feed(data) + framer.flush(final=True)
    assert got == [
        (line.removesuffix("\r") if at < len(expected) - 1 or text.endswith("\n") else line).encode()
        for at, line in enumerate(expected)
    ]
