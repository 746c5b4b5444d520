"""The functions of the Sql transform: every function SeaTunnel's SQL knows, and what becomes of it here.

The table is the whole truth: a query may call what is in it and nothing else, so no function of DuckDB that reads
files or settings is ever in reach. A function is written as SQL of DuckDB in one of three ways: `forms`, one template
for each number of arguments; `many`, a DuckDB function that takes any number; or `special`, a rule of the compiler
that has to look at types or literals. Or it is refused, with the reason.

Where the two engines differ, the template follows SeaTunnel: positions count from 1, `NULL` inside CONCAT is nothing,
padding uses one character, an empty SUBSTRING is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ARGUMENT = re.compile(r"\{(\d)\}")
_PAD = "left(coalesce(nullif({%d}, ''), ' '), 1)"
_START = "greatest(CASE WHEN {1} = 0 THEN 1 WHEN {1} < 0 THEN length({0}) + {1} + 1 ELSE {1} END, 1)"
_END = "(CASE WHEN {1} = 0 THEN 1 WHEN {1} < 0 THEN length({0}) + {1} + 1 ELSE {1} END + {2})"
_FROM = "greatest({2}, 1)"
_FOUND = f"strpos(substr({{1}}, {_FROM}), {{0}})"
_HEAD = "substr({1}, 1, length({1}) + {2} + length({0}))"
_FOUND_BACK = f"strpos(reverse({_HEAD}), reverse({{0}}))"
_LOCATE = (
    "CAST(coalesce(strpos({1}, {0}), 0) AS INTEGER)",
    "CAST(coalesce(CASE"
    f" WHEN {{2}} >= 0 AND {_FOUND} > 0 THEN {_FOUND} + {_FROM} - 1"
    f" WHEN {{2}} < 0 AND length({{1}}) + {{2}} >= 0 AND {_FOUND_BACK} > 0"
    f" THEN length({_HEAD}) - {_FOUND_BACK} - length({{0}}) + 2"
    " ELSE 0 END, 0) AS INTEGER)",
)


def _swapped(template: str) -> str:
    return template.replace("{0}", "{x}").replace("{1}", "{0}").replace("{x}", "{1}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFunction:
    """One function.

    Attributes:
        name: as SeaTunnel spells it.
        group: the heading in the documentation.
        aliases: other names of the same function.
        forms: DuckDB SQL with `{0}`, `{1}` for the arguments, one a number of arguments.
        many: the DuckDB function that takes the arguments as they are, any number of them from `least` on.
        special: the rule of the compiler that writes it; `least` and `most` arguments.
        refused: why a query may not use it.
        replay: its result differs when rows are processed again after a restart.
        note: what is different from SeaTunnel, or worth knowing.
    """

    name: str
    group: str
    aliases: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    many: str = ""
    special: str = ""
    least: int = 1
    most: int = 1_000
    refused: str = ""
    replay: bool = False
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it can be called by."""
        return (self.name, *self.aliases)

    @property
    def mapping(self) -> str:
        """How it is mapped, for the documentation."""
        if self.refused:
            return "refused"
        if self.many:
            return f"DuckDB `{self.many}`"
        return "rewritten" if self.special or not self._is_plain() else f"DuckDB `{self.forms[0].split('(')[0]}`"

    def form(self, count: int) -> str | None:
        """The template for that number of arguments."""
        for form in self.forms:
            if argument_count(form) == count:
                return form
        return None

    def counts(self) -> str:
        """How many arguments it takes, in words."""
        if self.forms:
            return " or ".join(str(argument_count(form)) for form in self.forms)
        if self.most >= 1_000:
            return f"{self.least} or more"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"

    def _is_plain(self) -> bool:
        return all(re.fullmatch(r"\w+\((\{\d\}(, \{\d\})*)?\)", form) for form in self.forms)


def argument_count(template: str) -> int:
    """How many arguments a template needs."""
    return max((int(number) + 1 for number in _ARGUMENT.findall(template)), default=0)


