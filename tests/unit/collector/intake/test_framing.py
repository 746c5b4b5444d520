"""What bytes become which records."""

from __future__ import annotations

import pytest

from edgesocket.collector.intake.encodings import encoding_name
from edgesocket.collector.intake.framing import (
    Framer,
    FramingOptions,
    FramingState,
    InvalidBytes,
    LongLines,
)


def records(data: bytes, **options: object) -> list[bytes]:
    framer = Framer(FramingOptions(**options))  # type: ignore[arg-type]
    return framer.feed(data) + framer.flush(final=True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"\n\r\n\n", [b"", b"", b""]),
        (b"no end", [b"no end"]),
        (b"a\nb\r", [b"a", b"b\r"]),
        ("a\x0b\x0c\x85\u2028b\n".encode(), ["a\x0b\x0c\x85\u2028b".encode()]),
        (b"\xff\x00\n", [b"\xff\x00"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
    ],
)
def test_only_lf_and_crlf_end_lines_and_bytes_stay(data: bytes, expected: list[bytes]) -> None:
    assert records(data) == expected


def test_empty_records_are_left_out_on_request() -> None:
    assert records(b"\na\n\r\n", skip_empty=True) == [b"a"]


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("utf-16", "\ufeffаਊ\r\né\n".encode("utf-16-le")),
        ("utf-16", "\ufeffаਊ\r\né\n".encode("utf-16-be")),
        ("utf-16", "аਊ\r\né\n".encode("utf-16-le")),
        ("utf-16-be", "аਊ\r\né\n".encode("utf-16-be")),
        ("utf-32", "\ufeffаਊ\r\né\n".encode("utf-32-be")),
    ],
)
def test_utf_16_and_32_are_read_by_mark_or_as_named(encoding: str, data: bytes) -> None:
    assert records(data, encoding=encoding) == ["аਊ".encode(), "é".encode()]


@pytest.mark.parametrize(
    ("encoding", "text"), [("gbk", "中文"), ("latin-1", "né"), ("shift_jis", "ソー"), ("big5", "功")]
)
def test_other_encodings_become_utf_8(encoding: str, text: str) -> None:
    assert records((text + "\r\n").encode(encoding) * 2, encoding=encoding) == [text.encode()] * 2


@pytest.mark.parametrize("encoding", ["cp500", "utf-7", "hz", "iso2022_jp", "no-such", "rot13", "utf-8-sig\0"])
def test_an_encoding_whose_lines_cannot_be_told_is_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match="encoding"):
        FramingOptions(encoding=encoding)


def test_names_of_encodings_are_pythons() -> None:
    assert [encoding_name(name) for name in ("UTF8", "ascii", "UTF-16LE")] == ["utf-8", "utf-8", "utf-16-le"]


def test_invalid_bytes_stay_or_are_replaced_and_counted() -> None:
    assert records(b"a\xffb\nc\n", invalid=InvalidBytes.REPLACE) == ["a\ufffdb".encode(), b"c"]
    assert records(b"a\x81\nc\n", encoding="gbk") == [b"a\x81", b"c"]
    framer = Framer(FramingOptions(encoding="gbk", invalid=InvalidBytes.REPLACE))
    assert framer.feed(b"a\x81\nc\n") == ["a\ufffd".encode(), b"c"]
    assert framer.counts.lines_invalid == 1


def test_a_long_line_is_split_between_characters() -> None:
    framer = Framer(FramingOptions(max_line_bytes=16))
    line = "é" * 8 + "x" + "é" * 9
    assert framer.feed((line + "\nok\n").encode()) == [b"\xc3\xa9" * 8, b"x" + b"\xc3\xa9" * 7, b"\xc3\xa9" * 2, b"ok"]
    assert framer.counts.lines_split == 2


@pytest.mark.parametrize("size", [16, 17, 18, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_long_line_is_cut_or_skipped_and_the_next_one_comes(size: int, end: bytes) -> None:
    data = b"a" * size + end + b"ok" + end
    fits = size == 16
    assert records(data, max_line_bytes=16, long_lines=LongLines.CUT) == [b"a" * 16, b"ok"]
    assert records(data, max_line_bytes=16, long_lines=LongLines.SKIP) == [b"a" * 16] * fits + [b"ok"]


def test_thrown_away_bytes_are_counted() -> None:
    framer = Framer(FramingOptions(max_line_bytes=16, long_lines=LongLines.SKIP))
    for _ in range(100):
        assert framer.feed(b"x" * 10) == []
    assert framer.state.skipping
    assert framer.pending_bytes <= 17
    assert framer.feed(b"\nok\n") == [b"ok"]
    assert (framer.counts.lines_skipped, framer.counts.bytes_skipped) == (1, 1001)


def test_an_idle_line_is_a_record_and_what_comes_later_another() -> None:
    framer = Framer(FramingOptions())
    assert framer.feed(b"abc") == []
    assert framer.flush() == [b"abc"]
    assert framer.state == FramingState(3, "utf-8", in_line=True)
    assert framer.flush() == []
    assert Framer(FramingOptions(), framer.state).feed(b"\nnext\n") == [b"next"]
    assert Framer(FramingOptions(), framer.state).feed(b"\r\nnext\n") == [b"next"]
    assert framer.feed(b"def\n\n") == [b"def", b""]


def test_half_a_character_waits_for_its_rest() -> None:
    framer = Framer(FramingOptions())
    framer.feed("aé".encode()[:2])
    assert framer.flush() == [b"a"]
    assert framer.feed("é".encode()[1:] + b"\n") == ["é".encode()]


def test_starts_are_the_offsets_of_records() -> None:
    framer = Framer(FramingOptions(), FramingState(100, "utf-8"), positions=True)
    assert (framer.feed(b"a\r\n\nccc\nd"), framer.starts) == ([b"a", b"", b"ccc"], [100, 103, 104])
    assert (framer.flush(), framer.starts) == ([b"d"], [108])


@pytest.mark.parametrize(
    ("options", "word"),
    [({"max_line_bytes": 1}, "max_line_bytes"), ({"idle_flush_s": 0.0}, "idle_flush_s")],
)
def test_impossible_options_are_refused(options: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        FramingOptions(**options)  # type: ignore[arg-type]
