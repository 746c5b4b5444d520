"""`json_mode = "lenient"`: what SeaTunnel's reader makes of the same values."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

import pytest
from schema_helpers import decoded, reason, refusal, row, row_of, schema_of, value

from edgesocket.schema.lenient import java_double
from edgesocket.schema.types import FieldType, RowSchema, SchemaField, parse_type


@pytest.mark.parametrize(
    ("kind", "json", "expected"),
    [
        *((kind, json, 12) for kind in ("int", "bigint", "tinyint") for json in ("12", '"12"', '" 12 "')),
        ("int", "1.5", 1),
        ("bigint", "-1.9", -1),
        ("int", "0.9", 0),
        ("int", "1.0", 1),
        ("int", "1e3", 1000),
        ("double", "12", 12.0),
        ("double", '" 1.5 "', 1.5),
        ("double", '"1e5"', 100000.0),
        ("double", "1e400", math.inf),
        ("float", "-1e39", -math.inf),
        ("double", '"-Infinity"', -math.inf),
        ("boolean", "true", True),
        ("boolean", '"TRUE"', True),
        *(("boolean", json, False) for json in ("1", '"yes"', '""', "{}", "false", "[true]")),
        ("string", "12", "12"),
        ("string", "1.50", "1.5"),
        ("string", "3e9", "3.0E9"),
        ("string", "true", "true"),
        ("string", '{"a" : [1, "x", null, 2.50]}', '{"a":[1,"x",null,2.5]}'),
        ("string", '"a\tb"', "a\tb"),
        ("bytes", '"aGk="', b"hi"),
        ("bytes", "5", None),
        ("bytes", "{}", None),
        ("decimal(4,2)", '"1.5"', Decimal("1.50")),
        ("date", "20220924", date(2022, 9, 24)),
        (row_of(a="int", b="string"), "5", {"a": None, "b": None}),
        (row_of(a="int", b="string"), '[1,"x",2]', {"a": 1, "b": "x"}),
        (row_of(a="int", b="string"), "[1]", {"a": 1, "b": None}),
        ("array<int>", "5", []),
        ("array<int>", '{"a":1,"b":2}', [None, None]),
        ("map<string,int>", "[]", []),
        ("map<string,int>", '{"a":"1"}', [("a", 1)]),
        ("null", "5", None),
    ],
)
def test_a_value_is_bent_to_fit(kind: str | FieldType, json: str, expected: object) -> None:
    assert value(kind, json, lenient=True) == expected


def test_nan_in_quotes_is_a_double() -> None:
    assert math.isnan(value("double", '"NaN"', lenient=True))
    assert math.isnan(value("float", '"NaN"', lenient=True))


@pytest.mark.parametrize(
    ("kind", "json"),
    [
        ("tinyint", "1.5"),
        ("smallint", "1.0"),
        ("tinyint", "1e3"),
        ("int", "3000000000"),
        ("int", "3e9"),
        ("int", '"1.5"'),
        ("bigint", "9223372036854775808"),
        ("bigint", "1e30"),
        *((kind, json) for kind in ("int", "bigint", "float", "double") for json in ("true", '""', '"x"', "{}", "[]")),
        ("double", '"1_0"'),
        ("bytes", '"?"'),
        ("decimal(4,2)", '" 12 "'),
        ("decimal(4,2)", "1.234"),
        ("timestamp", "1664059500000"),
        ("date", '"tomorrow"'),
    ],
)
def test_what_seatunnel_refuses_is_refused_too(kind: str, json: str) -> None:
    assert refusal(kind, json, lenient=True).startswith(f"field x: expected {kind}, got ")


def test_a_decimal_in_the_schema_makes_floats_exact_in_texts() -> None:
    schema = schema_of(d="decimal(10,2)", s="string")

    assert row(schema, b'{"s":3e9}', lenient=True)["s"] == "3E+9"
    assert row(schema, b'{"s":1.50}', lenient=True)["s"] == "1.5"


@pytest.mark.parametrize("payload", [b"", b"  ", b"null"])
def test_nothing_makes_no_row_and_is_counted(payload: bytes) -> None:
    schema = schema_of(a="int")

    result = decoded(schema, payload, b'{"a":1}', lenient=True)

    assert (result.dropped, result.bad) == (1, [])
    assert result.rows is not None
    assert result.rows.id_array().tolist() == [2]
    assert decoded(schema, payload, lenient=True).rows is None


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"5", {"a": 7, "b": None}),
        (b'"abc"', {"a": 7, "b": None}),
        (b'[1,"x"]', {"a": 1, "b": "x"}),
        (b'{"a":1} junk', {"a": 1, "b": None}),
        (b'{"a":1}{"a":2}', {"a": 1, "b": None}),
        (b'{"a":"x","a":2}', {"a": 2, "b": None}),
        (b'{"a":null}', {"a": 7, "b": None}),
        (b'{"b":"\xff"}', {"a": 7, "b": "\ufffd"}),
    ],
)
def test_documents_of_other_shapes_are_rows(payload: bytes, expected: dict[str, object]) -> None:
    schema = RowSchema((SchemaField("a", parse_type("int"), default=7), SchemaField("b", parse_type("string"))))

    assert row(schema, payload, lenient=True) == expected


@pytest.mark.parametrize(
    "payload",
    [
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":1,}',
        b'{"a":01}',
        b'{/**/"a":1}',
        b'{"x":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"x":' + b"[" * 100_000,
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x":' + b"9" * 5000 + b'e, "a":1}',
    ],
)
def test_what_is_not_json_is_refused(payload: bytes) -> None:
    assert reason(schema_of(a="int"), payload, lenient=True).startswith("payload: expected one JSON object, got ")


def test_half_a_surrogate_pair_is_refused_where_it_would_be_stored() -> None:
    assert "half a surrogate pair" in refusal("string", '"\\ud800"', lenient=True)
    assert "half a surrogate pair" in refusal("map<string,int>", '{"\\ud800":1}', lenient=True)
    assert row(schema_of(a="int"), b'{"b":"\\ud800"}', lenient=True) == {"a": None}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.25e-7, "-1.25E-7"),
        (1e300, "1.0E300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_are_written_as_java_writes_them(number: float, text: str) -> None:
    assert java_double(number) == text


@pytest.mark.parametrize(
    ("kind", "json", "message"),
    [
        ("array<int>", '[1,"x"]', 'field x[1]: expected int, got "x"'),
        ("map<string,int>", '{"k":"x"}', 'field x.k: expected int, got "x"'),
        (row_of(a="array<double>"), '{"a":[null,true]}', "field x.a[1]: expected double, got true"),
        (row_of(a="int"), '["x"]', 'field x.a: expected int, got "x"'),
        ("time", "5", "field x: expected time, got 5"),
        ("date", "true", "field x: expected date, got true"),
        ("bigint", "1e999999999999999999999", "field x: expected bigint, got 1e999999999999999999999 (out of range)"),
    ],
)
def test_the_path_leads_to_the_value_that_cannot_be_bent(kind: str | FieldType, json: str, message: str) -> None:
    assert refusal(kind, json, lenient=True) == message
