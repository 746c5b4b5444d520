"""Syslog over TCP: both framings, told apart per message, whatever the pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.collector.intake.syslog_framing import ESCAPED_LINE_FEED, SyslogFraming, clean_message

LIMIT = 40


def messages_of(*pieces: bytes, limit: int = LIMIT) -> list[bytes]:
    framing = SyslogFraming(limit)
    found = [message for piece in pieces for message in framing.feed(piece)]
    return found + framing.end()


def test_lines_are_messages() -> None:
    assert messages_of(b"<34>one\n<35>two\r\n<36>three\n") == [b"<34>one", b"<35>two", b"<36>three"]


def test_a_count_ends_a_message_not_its_line_feeds() -> None:
    assert messages_of(b"8 <34>a\nb\n7 <34>one") == [b"<34>a" + ESCAPED_LINE_FEED + b"b", b"<34>one"]


def test_both_framings_on_one_connection() -> None:
    assert messages_of(b"<1>x\n6 <2>abc<3>y\n5 <4>zz") == [b"<1>x", b"<2>abc", b"<3>y", b"<4>zz"]


def test_a_line_that_only_looks_like_a_count_is_a_line() -> None:
    assert messages_of(b"2026-11-30 no priority\n") == [b"2026-11-30 no priority"]
    assert messages_of(b"12345678901234 digits\n") == [b"12345678901234 digits"]


def test_what_is_too_long_is_cut_and_its_rest_is_skipped() -> None:
    framing = SyslogFraming(8)
    assert framing.feed(b"<1>" + b"x" * 30 + b"\n<2>ok\n") == [b"<1>xxxxx", b"<2>ok"]
    assert framing.feed(b"20 <3>" + b"y" * 17 + b"<4>ok\n") == [b"<3>yyyyy", b"<4>ok"]
    assert framing.cut == 2


def test_nothing_that_is_too_long_is_held() -> None:
    framing = SyslogFraming(100)
    for _ in range(1000):
        framing.feed(b"<1>" + b"x" * 97)
    assert framing.held_bytes <= 100


def test_the_end_of_a_connection_ends_its_last_message() -> None:
    assert messages_of(b"<1>no line end") == [b"<1>no line end"]


def test_empty_messages_are_none() -> None:
    assert messages_of(b"\n\n<1>a\n\r\n\0\n") == [b"<1>a"]


def test_a_line_between_that_has_no_priority_is_a_line_of_its_own() -> None:
    assert messages_of(b"<1>a\nstack trace\n<2>b") == [b"<1>a", b"stack trace", b"<2>b"]
    assert messages_of(b"<1>a\n5 <2>bb\n<3>c") == [b"<1>a", b"<2>bb", b"<3>c"]


@pytest.mark.parametrize(("raw", "clean"), [(b"a\n", b"a"), (b"a\r\n\0", b"a"), (b"a\nb", b"a#012b"), (b"\n", b"")])
def test_a_message_has_no_line_feed(raw: bytes, clean: bytes) -> None:
    assert clean_message(raw) == clean


PARTS = st.lists(
    st.sampled_from(
        [b"<1>", b"\n", b"\r\n", b"5 <2>bb", b"7 ", b"12", b" ", b"x" * 10, b"y" * 50, b"<9>long" + b"z" * 60]
    ),
    max_size=30,
).map(b"".join)


@given(PARTS, st.lists(st.integers(0, 400), max_size=6))
def test_messages_do_not_depend_on_the_pieces(stream: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[begin:end] for begin, end in itertools.pairwise(places)]
    whole = messages_of(stream)
    assert messages_of(*pieces) == whole
    assert messages_of(*(bytes([byte]) for byte in stream)) == whole
    assert all(b"\n" not in message and message for message in whole)
