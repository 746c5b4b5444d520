"""Every function of the Sql transform: a known answer, or the reason why it is refused."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from transform_helpers import batch, fails_in_batch, refused

from edgesocket.rows import Rows
from edgesocket.transforms.sql import SqlTransform
from edgesocket.transforms.sql_functions import FUNCTIONS, SqlFunction, each_function, soundex

PAGE = Path(__file__).parents[3] / "docs/transforms/sql.md"
D = Decimal
ROW = batch(
    {
        "s": ["Hello"],
        "none": [None],
        "i": [7],
        "small": [100],
        "d": [2.5],
        "dec": [D("-2.55")],
        "day": [dt.date(2024, 2, 29)],
        "ts": [dt.datetime(2024, 2, 29, 13, 4, 5, 678_000)],
        "tm": [dt.time(13, 4, 5)],
        "bin": [b"\x01\xab"],
        "arr": [[3, 1, 2]],
        "flag": [True],
    },
    none=pa.string(),
    small=pa.int8(),
    i=pa.int32(),
    tm=pa.time64("us"),
    ts=pa.timestamp("us"),
    dec=pa.decimal128(10, 2),
)

ANSWERS: dict[str, list[tuple[str, Any]]] = {
    "ASCII": [("ascii(s)", 72), ("ascii('')", None)],
    "BIT_LENGTH": [("bit_length('é')", 16), ("bit_length(bin)", 16)],
    "CHAR_LENGTH": [("char_length('é')", 1), ("length(s)", 5)],
    "OCTET_LENGTH": [("octet_length('é')", 2), ("octet_length(bin)", 2)],
    "CHR": [("chr(65)", "A"), ("chr(i + 58)", "A")],
    "CONCAT": [("concat(s, none, '_', i)", "Hello_7"), ("concat(none, none)", "")],
    "CONCAT_WS": [("concat_ws('-', s, none, 'x')", "Hello-x"), ("concat_ws(none, 'a', 'b')", "ab")],
    "HEXTORAW": [("hextoraw('00480069')", "Hi")],
    "RAWTOHEX": [("rawtohex('Hi')", "00480069"), ("rawtohex(bin)", "01ab"), ("rawtohex('')", "")],
    "INSERT": [
        ("insert(s, 1, 1, 'J')", "Jello"),
        ("insert(s, 5, 9, 'p!')", "Hellp!"),
        ("insert(s, 0, 1, 'x')", "Hello"),
        ("insert(s, 7, 1, 'x')", "Hello"),
        ("insert(none, 1, 1, 'x')", "x"),
        ("insert(s, 1, 1, none)", "Hello"),
    ],
    "LOWER": [("lower(s)", "hello"), ("lcase(s)", "hello")],
    "UPPER": [("upper(s)", "HELLO"), ("ucase(s)", "HELLO")],
    "LEFT": [("left(s, 2)", "He"), ("left(s, -1)", "")],
    "RIGHT": [("right(s, 2)", "lo"), ("right(s, -1)", ""), ("right(s, 9)", "Hello")],
    "LOCATE": [
        ("locate('l', s)", 3),
        ("locate('x', s)", 0),
        ("locate('l', none)", 0),
        ("locate('l', s, 4)", 4),
        ("locate('l', s, 5)", 0),
        ("locate('l', s, 0)", 3),
        ("locate('l', s, -1)", 4),
        ("locate('l', s, -2)", 4),
        ("locate('l', s, -3)", 3),
        ("locate('lo', s, -1)", 4),
        ("locate('H', s, -9)", 0),
    ],
    "INSTR": [("instr(s, 'l')", 3), ("instr(s, 'l', 4)", 4), ("instr(s, 'l', -3)", 3), ("instr(none, 'l')", 0)],
    "POSITION": [("position('l' in s)", 3)],
    "LPAD": [("lpad(s, 7)", "  Hello"), ("lpad(s, 7, 'xy')", "xxHello"), ("lpad(s, 2, 'x')", "He")],
    "RPAD": [("rpad(s, 7)", "Hello  "), ("rpad(s, 7, '')", "Hello  "), ("rpad(s, -1, 'x')", "")],
    "LTRIM": [("ltrim('  a ')", "a "), ("ltrim('xxax', 'xa')", "ax")],
    "RTRIM": [("rtrim(' a  ')", " a"), ("rtrim('xaxx', 'x')", "xa")],
    "TRIM": [("trim('  a ')", "a"), ("trim('xax', 'x')", "a"), ("trim('\ta ')", "\ta")],
    "REGEXP_REPLACE": [
        ("regexp_replace('Hello    World', ' +', ' ')", "Hello World"),
        ("regexp_replace('Hello WWWWorld', 'w+', 'W', 'i')", "Hello World"),
        ("regexp_replace('Hello WWWWorld', 'w+', 'W', 'ic')", "Hello WWWWorld"),
        ("regexp_replace('ab', '(a)(b)', '$2\\$$1')", "b$a"),
        (r"regexp_replace('a.b', '\.', '\\')", "a\\b"),
    ],
    "REGEXP_LIKE": [
        ("regexp_like(s, 'l+o$')", True),
        ("regexp_like(s, 'HELLO')", False),
        ("regexp_like(s, 'HELLO', 'i')", True),
        ("regexp_like('a' || chr(10) || 'b', 'a.b')", False),
        ("regexp_like('a' || chr(10) || 'b', 'a.b', 'n')", True),
        ("regexp_like('a' || chr(10) || 'b', '^b', 'm')", True),
    ],
    "REGEXP_SUBSTR": [
        (r"regexp_substr('2020-10-01', '\d{4}')", "2020"),
        (r"regexp_substr('2020-10-01', '(\d{4})-(\d{2})-(\d{2})', 1, 1, NULL, 2)", "10"),
        (r"regexp_substr('2020-10-01', '\d+', 1, 3, NULL, 0)", "01"),
        (r"regexp_substr('2020-10-01', '\d+', 6, 1, NULL, NULL)", "10"),
        (r"regexp_substr('x', '\d+')", None),
    ],
    "REPEAT": [("repeat('ab', 2)", "abab"), ("repeat('ab', -1)", "")],
    "REPLACE": [("replace(s, 'l')", "Heo"), ("replace(s, 'l', 'L')", "HeLLo"), ("replace(s, '', 'x')", "Hello")],
    "SOUNDEX": [("soundex('Robert')", "R163"), ("soundex(none)", None)],
    "SPACE": [("space(2)", "  "), ("space(-1)", "")],
    "SUBSTRING": [
        ("substring('[Hello]', 2)", "Hello]"),
        ("substr('hour', 3, 2)", "ur"),
        ("substring('hour' from 2 for 2)", "ou"),
        ("substring('hour', 0, 2)", "ho"),
        ("substring('hour', -2)", "ur"),
        ("substring('hour', -6, 4)", "ho"),
        ("substring('hour', 5)", None),
        ("substring('hour', 2, 0)", None),
        ("substring(day, 1, 4)", "2024"),
    ],
    "TO_CHAR": [
        ("to_char(ts, 'yyyy/MM/dd HH:mm:ss.SSS')", "2024/02/29 13:04:05.678"),
        ("to_char(day, 'd.M.yy')", "29.2.24"),
        ("to_char(i)", "7"),
        ("to_char(dec, 'yyyy')", "-2.55"),
        ("to_char(flag)", "true"),
    ],
    "TRANSLATE": [("translate('Hello world', 'eo', 'EO')", "HEllO wOrld"), ("translate('abc', 'abc', 'x')", "xbc")],
    "TO_BASE64": [("to_base64('a')", "YQ=="), ("to_base64(bin)", "Aas=")],
    "FROM_BASE64": [("from_base64('YQ==')", "a")],
    "ABS": [("abs(-i)", 7), ("abs(dec)", D("2.55"))],
    "ACOS": [("acos(1)", 0.0)],
    "ASIN": [("asin(1)", math.pi / 2)],
    "ATAN": [("atan(1)", math.pi / 4)],
    "ATAN2": [("atan2(1, -1)", math.pi * 3 / 4)],
    "COS": [("cos(0)", 1.0)],
    "COSH": [("cosh(0)", 1.0)],
    "COT": [("cot(1)", 1 / math.tan(1))],
    "SIN": [("sin(0)", 0.0)],
    "SINH": [("sinh(1)", math.sinh(1))],
    "TAN": [("tan(1)", math.tan(1))],
    "TANH": [("tanh(1)", math.tanh(1))],
    "ARRAY_MAX": [("array_max(arr)", 3)],
    "ARRAY_MIN": [("array_min(arr)", 1)],
    "MOD": [("mod(i, 4)", 3), ("mod(-i, 4)", -3), ("i % 4", 3)],
    "CEIL": [("ceil(d)", 3.0), ("ceiling(dec)", D("-2")), ("ceil(i)", 7)],
    "FLOOR": [("floor(d)", 2.0), ("floor(dec)", D("-3")), ("floor(i)", 7)],
    "EXP": [("exp(1)", math.e)],
    "LN": [("ln(exp(2))", 2.0)],
    "LOG": [("log(2, 8)", 3.0)],
    "LOG10": [("log10(1000)", 3.0)],
    "RADIANS": [("radians(180)", math.pi)],
    "SQRT": [("sqrt(16)", 4.0)],
    "PI": [("pi()", math.pi)],
    "POWER": [("power(2, 10)", 1024.0)],
    "ROUND": [("round(d)", 3.0), ("round(-2.5)", D("-3")), ("round(dec, 1)", D("-2.6")), ("round(i)", 7)],
    "SIGN": [("sign(dec)", -1), ("sign(0)", 0)],
    "TRUNC": [("trunc(dec)", D("-2")), ("truncate(d, 0)", 2.0), ("trunc(dec, 1)", D("-2.5")), ("trunc(i)", 7)],
    "DATEADD": [
        ("dateadd(day, 1, 'MONTH')", dt.date(2024, 3, 29)),
        ("dateadd(day, 1)", dt.date(2024, 3, 1)),
        ("dateadd(day, -1, 'year')", dt.date(2023, 2, 28)),
        ("timestampadd(ts, 2, 'HOUR')", dt.datetime(2024, 2, 29, 15, 4, 5, 678_000)),
        ("dateadd(ts, i, 'MILLISECOND')", dt.datetime(2024, 2, 29, 13, 4, 5, 685_000)),
        ("dateadd(ts, i, 'SECOND')", dt.datetime(2024, 2, 29, 13, 4, 12, 678_000)),
        ("dateadd(tm, 1, 'MINUTE')", dt.time(13, 5, 5)),
        ("dateadd(day, 1, 'HOUR')", dt.datetime(2024, 2, 29, 1)),
    ],
    "DATEDIFF": [
        ("datediff(day, DATE '2025-02-28', 'YEAR')", 0),
        ("datediff(day, DATE '2025-03-01', 'YEAR')", 1),
        ("datediff(DATE '2025-03-01', day, 'YEAR')", -1),
        ("datediff(DATE '2024-01-31', day, 'MONTH')", 0),
        ("datediff(day, DATE '2024-01-31', 'MONTH')", 0),
        ("datediff(DATE '2024-01-29', day, 'MONTH')", 1),
        ("datediff(ts, TIMESTAMP '2024-03-01 01:00:00')", 1),
        ("datediff(ts, TIMESTAMP '2024-03-01 01:00:00', 'DAYTIME')", 0),
        ("datediff(ts, TIMESTAMP '2024-03-01 01:00:00', 'HOUR')", 11),
        ("datediff(TIMESTAMP '2024-03-01 01:00:00', ts, 'HOUR')", -11),
        ("datediff(ts, TIMESTAMP '2024-02-29 13:05:05', 'MINUTE')", 0),
        ("datediff(ts, TIMESTAMP '2024-02-29 13:05:05', 'SECOND')", 59),
        ("datediff(ts, TIMESTAMP '2024-02-29 13:05:05', 'MILLISECOND')", 59_322),
        ("datediff(day, DATE '2024-03-13', 'WEEK')", 1),
    ],
    "DATE_TRUNC": [
        ("date_trunc(ts, 'MONTH')", dt.datetime(2024, 2, 1)),
        ("date_trunc(ts)", dt.datetime(2024, 2, 29)),
        ("date_trunc(ts, 'second')", dt.datetime(2024, 2, 29, 13, 4, 5)),
    ],
    "DAYNAME": [("dayname(day)", "Thursday")],
    "DAY_OF_MONTH": [("day_of_month(ts)", 29)],
    "DAY_OF_WEEK": [("day_of_week(day)", 4), ("day_of_week(DATE '2024-03-03')", 7)],
    "DAY_OF_YEAR": [("day_of_year(day)", 60)],
    "EXTRACT": [
        ("extract(YEAR FROM day)", 2024),
        ("extract(DOW FROM DATE '2024-03-03')", 0),
        ("extract(EPOCH FROM TIMESTAMP '1970-01-02 00:00:00')", 86_400),
        ("extract(MILLISECONDS FROM ts)", 5_678),
        ("extract(HOUR FROM tm)", 13),
    ],
    "FORMATDATETIME": [
        ("formatdatetime(ts, 'yyyy-MM-dd''T''HH:mm:ss')", "2024-02-29T13:04:05"),
        ("formatdatetime(ts, 'EEEE, d MMMM yyyy hh a')", "Thursday, 29 February 2024 01 PM"),
        ("formatdatetime(tm, 'HH''%''mm')", "13%04"),
        ("formatdatetime(tm, 'HH ''o''''clock'' ''''mm')", "13 o'clock '04"),
    ],
    "HOUR": [("hour(ts)", 13), ("hour(tm)", 13)],
    "MINUTE": [("minute(ts)", 4)],
    "MONTH": [("month(day)", 2)],
    "MONTHNAME": [("monthname(day)", "February")],
    "IS_DATE": [
        ("is_date('2021-04-08 13:34:45', 'yyyy-MM-dd HH:mm:ss')", True),
        ("is_date('2021-04-32', 'yyyy-MM-dd')", False),
    ],
    "PARSEDATETIME": [
        ("parsedatetime('2021-04-08 13:34:45', 'yyyy-MM-dd HH:mm:ss')", dt.datetime(2021, 4, 8, 13, 34, 45)),
        ("to_date('2021-04-08T13:34:45', 'yyyy-MM-dd''T''HH:mm:ss')", dt.datetime(2021, 4, 8, 13, 34, 45)),
        ("to_date('08.04.2021', 'dd.MM.yyyy')", dt.date(2021, 4, 8)),
        ("to_date('13:34', 'HH:mm')", dt.time(13, 34)),
    ],
    "QUARTER": [("quarter(day)", 1)],
    "SECOND": [("second(ts)", 5)],
    "WEEK": [("week(day)", 9)],
    "YEAR": [("year(ts)", 2024)],
    "FROM_UNIXTIME": [
        ("from_unixtime(1672502400, 'yyyy-MM-dd HH:mm:ss')", "2022-12-31 16:00:00"),
        ("from_unixtime(1672502400, 'yyyy-MM-dd HH:mm:ss', 'UTC+6')", "2022-12-31 22:00:00"),
        ("from_unixtime(i - 7, 'HH:mm', '-03:30')", "20:30"),
    ],
    "CAST": [
        ("cast(i as string)", "7"),
        ("cast(2.9 as int)", 2),
        ("cast(dec as bigint)", -2),
        ("cast(d as tinyint)", 2),
        ("cast(' 12 ' as long)", 12),
        ("cast(none as int)", None),
        ("cast('1.25' as decimal(10, 1))", D("1.3")),
        ("cast('2024-02-29' as date)", dt.date(2024, 2, 29)),
        ("cast('2024-02-29 01:02:03' as timestamp)", dt.datetime(2024, 2, 29, 1, 2, 3)),
        ("cast('01:02:03' as time)", dt.time(1, 2, 3)),
        ("cast('true' as boolean)", True),
        ("cast(0 as boolean)", False),
        ("cast('é' as bytes)", b"\xc3\xa9"),
        ("cast(cast('é' as bytes) as string)", "é"),
        ("cast(ts as date)", dt.date(2024, 2, 29)),
    ],
    "TRY_CAST": [("try_cast('x' as int)", None), ("try_cast('12' as int)", 12), ("try_cast('1.5' as int)", None)],
    "CASE": [
        ("case when i > 5 then 'big' else 'small' end", "big"),
        ("case s when 'x' then 1 when 'Hello' then 2 end", 2),
        ("case when i in (1, 2) then 1 end", None),
    ],
    "COALESCE": [("coalesce(none, s)", "Hello")],
    "IFNULL": [("ifnull(none, 'x')", "x")],
    "NULLIF": [("nullif(s, 'Hello')", None), ("nullif(i, 8)", 7)],
    "MULTI_IF": [("multi_if(i > 9, 'A', i > 5, 'B', 'C')", "B"), ("multi_if(i > 9, 'A', 'C')", "C")],
}


def value(expression: str) -> Any:
    """What an expression is for ROW."""
    step = SqlTransform(query=f"select {expression} as x from dual")
    step.bind(ROW.schema)
    rows = step.apply(Rows.of_batch(ROW))
    assert rows is not None
    return rows.batch.column(0)[0].as_py()


ONE_BY_ONE = [(name, expression, answer) for name, answers in ANSWERS.items() for expression, answer in answers]


@pytest.mark.parametrize(("name", "expression", "answer"), ONE_BY_ONE, ids=[one for _, one, _ in ONE_BY_ONE])
def test_a_function_gives_the_known_answer(name: str, expression: str, answer: Any) -> None:
    found = value(expression)
    if isinstance(answer, float):
        assert found == pytest.approx(answer, abs=1e-12)
    else:
        assert found == answer
        assert type(found) is type(answer)


def test_functions_of_chance_and_of_the_clock_say_that_they_differ_on_replay() -> None:
    assert {function.name for function in each_function() if function.replay} == {
        "RAND",
        "UUID",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
    }
    assert 0 <= value("rand()") < 1
    assert 0 <= value("random()") < 1
    assert len(value("uuid()")) == 36
    assert isinstance(value("current_date"), dt.date)
    assert isinstance(value("current_time"), dt.time)
    assert value("now()").tzinfo is None
    assert abs(value("current_timestamp") - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(hours=1)
    assert value("current_timestamp()").year >= 2024


def test_every_function_of_the_table_has_an_answer_or_a_reason() -> None:
    untested = {function.name for function in each_function() if not function.refused and not function.replay}
    assert untested == set(ANSWERS)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("char(65)", "write CHR"),
        ("split(s, ';')", "Split transform"),
        ("murmur64(s)", "no such hash"),
        ("trim_scale(d)", "one scale"),
        ("array(1, 2)", "not made in a query"),
        ("explode(s)", "at most one row"),
        ("rand(1)", "takes 0 arguments, not 1"),
        ("upper()", "takes 1 arguments, not 0"),
        ("lpad(s)", "takes 2 or 3 arguments, not 1"),
        ("concat_ws('x')", "takes 2 or more arguments, not 1"),
        ("multi_if(flag, 1, flag, 2)", "one value at the end"),
        ("regexp_like(s, none)", "needs the pattern as a text in the query"),
        ("regexp_like(s, 'a', 'q')", "does not know the flag q"),
        ("regexp_like(s, '(?=a)')", "it does not fit the fields"),
        ("regexp_replace(s, 'a', '$')", "stands for nothing"),
        ("regexp_substr(s, 'a', 1)", "takes 2 or 6 arguments"),
        ("regexp_substr(s, 'a', i, 1, NULL, 0)", "as numbers in the query"),
        ("to_char(ts, s)", "needs the pattern as a text"),
        ("to_char(ts, 'QQ')", "uses QQ"),
        ("to_char(ts, '[yyyy]')", "uses ["),
        ("to_char(ts, '''x')", "a quote that is not closed"),
        ("dateadd(ts, 1, 'FORTNIGHT')", "does not know the unit FORTNIGHT"),
        ("from_unixtime(i, 'HH', 'Europe/Berlin')", "zones as offsets"),
        ("cast(i as map(varchar, int))", "CAST to MAP is not supported"),
        ("cast(i as decimal)", "its two sizes"),
        ("cast(i as decimal(39, 0))", "there is no DECIMAL(39, 0)"),
        ("read_text('/etc/passwd')", "there is no function read_text"),
        ("getenv('HOME')", "there is no function getenv"),
        ("to_days(i)", "there is no function to_days"),
    ],
)
def test_what_cannot_be_called_is_refused_with_the_reason(call: str, reason: str) -> None:
    found = refused(SqlTransform(query=f"select {call} as x from t"), ROW.schema)
    assert len(found) == 1
    assert found[0][0] == "query"
    assert reason in f"{found[0][1]} {found[0][2]}"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("i / (i - 7)", "division by zero"),
        ("dec / (i - 7)", "division by zero"),
        ("mod(i, i - 7)", "division by zero"),
        ("cast('1.5' || s as int)", "it is no whole number: 1.5Hello"),
        ("hextoraw(s)", "four digits"),
        ("ln(0 * i)", "LN needs a number above 0"),
        ("log(2, -i)", "LOG needs"),
        ("log10(0.0)", "LOG10 needs"),
        ("cast(s as date)", "date"),
        ("cast(small * 3 as tinyint)", "out of range"),
        ("i * 2147483647", "Overflow"),
    ],
)
def test_what_fails_for_a_row_names_its_batch(expression: str, reason: str) -> None:
    batch_id, told = fails_in_batch(SqlTransform(query=f"select {expression} as x from t"), ROW)
    assert batch_id == 100
    assert reason.lower() in told.lower()


def test_small_whole_numbers_are_computed_as_int() -> None:
    assert value("small + small") == 200
    assert value("i / 2") == 3
    assert value("-i / 2") == -3
    assert value("d / 2") == 1.25


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Robert", "R163"),
        ("Rupert", "R163"),
        ("Tymczak", "T522"),
        ("Pfister", "P236"),
        ("a", "A000"),
        ("12 Ash", "A200"),
    ],
)
def test_soundex(text: str, code: str) -> None:
    assert soundex(text) == code


def test_soundex_of_nothing() -> None:
    assert soundex("") == "0000"
    assert soundex("é1") == "0000"


def row_of(function: SqlFunction) -> str:
    """The line of the page for a function."""
    notes = [] if not function.refused else [f"{function.refused[0].upper()}{function.refused[1:]}."]
    notes += ["Other values on replay."] if function.replay else []
    notes += [function.note] if function.note else []
    names = ", ".join(f"`{name}`" for name in function.names)
    return f"| {names} | {function.mapping} | {' '.join(notes)} |"


@cache
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def function_tables() -> str:
    """The tables of the page as the functions have them."""
    made = []
    for group in dict.fromkeys(function.group for function in each_function()):
        made += [f"### {group}", "", "| function | how | note |", "|---|---|---|"]
        made += [row_of(function) for function in each_function() if function.group == group]
        made.append("")
    return "\n".join(made)


def test_the_page_lists_every_function_as_it_is() -> None:
    begin, end = "<!-- functions -->\n", "<!-- /functions -->"
    assert begin in page()
    assert page().partition(begin)[2].partition(end)[0].strip() == function_tables().strip()


def test_names_are_unique() -> None:
    assert len(FUNCTIONS) == sum(len(function.names) for function in each_function())
