"""From the text of one value to the value: numbers, dates, times and bytes. Every function here is exact or refuses.

Values are kept in the shape from which Arrow makes columns fastest: a date is the number of days since 1970-01-01, a
time the microseconds since midnight, a timestamp the microseconds since 1970-01-01T00:00:00. Nothing here asks a
clock or a time zone of the machine, and no value is read in the light of another.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow

MAX_NUMBER_CHARS = 1000
"""A longer number is refused for whole numbers and decimals: reading it takes more than linear time."""

FLOAT_LIMIT = float(2**128 - 2**103)
"""The smallest number that 32 bits round to infinity."""

_EPOCH = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_MIN_US = (date.min.toordinal() - _EPOCH) * _DAY_US
_MAX_US = (date.max.toordinal() - _EPOCH + 1) * _DAY_US - 1
_MAX_OFFSET_MINUTES = 18 * 60

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?\Z")
_PLAIN = re.compile(r"-?(?:0|([1-9][0-9]*+))(?:\.([0-9]++))?\Z")
_DATE = re.compile(r"([0-9]{4})(?:([-/.])([0-9]{2})\2([0-9]{2})|([0-9]{2})([0-9]{2})|年([0-9]{2})月([0-9]{2})日)\Z")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?\Z")
_TIMESTAMP = re.compile(
    r"(?:([0-9]{4})([-/.])([0-9]{2})\2([0-9]{2})[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"|([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2}))"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?\Z"
)
EXACT = Context(prec=MAX_NUMBER_CHARS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, Overflow, Inexact])
"""Arithmetic that refuses to round."""

Moment = tuple[int, int]
"""Microseconds since 1970-01-01T00:00:00 UTC, and the minutes that the writer's clock was ahead of UTC."""


class Unfit(Exception):  # noqa: N818 - never leaves the package; it becomes a SchemaMismatchError
    """A value that is not of the type.

    Attributes:
        why: what is wrong, where the type alone does not say it.
        path: where inside the column's value, as `.geo.lat` or `[2]`; set on the way out.
        expected: the type, in words; set on the way out.
        value: the JSON text of the value; set on the way out.
    """

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.path = ""
        self.expected = ""
        self.value = ""
        super().__init__(why)


def whole(text: str, minimum: int, maximum: int) -> int:
    """A whole number in any JSON spelling: 7, 7.0 and 70e-1 are 7."""
    number = int(text) if _INTEGER.match(text) else _whole_decimal(text)
    if not minimum <= number <= maximum:
        raise Unfit("out of range")
    return number


def _whole_decimal(text: str) -> int:
    number = any_number(text)
    if number.adjusted() > 20:
        raise Unfit("out of range")
    if number.adjusted() < 0 and number:
        raise Unfit("has a fraction")
    whole_part = number.to_integral_value(context=EXACT)
    if whole_part != number:
        raise Unfit("has a fraction")
    return int(whole_part)


def any_number(text: str) -> Decimal:
    """Any JSON number, exactly."""
    if not _NUMBER.match(text):
        raise Unfit
    if len(text) > MAX_NUMBER_CHARS:
        raise Unfit(f"a number of more than {MAX_NUMBER_CHARS} characters")
    try:
        number = EXACT.create_decimal(text)
    except (InvalidOperation, Overflow, Inexact):
        raise Unfit("out of range") from None
    return number if number else Decimal(0)


def real(text: str) -> float:
    """A number as 64 bits hold it, rounded to the nearest; -0 without a point is 0."""
    if text == "-0":
        return 0.0
    if not _NUMBER.match(text):
        raise Unfit
    number = float(text)
    if number - number != 0.0:
        raise Unfit("out of range")
    return number


def real_32(text: str) -> float:
    """The same, if 32 bits can hold about as much."""
    number = real(text)
    if not -FLOAT_LIMIT < number < FLOAT_LIMIT:
        raise Unfit("out of range")
    return number


