"""Durations and sizes."""

from __future__ import annotations

import pytest

from edgesocket.config.units import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("300000", 300_000),
        ("5 minutes", 300_000),
        ("300s", 300_000),
        ("300 s", 300_000),
        ("5m", 300_000),
        ("500 ms", 500),
        ("0.5s", 500),
        ("1h", 3_600_000),
        ("2 days", 172_800_000),
        ("1000000 ns", 1),
        ("1000 us", 1),
        ("1000 µs", 1),
        ("-1", -1),
        (" 7 ", 7),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration(text, "ms") == milliseconds


def test_a_bare_number_is_in_the_options_unit() -> None:
    assert parse_duration("3", "s") == 3
    assert parse_duration("3000 ms", "s") == 3


@pytest.mark.parametrize(
    ("text", "size"),
    [("65536", 65536), ("64 KiB", 65536), ("64k", 65536), ("64 kB", 64000), ("1.5 MiB", 1572864), ("2 GB", 2 * 10**9)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no number with a unit (ms, s, m, h, d)"),
        ("x", "is no number with a unit (ms, s, m, h, d)"),
        ("NaN", "is no number with a unit (ms, s, m, h, d)"),
        ("٣", "is no number with a unit (ms, s, m, h, d)"),
        ("1" * 31, "is no number with a unit (ms, s, m, h, d)"),
        ("5 lightyears", "has the unknown unit lightyears (known: ms, s, m, h, d)"),
        ("5 MS", "has the unknown unit MS (known: ms, s, m, h, d)"),
        ("99.5", "is no whole number of milliseconds"),
        ("1 us", "is no whole number of milliseconds"),
    ],
)
def test_what_is_no_duration_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text, "ms")

    assert str(caught.value) == reason


def test_half_a_byte_is_no_size() -> None:
    with pytest.raises(ValueError, match="no whole number of bytes"):
        parse_size("0.5")
