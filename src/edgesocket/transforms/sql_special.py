"""Functions of the Sql transform that cannot be written as a template: they look at types, or at literals.

Each writer takes a `Call` and returns DuckDB SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgesocket.transforms.java_regex import Untranslatable
from edgesocket.transforms.sql_formats import holds, strftime_pattern
from edgesocket.transforms.sql_functions import END_OF_SUBSTRING, START_OF_SUBSTRING, filled
from edgesocket.transforms.sql_tree import QueryRefused

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NARROW = ("TINYINT", "SMALLINT")
_FLOATING = ("FLOAT", "DOUBLE")
_INTERVALS = {
    "YEAR": "to_years(CAST({1} AS INTEGER))",
    "MONTH": "to_months(CAST({1} AS INTEGER))",
    "WEEK": "to_weeks(CAST({1} AS INTEGER))",
    "DAY": "to_days(CAST({1} AS INTEGER))",
    "HOUR": "to_hours({1})",
    "MINUTE": "to_minutes({1})",
    "SECOND": "to_microseconds({1} * 1000000)",
    "MILLISECOND": "to_microseconds({1} * 1000)",
}
_DATE_UNITS = ("YEAR", "MONTH", "WEEK", "DAY")
_MONTHS_BETWEEN = (
    "((year({1}) - year({0})) * 12 + month({1}) - month({0})"
    " - CASE WHEN CAST({1} AS DATE) > CAST({0} AS DATE) AND day({1}) < day({0}) THEN 1"
    " WHEN CAST({1} AS DATE) < CAST({0} AS DATE) AND day({1}) > day({0}) THEN -1 ELSE 0 END)"
)
_BETWEEN = "((epoch_us({1}) - epoch_us({0})) // %d)"
_DIFFERENCES = {
    "YEAR": f"({_MONTHS_BETWEEN} // 12)",
    "MONTH": _MONTHS_BETWEEN,
    "WEEK": _BETWEEN % (7 * 86_400_000_000),
    "DAY": "date_diff('day', CAST({0} AS DATE), CAST({1} AS DATE))",
    "DAYTIME": _BETWEEN % 86_400_000_000,
    "HOUR": _BETWEEN % 3_600_000_000,
    "MINUTE": _BETWEEN % 60_000_000,
    "SECOND": _BETWEEN % 1_000_000,
    "MILLISECOND": _BETWEEN % 1_000,
}
_TRUNCATED = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_FIELDS = {
    "CENTURY": "century",
    "DAY": "day",
    "DECADE": "decade",
    "DOW": "dow",
    "DAYOFWEEK": "dow",
    "DOY": "doy",
    "HOUR": "hour",
    "ISODOW": "isodow",
    "ISOYEAR": "isoyear",
    "MICROSECONDS": "microseconds",
    "MILLENNIUM": "millennium",
    "MILLISECONDS": "milliseconds",
    "MINUTE": "minute",
    "MONTH": "month",
    "QUARTER": "quarter",
    "SECOND": "second",
    "WEEK": "week",
    "YEAR": "year",
}
_ZONE = re.compile(r"(?:UTC|GMT)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?|Z")
_REGEX_FLAGS = {"i": "i", "n": "s", "m": "m"}
_WHOLE_TEXT = r"'\s*[+-]?[0-9]+\s*'"


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a function.

    Attributes:
        name: as it is called, in capitals.
        arguments: their SQL.
        literals: the text or number an argument is, None where it is computed.
        type_of: asks DuckDB for the type of an expression.
    """

    name: str
    arguments: list[str]
    literals: list[Any]
    type_of: Callable[[str], str]

    def type_at(self, number: int) -> str:
        """DuckDB's type of an argument."""
        return self.type_of(self.arguments[number])

    def text_at(self, number: int, what: str) -> str:
        """A literal text.

        Raises:
            QueryRefused: it is computed, or no text.
        """
        value = self.literals[number]
        if not isinstance(value, str):
            raise QueryRefused(f"{self.name} needs {what} as a text in the query")
        return value

    def unit(self, number: int, units: Mapping[str, str] | tuple[str, ...]) -> str:
        """The unit of time that an argument names; DAY where it is left out."""
        if number >= len(self.arguments):
            return "DAY"
        unit = self.text_at(number, "the unit").upper()
        if unit not in units:
            raise QueryRefused(f"{self.name} does not know the unit {unit}", f"one of {', '.join(units)}")
        return unit

    def pattern(self, number: int) -> str:
        """The literal of strftime for a literal pattern of Java."""
        try:
            return _quoted(strftime_pattern(self.text_at(number, "the pattern")))
        except Untranslatable as error:
            raise QueryRefused(f"the pattern of {self.name} {error}") from None