def exact_decimal(text: str, precision: int, scale: int) -> Decimal:
    """A number of at most `precision` digits, `scale` of them behind the point; nothing is rounded."""
    plain = _PLAIN.match(text)
    if plain and len(plain[1] or "") <= precision - scale and len(plain[2] or "") <= scale:
        return Decimal(text)
    number = any_number(text)
    if number and number.adjusted() >= precision - scale:
        raise Unfit(f"more than {precision - scale} digits before the point")
    shortest = number.normalize(EXACT).as_tuple().exponent
    if not isinstance(shortest, int) or -shortest > scale:
        raise Unfit(f"more than {scale} digits behind the point")
    return number.quantize(Decimal((0, (1,), -scale)), context=EXACT)


def day(text: str) -> int:
    """A date: 2022-09-24, 2022/09/24, 2022.09.24, 20220924 or 2022年09月24日."""
    found = _DATE.match(text)
    if not found:
        raise Unfit
    year, _, month, of_month, month_2, of_month_2, month_3, of_month_3 = found.groups()
    return _days(year, month or month_2 or month_3, of_month or of_month_2 or of_month_3)


def _days(year: str, month: str, of_month: str) -> int:
    try:
        return date(int(year), int(month), int(of_month)).toordinal() - _EPOCH
    except ValueError:
        raise Unfit("there is no such day") from None


def time_of_day(text: str) -> int:
    """A time without a zone: 22:45, 22:45:00 or 22:45:00.123. More than six digits of a fraction are cut."""
    found = _TIME.match(text)
    if not found:
        raise Unfit
    return _microseconds(*found.groups())


def _microseconds(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise Unfit("a leap second" if seconds == 60 else "there is no such time")
    parts = int(fraction.ljust(6, "0")[:6]) if fraction else 0
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + parts


def wall_time(text: str) -> int:
    """A timestamp: as written where no zone is given, converted to UTC where one is."""
    local_us, zone = _split(text)
    return local_us if zone is None else _in_utc(local_us, _offset(zone))


def moment(text: str) -> Moment:
    """A timestamp with its zone, which must be given."""
    local_us, zone = _split(text)
    if zone is None:
        raise Unfit("no zone is given")
    offset = _offset(zone)
    return _in_utc(local_us, offset), offset


def _split(text: str) -> tuple[int, str | None]:
    """Microseconds since 1970-01-01T00:00:00 on the writer's clock, and the zone as written."""
    found = _TIMESTAMP.match(text)
    if not found:
        raise Unfit
    part = found.groups()
    if part[0] is not None:
        days, day_us = _days(part[0], part[2], part[3]), _microseconds(part[4], part[5], part[6], part[7])
    else:
        days, day_us = _days(part[8], part[9], part[10]), _microseconds(part[11], part[12], part[13], None)
    return days * _DAY_US + day_us, part[14]


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    minutes = int(zone[-2:]) if len(zone) > 3 else 0
    offset = int(zone[1:3]) * 60 + minutes
    if minutes > 59 or offset > _MAX_OFFSET_MINUTES:
        raise Unfit("there is no such zone")
    return -offset if zone[0] == "-" else offset


def _in_utc(local_us: int, offset: int) -> int:
    utc_us = local_us - offset * 60_000_000
    if not _MIN_US <= utc_us <= _MAX_US:
        raise Unfit("outside of the years 1 to 9999 in UTC")
    return utc_us


def binary(text: str) -> bytes:
    """Base64 of the common alphabet with its padding, in the one spelling that the bytes have."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Unfit("not base64") from None
    if b64encode(data).decode() != text:
        raise Unfit("not base64")
    return data


def truth(text: str) -> bool:
    """`true` or `false`, as JSON spells them."""
    if text not in ("true", "false"):
        raise Unfit
    return text == "true"


def same(text: str) -> str:
    """The text itself."""
    return text
