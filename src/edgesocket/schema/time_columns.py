"""Dates and timestamps of a whole column at once.

Most columns hold one spelling throughout. Texts of one length are laid under each other as a matrix of characters, and
digits, separators and the calendar are checked column by column (numpy), at a tenth of the cost of one text alone.
A text that is not of the spelling of the first one of its length, or is no right time at all, is left to
`schema.values`, whose word is final: these functions only ever say the same, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgesocket.schema.types import FieldType, Kind, SimpleType

MIN_TEXTS = 16
"""Below this the fixed cost is more than is saved."""

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_DAY_US = 86_400_000_000
_DATE_CHARS = 10
_SECOND_CHARS = 19
_ZONE_CHARS = 6
_MAX_FRACTION_DIGITS = 9
_LAST_DAY = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MIN_US, _MAX_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""
_MAX_OFFSET_MINUTES = 18 * 60


def column_reader(kind: FieldType) -> Callable[[Sequence[str]], list[Any]] | None:
    """What reads many texts of a type: it returns their values, None where it does not say. None: there is none."""
    return _READERS.get(kind.kind) if isinstance(kind, SimpleType) else None


def days(texts: Sequence[str]) -> list[int | None]:
    """Days since 1970-01-01 of dates like 2022-09-24."""
    return _by_length(texts, _days)


def wall_times(texts: Sequence[str]) -> list[int | None]:
    """Microseconds of timestamps like 2022-09-24T22:45:00.123+08:00, in UTC where a zone is given."""
    return _by_length(texts, _wall_times)


def moments(texts: Sequence[str]) -> list[tuple[int, int] | None]:
    """The same with the offset, for texts that have one."""
    return _by_length(texts, _moments)


_READERS: dict[Kind, Callable[[Sequence[str]], list[Any]]] = {
    Kind.DATE: days,
    Kind.TIMESTAMP: wall_times,
    Kind.TIMESTAMP_TZ: moments,
}

_Group = Callable[[Codes], tuple[list[Any], Mask]]


def _by_length(texts: Sequence[str], read: _Group) -> list[Any]:
    """Read the texts of each length together."""
    made: list[Any] = [None] * len(texts)
    joined = "".join(texts)
    if not joined.isascii():
        return made
    codes = np.frombuffer(joined.encode(), dtype=np.uint8)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    starts = np.cumsum(lengths) - lengths
    for length in np.unique(lengths).tolist():
        where = np.flatnonzero(lengths == length)
        if length < _DATE_CHARS or length > _SECOND_CHARS + 1 + _MAX_FRACTION_DIGITS + _ZONE_CHARS:
            continue
        if len(where) < MIN_TEXTS:
            continue
        values, right = read(codes[starts[where][:, None] + np.arange(length)])
        for index, value, is_right in zip(where.tolist(), values, right.tolist(), strict=True):
            if is_right:
                made[index] = value
    return made


def _number(codes: Codes, first: int, stop: int) -> tuple[Ints, Mask]:
    """The number that the characters `first..stop-1` spell, and where they are digits."""
    digits = codes[:, first:stop] - np.uint8(ord("0"))
    weights = 10 ** np.arange(stop - first - 1, -1, -1, dtype=np.int64)
    return digits.astype(np.int64) @ weights, digits.max(axis=1) < 10


def _date(codes: Codes) -> tuple[Ints, Mask]:
    """Days since 1970-01-01 of the first ten characters, and where they are a date."""
    year, right = _number(codes, 0, 4)
    month, is_month = _number(codes, 5, 7)
    day, is_day = _number(codes, 8, 10)
    separator = codes[:, 4]
    right &= is_month & is_day & (separator == codes[:, 7])
    right &= (separator == ord("-")) | (separator == ord("/")) | (separator == ord("."))
    right &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    right &= day <= _LAST_DAY[np.where(right, month, 0)] + (leap & (month == 2))
    # Years that begin in March have their odd day at the end.
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468, right


def _days(codes: Codes) -> tuple[list[int], Mask]:
    count, right = _date(codes)
    return count.tolist(), right & (codes.shape[1] == _DATE_CHARS)


def _local(codes: Codes) -> tuple[Ints, Mask]:
    """Microseconds of the first nineteen characters on the writer's clock, and where they are a timestamp."""
    count, right = _date(codes)
    hour, is_hour = _number(codes, 11, 13)
    minute, is_minute = _number(codes, 14, 16)
    second, is_second = _number(codes, 17, 19)
    right &= is_hour & is_minute & is_second & (hour < 24) & (minute < 60) & (second < 60)
    right &= (codes[:, 13] == ord(":")) & (codes[:, 16] == ord(":"))
    right &= (codes[:, 10] == ord("T")) | (codes[:, 10] == ord(" "))
    return count * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000, right


def _timestamps(codes: Codes) -> tuple[Ints, Ints | None, Mask]:
    """Microseconds in UTC or without a zone, the offsets if there are zones, and where that is right."""
    length = codes.shape[1]
    if length < _SECOND_CHARS:
        nothing = np.zeros(len(codes), dtype=np.int64)
        return nothing, None, nothing == 1
    made_us, right = _local(codes)
    zone_chars = _zone_chars(codes[0])
    end = length - zone_chars
    if end > _SECOND_CHARS:
        digits = end - _SECOND_CHARS - 1
        if not 1 <= digits <= _MAX_FRACTION_DIGITS:
            return made_us, None, right & False
        fraction, is_fraction = _number(codes, _SECOND_CHARS + 1, end)
        right &= is_fraction & (codes[:, _SECOND_CHARS] == ord("."))
        made_us += fraction * 10 ** (6 - digits) if digits <= 6 else fraction // 10 ** (digits - 6)
    if not zone_chars:
        return made_us, None, right
    offset, is_zone = _offsets(codes[:, end:])
    made_us -= offset * 60_000_000
    return made_us, offset, right & is_zone & (made_us >= _MIN_US) & (made_us <= _MAX_US)


def _zone_chars(codes: Codes) -> int:
    """How many characters at the end of a text are its zone: `Z`, `+08:00`, or none."""
    if codes[-1] == ord("Z"):
        return 1
    has_offset = len(codes) >= _SECOND_CHARS + _ZONE_CHARS and codes[-_ZONE_CHARS] in b"+-"
    return _ZONE_CHARS if has_offset else 0


def _offsets(codes: Codes) -> tuple[Ints, Mask]:
    """The minutes that zones are ahead of UTC, and where they are zones of this length."""
    if codes.shape[1] == 1:
        return np.zeros(len(codes), dtype=np.int64), codes[:, 0] == ord("Z")
    hours, is_hours = _number(codes, 1, 3)
    minutes, is_minutes = _number(codes, 4, 6)
    offset = hours * 60 + minutes
    right = is_hours & is_minutes & (minutes < 60) & (offset <= _MAX_OFFSET_MINUTES) & (codes[:, 3] == ord(":"))
    negative = codes[:, 0] == ord("-")
    return np.where(negative, -offset, offset), right & (negative | (codes[:, 0] == ord("+")))


def _wall_times(codes: Codes) -> tuple[list[int], Mask]:
    made_us, _, right = _timestamps(codes)
    return made_us.tolist(), right


def _moments(codes: Codes) -> tuple[list[tuple[int, int]], Mask]:
    made_us, offset, right = _timestamps(codes)
    if offset is None:
        return [(0, 0)] * len(codes), right & False
    return list(zip(made_us.tolist(), offset.tolist(), strict=True)), right