def is_text_type(kind: str) -> bool:
    """Whether DuckDB calls a text by this."""
    return kind == "VARCHAR"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _as_text(call: Call, number: int) -> str:
    written = call.arguments[number]
    return written if is_text_type(call.type_at(number)) else f"CAST({written} AS VARCHAR)"


def _octets(call: Call) -> str:
    size = f"octet_length({call.arguments[0]})" if call.type_at(0) == "BLOB" else f"strlen({_as_text(call, 0)})"
    return f"CAST({size} * {8 if call.name == 'BIT_LENGTH' else 1} AS BIGINT)"


def _concat_ws(call: Call) -> str:
    return f"concat_ws(coalesce({call.arguments[0]}, ''), {', '.join(call.arguments[1:])})"


def _rawtohex(call: Call) -> str:
    if call.type_at(0) == "BLOB":
        return f"lower(hex({call.arguments[0]}))"
    letters = f"string_split({_as_text(call, 0)}, '')"
    return f"array_to_string(list_transform({letters}, lambda c: printf('%04x', unicode(c))), '')"


def _to_base64(call: Call) -> str:
    if call.type_at(0) == "BLOB":
        return f"to_base64({call.arguments[0]})"
    return f"to_base64(encode({_as_text(call, 0)}))"


def _substring(call: Call) -> str:
    arguments = [_as_text(call, 0), *call.arguments[1:]]
    start = filled(START_OF_SUBSTRING, arguments)
    end = filled(END_OF_SUBSTRING, arguments) if len(arguments) == 3 else ""
    first = call.literals[1]
    if isinstance(first, int) and first >= 0:  # the usual case, without naming the text more than once
        start = str(max(first, 1))
        end = f"({start} + {arguments[2]})" if end else ""
    if not end or arguments[2] == "NULL":
        return f"nullif(substr({arguments[0]}, {start}), '')"
    return f"nullif(substr({arguments[0]}, {start}, greatest({end} - {start}, 0)), '')"


def _regex(call: Call, number: int, flags_at: int) -> str:
    """The literal of a pattern, the flags put in front."""
    pattern = call.text_at(number, "the pattern")
    flags = ""
    if flags_at < len(call.arguments) and call.arguments[flags_at] != "NULL":
        for flag in call.text_at(flags_at, "the flags"):
            if flag == "c":
                flags = flags.replace("i", "")
            elif flag in _REGEX_FLAGS:
                flags += _REGEX_FLAGS[flag]
            else:
                raise QueryRefused(f"{call.name} does not know the flag {flag}", "one of i, c, n, m")
    return _quoted(f"(?{''.join(sorted(set(flags)))}){pattern}" if flags else pattern)


def _regexp_replace(call: Call) -> str:
    replacement = call.text_at(2, "the replacement")
    made, at = "", 0
    while at < len(replacement):
        letter = replacement[at]
        following = replacement[at + 1] if at + 1 < len(replacement) else ""
        if letter == "$" and following.isascii() and following.isdigit():
            made, at = made + "\\" + following, at + 2
        elif letter == "$" or (letter == "\\" and not following):
            raise QueryRefused(f"the replacement of {call.name} has a {letter} that stands for nothing")
        elif letter == "\\":
            made, at = made + following.replace("\\", "\\\\"), at + 2
        else:
            made, at = made + letter, at + 1
    return f"regexp_replace({call.arguments[0]}, {_regex(call, 1, 3)}, {_quoted(made)}, 'g')"


