"""Durations and sizes as text: `300000`, `300s`, `5 minutes`, `16 MiB`.

A number without a unit is in the option's own unit (`_ms`: milliseconds). The result is always a whole number of that
unit: what would have to be rounded is refused, because a rounded limit is not the limit somebody wrote.
"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z\u00b5\u03bc]*)\Z")

_NANOSECONDS = {
    unit: factor
    for factor, units in {
        1: "ns nano nanos nanosecond nanoseconds",
        1_000: "us \u00b5s \u03bcs micro micros microsecond microseconds",
        1_000_000: "ms milli millis millisecond milliseconds",
        1_000_000_000: "s second seconds",
        60_000_000_000: "m minute minutes",
        3_600_000_000_000: "h hour hours",
        86_400_000_000_000: "d day days",
    }.items()
    for unit in units.split()
}

_BYTES = {"B": 1, "b": 1, "byte": 1, "bytes": 1}
for _power, (_letter, _binary, _decimal) in enumerate(
    (("K", "kibi", "kilo"), ("M", "mebi", "mega"), ("G", "gibi", "giga"), ("T", "tebi", "tera")), 1
):
    for _unit in (_letter, _letter.lower(), f"{_letter}i", f"{_letter}iB", f"{_binary}byte", f"{_binary}bytes"):
        _BYTES[_unit] = 1024**_power
    for _unit in (f"{_letter}B", f"{_decimal}byte", f"{_decimal}bytes"):
        _BYTES[_unit] = 1000**_power
_BYTES["kB"] = 1000


def parse_duration(text: str, unit: str) -> int:
    """Read a duration.

    Args:
        text: a number with or without a unit (ns, us, ms, s, m, h, d, or their long names).
        unit: unit of a bare number and of the result: "ms" or "s".

    Raises:
        ValueError: no number, an unknown unit, or no whole number of `unit`. Its text says which.
    """
    return _parse(text, unit, _NANOSECONDS, "ms, s, m, h, d")


def parse_size(text: str) -> int:
    """Read a size in bytes: `65536`, `64 KiB`, `64k` (both times 1024), `64 kB` (times 1000).

    Raises:
        ValueError: no number, an unknown unit, or no whole number of bytes. Its text says which.
    """
    return _parse(text, "bytes", _BYTES, "B, KiB, MiB, GiB, kB, MB, GB")


def _parse(text: str, unit: str, factors: dict[str, int], known: str) -> int:
    match = _QUANTITY.match(text.strip())
    if match is None:
        raise ValueError(f"is no number with a unit ({known})")
    number, written = match.groups()
    factor = factors.get(written or unit)
    if factor is None:
        raise ValueError(f"has the unknown unit {written} (known: {known})")
    # 60 digits times a factor below 2**47 fits Decimal only with more than its usual 28 places: use integers.
    digits = Decimal(number)
    numerator, denominator = digits.as_integer_ratio()
    whole, rest = divmod(numerator * factor, denominator * factors[unit])
    if rest:
        raise ValueError(f"is no whole number of {_LONG_UNITS[unit]}")
    return whole


_LONG_UNITS = {"ms": "milliseconds", "s": "seconds", "bytes": "bytes"}
