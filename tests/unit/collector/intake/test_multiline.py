"""Which lines go together."""

from __future__ import annotations

import pytest

from edgesocket.collector.intake.framing import Framer, FramingOptions, LongLines
from edgesocket.collector.intake.multiline import INDENTED, MultilineRule


def framer(rule: MultilineRule, **options: object) -> Framer:
    return Framer(FramingOptions(multiline=rule, **options))  # type: ignore[arg-type]


def test_a_start_pattern_begins_records() -> None:
    one = framer(MultilineRule(start=r"^\["))
    assert one.feed(b"tail\n[1] a\n\tat b\n\n[2] c\n") == [b"tail", rb"[1] a\n" + b"\tat b" + rb"\n"]
    assert one.flush() == [b"[2] c"]


def test_indented_lines_go_on() -> None:
    one = framer(MultilineRule(continuation=INDENTED, joiner=" | "))
    assert one.feed(b"a\n  b\n\tc\nd\n") == [b"a |   b | \tc"]


def test_an_end_pattern_ends_records_at_once() -> None:
    one = framer(MultilineRule(end=r";$"))
    assert one.feed(b"select 1\nfrom x;\nselect") == [rb"select 1\nfrom x;"]
    assert one.state.offset == 17


def test_the_position_is_the_first_line_of_what_is_not_complete() -> None:
    one = framer(MultilineRule(start="^S"))
    one.feed(b"S1\nx\nS2\ny\nz")
    assert one.state.offset == 5
    again = framer(MultilineRule(start="^S"))
    again = Framer(FramingOptions(multiline=MultilineRule(start="^S")), one.state)
    assert again.feed(b"S2\ny\nzz\nS3\n") == [rb"S2\ny\nzz"]


def test_caps_end_a_record_and_lose_nothing() -> None:
    one = framer(MultilineRule(start="^S", max_lines=2))
    assert one.feed(b"S\na\nb\nc\nS\n") == [rb"S\na", rb"b\nc"]
    assert one.counts.records_capped == 1
    one = framer(MultilineRule(start="^S", max_bytes=6))
    assert one.feed(b"S1\naa\nbb\nS\n") == [rb"S1\naa", b"bb"]


def test_a_long_line_is_a_record_of_its_own() -> None:
    one = framer(MultilineRule(start="^S"), max_line_bytes=16, long_lines=LongLines.CUT)
    assert one.feed(b"S1\n" + b"x" * 20 + b"\nb\nS2\n") == [b"S1", b"x" * 16, b"b"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "needs"),
        ({"start": "a", "continuation": "b"}, "not both"),
        ({"start": "("}, "regular"),
        ({"start": "a", "joiner": "\n"}, "line feed"),
        ({"start": "a", "max_lines": 0}, "at least"),
    ],
)
def test_impossible_rules_are_refused(options: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        MultilineRule(**options)  # type: ignore[arg-type]