def _regexp_like(call: Call) -> str:
    return f"regexp_matches({call.arguments[0]}, {_regex(call, 1, 2)})"


def _regexp_substr(call: Call) -> str:
    if len(call.arguments) not in (2, 6):
        raise QueryRefused(f"{call.name} takes 2 or 6 arguments, not {len(call.arguments)}")
    numbers = [1, 1, 0]
    for place, number in ((0, 2), (1, 3), (2, 5)):
        if number < len(call.arguments) and call.arguments[number] != "NULL":
            value = call.literals[number]
            if not isinstance(value, int) or value < (0 if number == 5 else 1):
                raise QueryRefused(f"{call.name} needs its position, occurrence and group as numbers in the query")
            numbers[place] = value
    position, occurrence, group = numbers
    text = call.arguments[0] if position == 1 else f"substr({call.arguments[0]}, {position})"
    return f"regexp_extract_all({text}, {_regex(call, 1, 4)}, {group})[{occurrence}]"


def _to_char(call: Call) -> str:
    kind = call.type_at(0)
    if len(call.arguments) == 2 and kind in ("DATE", "TIMESTAMP", "TIME"):
        return _format_time(call)
    return f"CAST({call.arguments[0]} AS VARCHAR)"


def _format_time(call: Call) -> str:
    pattern = call.pattern(1)
    moment = call.arguments[0]
    if call.type_at(0) == "TIME":
        moment = f"(DATE '1970-01-01' + {moment})"
    return f"strftime({moment}, {pattern})"


def _is_date(call: Call) -> str:
    return f"(try_strptime({call.arguments[0]}, {call.pattern(1)}) IS NOT NULL)"


def _parse_time(call: Call) -> str:
    pattern = call.pattern(1)
    date, time = holds(call.text_at(1, "the pattern"))
    moment = f"strptime({call.arguments[0]}, {pattern})"
    if date and time:
        return moment
    return f"CAST({moment} AS {'DATE' if date else 'TIME'})"


def _from_unixtime(call: Call) -> str:
    pattern = call.pattern(1)
    moment = f"make_timestamp(CAST({call.arguments[0]} AS BIGINT) * 1000000)"
    if len(call.arguments) == 3:
        zone = _ZONE.fullmatch(call.text_at(2, "the zone"))
        if zone is None:
            raise QueryRefused(f"{call.name} knows zones as offsets only", "write the zone like UTC+8")
        sign, hours, minutes = zone.groups()
        offset = (int(hours or 0) * 60 + int(minutes or 0)) * (-1 if sign == "-" else 1)
        moment = f"({moment} + to_minutes({offset}))"
    return f"strftime({moment}, {pattern})"


def _date_add(call: Call) -> str:
    unit = call.unit(2, _INTERVALS)
    added = f"({filled('{0} + ' + _INTERVALS[unit], call.arguments)})"
    if call.type_at(0) == "DATE" and unit in _DATE_UNITS:
        return f"CAST({added} AS DATE)"
    return added


def _date_diff(call: Call) -> str:
    return f"CAST({filled(_DIFFERENCES[call.unit(2, _DIFFERENCES)], call.arguments)} AS BIGINT)"


def _date_trunc(call: Call) -> str:
    return f"CAST(date_trunc('{call.unit(1, _TRUNCATED).lower()}', {call.arguments[0]}) AS TIMESTAMP)"


def _extract(call: Call) -> str:
    field = call.text_at(0, "the field").upper()
    if field == "EPOCH":
        return f"CAST(floor(epoch({call.arguments[1]})) AS BIGINT)"
    if field not in _FIELDS:
        raise QueryRefused(f"EXTRACT does not know the field {field}", f"one of {', '.join((*_FIELDS, 'EPOCH'))}")
    return f"CAST(date_part('{_FIELDS[field]}', {call.arguments[1]}) AS INTEGER)"