def filled(template: str, arguments: list[str]) -> str:
    """The template with the arguments in it."""
    return _ARGUMENT.sub(lambda found: arguments[int(found[1])], template)


def _text(name: str, *forms: str, **more: object) -> SqlFunction:
    return SqlFunction(name=name, group="Text", forms=forms, **more)  # type: ignore[arg-type]


def _number(name: str, *forms: str, **more: object) -> SqlFunction:
    return SqlFunction(name=name, group="Numbers", forms=forms, **more)  # type: ignore[arg-type]


def _time(name: str, *forms: str, **more: object) -> SqlFunction:
    return SqlFunction(name=name, group="Date and time", forms=forms, **more)  # type: ignore[arg-type]


def _other(name: str, *forms: str, **more: object) -> SqlFunction:
    return SqlFunction(name=name, group="Everything else", forms=forms, **more)  # type: ignore[arg-type]


def _part_of_time(name: str, function: str, **more: object) -> SqlFunction:
    return _time(name, f"CAST({function}({{0}}) AS INTEGER)", **more)


def _above_zero(name: str, template: str, wrong: str = "{0} <= 0") -> str:
    return f"CASE WHEN {wrong} THEN error('{name} needs a number above 0') ELSE {template} END"


_RE2 = "The pattern is a text in the query, in RE2's dialect: no look-around, no back references."
_PATTERN = "The pattern is a text in the query, made of Java's letters."
_NOW = "CAST(make_timestamp(epoch_us(current_timestamp)) AS %s)"

_ALL = (
    _text("ASCII", "ascii(nullif({0}, ''))"),
    _text("BIT_LENGTH", special="octets", least=1, most=1),
    _text("CHAR_LENGTH", "length({0})", aliases=("LENGTH",), note="Counts characters, Java counts UTF-16 units."),
    _text("OCTET_LENGTH", special="octets", least=1, most=1),
    _text("CHR", "chr(CAST({0} AS INTEGER))"),
    _text("CHAR", refused="CHAR is a word of the grammar here; write CHR"),
    _text("CONCAT", many="concat", note="NULL is nothing."),
    _text("CONCAT_WS", special="concat_ws", least=2, note="NULL is left out."),
    _text(
        "HEXTORAW",
        "CASE WHEN length({0}) % 4 <> 0 THEN error('HEXTORAW needs four digits a character') ELSE"
        " array_to_string(list_transform(range(0, length({0}) // 4),"
        " lambda i: chr(CAST('0x' || substr({0}, i * 4 + 1, 4) AS INTEGER))), '') END",
    ),
    _text("RAWTOHEX", special="rawtohex", least=1, most=1),
    _text(
        "INSERT",
        "CASE WHEN {0} IS NULL THEN {3} WHEN {3} IS NULL THEN {0}"
        " WHEN {1} < 1 OR {2} <= 0 OR length({3}) = 0 OR {1} - 1 > length({0}) THEN {0}"
        " ELSE substr({0}, 1, {1} - 1) || {3} || substr({0}, {1} + {2}) END",
    ),
    _text("LOWER", "lower({0})", aliases=("LCASE",)),
    _text("UPPER", "upper({0})", aliases=("UCASE",)),
    _text("LEFT", "left({0}, greatest({1}, 0))"),
    _text("RIGHT", "right({0}, greatest({1}, 0))"),
    _text("LOCATE", *_LOCATE, note="0 where it is not found, and for NULL."),
    _text("INSTR", *map(_swapped, _LOCATE), note="0 where it is not found, and for NULL."),
    _text("POSITION", _swapped(_LOCATE[0]), note="Written POSITION(x IN y)."),
    _text("LPAD", "lpad({0}, greatest({1}, 0), ' ')", f"lpad({{0}}, greatest({{1}}, 0), {_PAD % 2})"),
    _text("RPAD", "rpad({0}, greatest({1}, 0), ' ')", f"rpad({{0}}, greatest({{1}}, 0), {_PAD % 2})"),
    _text("LTRIM", "ltrim({0}, ' ')", f"ltrim({{0}}, {_PAD % 1})"),
    _text("RTRIM", "rtrim({0}, ' ')", f"rtrim({{0}}, {_PAD % 1})"),
    _text("TRIM", "trim({0}, ' ')", f"trim({{0}}, {_PAD % 1})"),
    _text("REGEXP_REPLACE", special="regexp_replace", least=3, most=4, note=_RE2),
    _text("REGEXP_LIKE", special="regexp_like", least=2, most=3, note=_RE2),
    _text("REGEXP_SUBSTR", special="regexp_substr", least=2, most=6, note=_RE2),
    _text("REPEAT", "repeat({0}, greatest({1}, 0))"),
    _text("REPLACE", "replace({0}, {1}, '')", "replace({0}, {1}, coalesce({2}, ''))"),
    _text("SPLIT", refused="cut the text with the Split transform"),
    _text("SOUNDEX", "edgesocket_soundex({0})"),
    _text("SPACE", "repeat(' ', greatest({0}, 0))"),
    _text(
        "SUBSTRING",
        special="substring",
        least=2,
        most=3,
        aliases=("SUBSTR",),
        note="An empty result is NULL.",
    ),
    _text("TO_CHAR", special="to_char", least=1, most=2, note=_PATTERN),
    _text(
        "TRANSLATE",
        "translate({0}, left({1}, length(coalesce({2}, ''))), left(coalesce({2}, ''), length({1})))",
        note="Characters without a counterpart stay.",
    ),
    _text("TO_BASE64", special="to_base64", least=1, most=1),
    _text("FROM_BASE64", "decode(from_base64({0}))"),
    _text("MURMUR64", refused="there is no such hash in DuckDB"),
    _number("ABS", "abs({0})", note="The least value of a type has no absolute value there, and is an error."),
    _number("ACOS", "acos({0})"),
    _number("ASIN", "asin({0})"),
    _number("ATAN", "atan({0})"),
    _number("ATAN2", "atan2({0}, {1})"),
    _number("COS", "cos({0})"),
    _number("COSH", "cosh({0})"),
    _number("COT", "cot({0})"),
    _number("SIN", "sin({0})"),
    _number("SINH", "sinh({0})"),
    _number("TAN", "tan({0})"),
    _number("TANH", "tanh({0})"),
    _number("ARRAY_MAX", "list_max({0})"),
    _number("ARRAY_MIN", "list_min({0})"),
    _number("MOD", special="modulo", least=2, most=2, note="By zero is an error."),
    _number("CEIL", special="whole", least=1, most=1, aliases=("CEILING",)),
    _number("FLOOR", special="whole", least=1, most=1),
    _number("EXP", "exp({0})"),
    _number("LN", _above_zero("LN", "ln({0})")),
    _number("LOG", _above_zero("LOG", "log({0}, {1})", "{0} <= 0 OR {1} <= 0"), note="The base comes first."),
    _number("LOG10", _above_zero("LOG10", "log10({0})")),
    _number("RADIANS", "radians({0})"),
    _number("SQRT", "sqrt({0})"),
    _number("PI", "pi()"),
    _number("POWER", "pow({0}, {1})"),
    _number("RAND", "random()", aliases=("RANDOM",), replay=True, note="Takes no seed."),
    _number("ROUND", "round({0})", "round({0}, {1})", note="Half is rounded away from zero."),
    _number("SIGN", "CAST(sign({0}) AS INTEGER)"),
    _number("TRUNC", special="truncate", least=1, most=2, aliases=("TRUNCATE",)),
    _number("TRIM_SCALE", refused="a column of decimals has one scale for all its values; CAST it to another"),
    _time("CURRENT_DATE", _NOW % "DATE", replay=True, note="In UTC."),
    _time("CURRENT_TIME", _NOW % "TIME", replay=True, note="In UTC."),
    _time("CURRENT_TIMESTAMP", _NOW % "TIMESTAMP", aliases=("NOW",), replay=True, note="In UTC."),
    _time("DATEADD", special="date_add", least=2, most=3, aliases=("TIMESTAMPADD",), note="The unit is a text."),
    _time("DATEDIFF", special="date_diff", least=2, most=3, note="Counts complete units, as SeaTunnel does."),
    _time("DATE_TRUNC", special="date_trunc", least=1, most=2, note="The result is a timestamp."),
    _time("DAYNAME", "dayname({0})"),
    _part_of_time("DAY_OF_MONTH", "day"),
    _part_of_time("DAY_OF_WEEK", "isodow", note="Monday is 1."),
    _part_of_time("DAY_OF_YEAR", "dayofyear"),
    _time("EXTRACT", special="extract", least=2, most=2, note="Written EXTRACT(YEAR FROM x)."),
    _time("FORMATDATETIME", special="format_time", least=2, most=2, note=_PATTERN),
    _part_of_time("HOUR", "hour"),
    _part_of_time("MINUTE", "minute"),
    _part_of_time("MONTH", "month"),
    _time("MONTHNAME", "monthname({0})"),
    _time("IS_DATE", special="is_date", least=2, most=2, note=_PATTERN),
    _time("PARSEDATETIME", special="parse_time", least=2, most=2, aliases=("TO_DATE",), note=_PATTERN),
    _part_of_time("QUARTER", "quarter"),
    _part_of_time("SECOND", "second"),
    _part_of_time("WEEK", "week", note="By ISO 8601; SeaTunnel asks the locale."),
    _part_of_time("YEAR", "year"),
    _time(
        "FROM_UNIXTIME",
        special="from_unixtime",
        least=2,
        most=3,
        note="In UTC, or in a zone written as an offset (`UTC+8`).",
    ),
    _other("CAST", special="syntax", note="A fraction is cut off when a number becomes a whole one."),
    _other("TRY_CAST", special="syntax", note="NULL where CAST is an error."),
    _other("CASE", special="syntax"),
    _other("COALESCE", special="syntax", note="The types are brought to one that fits all."),
    _other("IFNULL", special="syntax"),
    _other("NULLIF", "nullif({0}, {1})"),
    _other("MULTI_IF", special="multi_if", least=3),
    _other("UUID", "CAST(uuid() AS VARCHAR)", replay=True),
    _other("ARRAY", refused="arrays are not made in a query"),
    _other("EXPLODE", refused="one row makes at most one row here", aliases=("OUTER_EXPLODE",)),
)

FUNCTIONS = {name: function for function in _ALL for name in function.names}
"""Every function by each of its names, in capitals."""

WITHOUT_BRACKETS = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP")
"""Functions that may be written like a column."""

START_OF_SUBSTRING, END_OF_SUBSTRING = _START, _END
"""Templates for `special = "substring"`: the first position, and the one behind the last, over {0}, {1} and {2}."""


def each_function() -> Iterator[SqlFunction]:
    """The functions in the order of the documentation."""
    yield from _ALL


def soundex(text: str) -> str:
    """The code of the sound of a text: its first letter and three digits, zeros where there is nothing to say.

    Vowels separate equal digits here, H and W do too; this is the variant of SeaTunnel.
    """
    code, last = "", ""
    for letter in text.upper():
        if not ("A" <= letter <= "Z"):
            continue
        digit = _SOUNDS[ord(letter) - ord("A")]
        if not code:
            code, last = letter, digit
        elif digit == "7":
            last = digit
        elif digit != "8" and digit != last:
            code, last = code + digit, digit
        if len(code) == 4:
            break
    return code.ljust(4, "0")


_SOUNDS = "71237128722455712623718272"
"""A digit for each letter: 1 to 6 are sounds, 7 separates, 8 is skipped."""