def _multi_if(call: Call) -> str:
    if len(call.arguments) % 2 == 0:
        raise QueryRefused("MULTI_IF needs a condition and a value in turn, and one value at the end")
    pairs = zip(call.arguments[:-1:2], call.arguments[1:-1:2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE {whens} ELSE {call.arguments[-1]} END"


def _whole(call: Call) -> str:
    """CEIL and FLOOR: the type of the argument stays, and a whole number is itself."""
    if call.type_at(0) in _WHOLE:
        return call.arguments[0]
    return f"{'floor' if call.name == 'FLOOR' else 'ceil'}({call.arguments[0]})"


def _truncate(call: Call) -> str:
    if call.type_at(0) in _WHOLE and len(call.arguments) == 1:
        return call.arguments[0]
    return f"trunc({', '.join(call.arguments)})"


def _not_by_zero(call: Call, done: str) -> str:
    divisor = call.literals[1]
    if isinstance(divisor, int) and divisor != 0:
        return done
    return f"CASE WHEN {call.arguments[1]} = 0 THEN error('division by zero') ELSE {done} END"


def _divided(call: Call) -> str:
    """Whole numbers make a whole number, as in Java."""
    left, right = call.type_at(0), call.type_at(1)
    if left in _WHOLE and right in _WHOLE:
        return _not_by_zero(call, f"{_widened(call, 0)} // {_widened(call, 1)}")
    done = f"{call.arguments[0]} / {call.arguments[1]}"
    return done if left in _FLOATING or right in _FLOATING else _not_by_zero(call, done)


def _modulo(call: Call) -> str:
    done = f"{call.arguments[0]} % {call.arguments[1]}"
    return done if call.type_at(1) in _FLOATING else _not_by_zero(call, done)


def _arithmetic(call: Call) -> str:
    """Small whole numbers are computed as INTEGER, as in Java."""
    return f"{_widened(call, 0)} {call.name} {_widened(call, 1)}"


def _widened(call: Call, number: int) -> str:
    written = call.arguments[number]
    return f"CAST({written} AS INTEGER)" if call.type_at(number) in _NARROW else written


def _cast(call: Call) -> str:
    """CAST and TRY_CAST: `arguments` are the value and the type."""
    value, target = call.arguments
    source = call.type_at(0)
    if target in _WHOLE and (source in _FLOATING or source.startswith("DECIMAL")):
        return f"{call.name}(trunc({value}) AS {target})"
    if target in _WHOLE and is_text_type(source):
        otherwise = "NULL" if call.name == "TRY_CAST" else f"error('it is no whole number: ' || left({value}, 40))"
        fits = f"regexp_full_match({value}, {_WHOLE_TEXT})"
        cast = f"{call.name}({value} AS {target})"
        return f"CASE WHEN {value} IS NULL THEN NULL WHEN {fits} THEN {cast} ELSE {otherwise} END"
    if target == "BLOB" and is_text_type(source):
        return f"encode({value})"
    if target == "VARCHAR" and source == "BLOB":
        return f"decode({value})"
    return f"{call.name}({value} AS {target})"


WRITERS: Mapping[str, Callable[[Call], str]] = {
    "octets": _octets,
    "concat_ws": _concat_ws,
    "rawtohex": _rawtohex,
    "to_base64": _to_base64,
    "substring": _substring,
    "regexp_replace": _regexp_replace,
    "regexp_like": _regexp_like,
    "regexp_substr": _regexp_substr,
    "to_char": _to_char,
    "format_time": _format_time,
    "is_date": _is_date,
    "parse_time": _parse_time,
    "from_unixtime": _from_unixtime,
    "date_add": _date_add,
    "date_diff": _date_diff,
    "date_trunc": _date_trunc,
    "extract": _extract,
    "multi_if": _multi_if,
    "whole": _whole,
    "truncate": _truncate,
    "modulo": _modulo,
    "/": _divided,
    "%": _modulo,
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "cast": _cast,
}
"""The writers by the name that the table of functions uses, and those of the operators."""
