"""The strict rules: what a payload becomes, and what is a mismatch."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from schema_helpers import decoded, reason, refusal, row, row_of, schema_of, value

from edgesocket.errors import EdgeSocketError, SchemaMismatchError
from edgesocket.schema.exact import MAX_DEPTH, ExactDecoder
from edgesocket.schema.types import FieldType, RowSchema, SchemaField, parse_type

SEED = schema_of(user_id="int", event="string", ts="long")

KEYS = schema_of(
    user_id="int",
    event="string",
    info=row_of(city="string", tags="array<string>", geo=row_of(lat="double")),
    props="map<string,string>",
)


@pytest.mark.parametrize(
    ("kind", "json", "expected"),
    [
        ("int", "12", 12),
        ("int", '"12"', 12),
        ("int", "7.0", 7),
        ("int", "1e3", 1000),
        ("int", "70e-1", 7),
        ("int", '"1e3"', 1000),
        ("int", "-0", 0),
        ("int", "-0.0", 0),
        ("int", "0e99", 0),
        ("int", "-2147483648", -2147483648),
        ("tinyint", "127", 127),
        ("tinyint", "1.270E+2", 127),
        ("smallint", '"-32768"', -32768),
        ("bigint", "9223372036854775807", 9223372036854775807),
        ("bigint", "-9223372036854775808", -9223372036854775808),
        ("bigint", "9007199254740993.0", 9007199254740993),
        ("double", "12", 12.0),
        ("double", '"1.5"', 1.5),
        ("double", "1e-400", 0.0),
        ("float", "0.1", 0.10000000149011612),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("string", '"a\\u00e9\\n\\ud83d\\ude00"', "aé\n😀"),
        ("string", "1.50", "1.50"),
        ("string", "3e9", "3e9"),
        ("string", "9223372036854775808", "9223372036854775808"),
        ("string", "true", "true"),
        ("string", '{"b": 1.0,\n "a":[1 ,2]}', '{"b": 1.0,\n "a":[1 ,2]}'),
        ("string", "[1, {}]", "[1, {}]"),
        ("decimal(10,2)", "12.3", Decimal("12.30")),
        ("decimal(10,2)", '"12.30"', Decimal("12.30")),
        ("decimal(10,2)", "1.500", Decimal("1.50")),
        ("decimal(10,2)", "1e7", Decimal("10000000.00")),
        ("decimal(3,3)", "0.123", Decimal("0.123")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        (
            "decimal(38,18)",
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("bytes", '"aGVsbG8="', b"hello"),
        ("bytes", '""', b""),
        ("null", "null", None),
        ("array<int>", "[]", []),
        ("array<int>", '[1, null, "2"]', [1, None, 2]),
        ("array<array<decimal(3,1)>>", "[[1.5], null, []]", [[Decimal("1.5")], None, []]),
        ("array<map<string,int>>", '[{"a":1},null]', [[("a", 1)], None]),
        ("map<string,double>", '{"a":1,"b":null,"a":2}', [("a", 2.0), ("b", None)]),
        ("map<int,string>", '{"5":"a","1e1":"b"}', [(5, "a"), (10, "b")]),
        ("map<boolean,int>", '{"true":1}', [(True, 1)]),
        (row_of(x="int"), "{}", {"x": None}),
        (row_of(x="decimal(3,1)", y=row_of(z="bytes")), '{"y":{"z":"aGk="}}', {"x": None, "y": {"z": b"hi"}}),
    ],
)
def test_a_value_that_fits(kind: str | FieldType, json: str, expected: object) -> None:
    got = value(kind, json)

    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize("kind", ["int", "string", "double", "date", "array<int>", "map<string,int>", "decimal(3,1)"])
def test_null_and_missing_are_null(kind: str) -> None:
    schema = schema_of(x=kind)

    assert row(schema, b'{"x":null}') == row(schema, b"{}") == {"x": None}


@pytest.mark.parametrize(
    ("kind", "json", "why"),
    [
        ("int", "7.9", "has a fraction"),
        ("int", "1e-1000000000", "has a fraction"),
        ("int", "true", ""),
        ("int", '""', ""),
        ("int", '"x"', ""),
        ("int", '" 12 "', ""),
        ("int", '"+12"', ""),
        ("int", '"012"', ""),
        ("int", '"１２"', ""),
        ("int", "{}", ""),
        ("int", "[1]", ""),
        ("int", "2147483648", "out of range"),
        ("int", "3e9", "out of range"),
        ("int", "1e1000000000", "out of range"),
        ("int", "1e99999999999999999999", "out of range"),
        ("int", "1e-99999999999999999999", "out of range"),
        ("decimal(4,2)", "1e-99999999999999999999", "out of range"),
        ("int", "1" * 1001, "a number of more than 1000 characters"),
        ("int", '"NaN"', ""),
        ("tinyint", "128", "out of range"),
        ("bigint", "9223372036854775808", "out of range"),
        ("bigint", "1e30", "out of range"),
        ("double", "1e400", "out of range"),
        ("double", '"NaN"', ""),
        ("double", '"Infinity"', ""),
        ("double", '"1_0"', ""),
        ("double", "true", ""),
        ("float", "3.5e38", "out of range"),
        ("boolean", "1", ""),
        ("boolean", '"true"', ""),
        ("boolean", "{}", ""),
        ("decimal(4,2)", "1.234", "more than 2 digits behind the point"),
        ("decimal(4,2)", "100", "more than 2 digits before the point"),
        ("decimal(4,2)", "1e1000000000", "more than 2 digits before the point"),
        ("decimal(4,2)", "1e-1000000000", "more than 2 digits behind the point"),
        ("decimal(4,2)", '" 1 "', ""),
        ("decimal(4,2)", "true", ""),
        ("bytes", '"aGVs\\nbG8="', "not base64"),
        ("bytes", '"aGV sbG8="', "not base64"),
        ("bytes", '"_-_-"', "not base64"),
        ("bytes", '"aGVsbG8"', "not base64"),
        ("bytes", '"aGVs=bG8="', "not base64"),
        ("bytes", '"aGVsbG8=aGVsbG8="', "not base64"),
        ("bytes", '"aGVsbG9="', "not base64"),
        ("bytes", '"é"', "not base64"),
        ("bytes", "5", ""),
        ("null", "1", ""),
        ("null", '"null"', ""),
        ("array<int>", "1", ""),
        ("array<int>", "{}", ""),
        ("map<string,int>", "[]", ""),
        ("map<string,int>", '"x"', ""),
    ],
)
def test_a_value_that_does_not_fit(kind: str, json: str, why: str) -> None:
    shown = json if len(json) <= 200 else json[:200] + "..."

    assert refusal(kind, json) == f"field x: expected {kind}, got {shown}" + (f" ({why})" if why else "")


@pytest.mark.parametrize(
    ("kind", "json", "message"),
    [
        ("array<int>", '[1, "x"]', 'field x[1]: expected int, got "x"'),
        ("map<string,int>", '{"k":{}}', "field x.k: expected int, got {}"),
        ("map<int,int>", '{"k":1}', "field x: expected int, got k"),
        (row_of(a=row_of(b="array<date>")), '{"a":{"b":[null,5]}}', "field x.a.b[1]: expected date, got 5"),
        (row_of(a="int"), "[]", "field x: expected row, got []"),
    ],
)
def test_the_path_leads_to_the_value_inside(kind: str | FieldType, json: str, message: str) -> None:
    assert refusal(kind, json) == message


def test_the_error_names_field_type_and_a_short_value() -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        ExactDecoder(SEED).decode(b'{"user_id":"' + b"x" * 1000 + b'"}')

    error = caught.value
    assert isinstance(error, EdgeSocketError)
    assert error.exit_code == 65
    assert (error.field, error.expected, error.why) == ("user_id", "int", "")
    assert error.value == '"' + "x" * 199 + "..."
    assert str(error) == f"field user_id: expected int, got {error.value}"


def test_a_message_is_one_line() -> None:
    assert refusal("int", "[\n1]") == "field x: expected int, got [\\n1]"


def test_a_poison_record_is_named_and_the_ones_around_it_are_rows() -> None:
    result = decoded(
        SEED,
        b'{"user_id":1,"event":"a","ts":1}',
        b'{"user_id":"abc","event":"b","ts":2}',
        b'{"user_id":3,"event":"c","ts":3}',
    )

    assert result.rows is not None
    assert result.rows.id_array().tolist() == [1, 3]
    assert result.rows.batch.column(0).to_pylist() == [1, 3]
    assert [(bad.batch_id, bad.payload, bad.reason) for bad in result.bad] == [
        (2, b'{"user_id":"abc","event":"b","ts":2}', 'field user_id: expected int, got "abc"')
    ]


_NONE = {"user_id": None, "event": None, "info": None, "props": None}
_NO_INFO = {"city": None, "tags": None, "geo": None}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ('{"user_id":1,"user_id":2}', {"user_id": 2}),
        ('{"user_id":"x","user_id":2}', {"user_id": 2}),
        ('{"user_id":1,"user_id":null}', {}),
        ('{"User_Id":1}', {}),
        ('{"user_id":1,"USER_ID":2}', {"user_id": 1}),
        ("{}", {}),
        ('{"user_id":null}', {}),
        ('{"info":null}', {}),
        ('{"info":{"geo":null}}', {"info": _NO_INFO}),
        ('{"info":{"geo":{}}}', {"info": _NO_INFO | {"geo": {"lat": None}}}),
        ('{"info":{"tags":null}}', {"info": _NO_INFO}),
        ('{"info":{"tags":["a",null,1]}}', {"info": _NO_INFO | {"tags": ["a", None, "1"]}}),
        ('{"props":{"k":null,"n":1}}', {"props": [("k", None), ("n", "1")]}),
        ('{"user_id":1,"x":{"y":[1]}}', {"user_id": 1}),
        ('{"user_id":1,"a.b":2,"__proto__":{"user_id":3}}', {"user_id": 1}),
        (' \t\r\n{ "user_id" : 1 } \n', {"user_id": 1}),
        ('{"\\u0075ser_id":1}', {"user_id": 1}),
    ],
)
def test_keys_are_matched_exactly_and_the_last_one_wins(payload: str, expected: dict[str, Any]) -> None:
    assert row(KEYS, payload.encode()) == _NONE | expected


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b'{"info":[]}', "field info: expected row, got []"),
        (b'{"info":"x"}', 'field info: expected row, got "x"'),
        (b'[{"user_id":1}]', 'payload: expected one JSON object, got [{"user_id":1}]'),
        (b'"x"', 'payload: expected one JSON object, got "x"'),
        (b"null", "payload: expected one JSON object, got null"),
        (b"1", "payload: expected one JSON object, got 1"),
        (b"", "payload: expected one JSON object, got nothing (empty)"),
        (b"  \t", "payload: expected one JSON object, got   \\t (nothing but blanks)"),
    ],
)
def test_anything_but_an_object_is_a_mismatch(payload: bytes, message: str) -> None:
    assert reason(KEYS, payload) == message


@pytest.mark.parametrize(
    "payload",
    [
        b'{"user_id":1}{"user_id":2}',
        b'{"user_id":1} {"user_id":2}',
        b'{"user_id":1} x',
        b'{"user_id":1}\x00',
        b'{"user_id":1,}',
        b"{'user_id':1}",
        b'{"user_id":1',
        b'{"user_id":01}',
        b'{"user_id":+1}',
        b'{"user_id":.5}',
        b'{"user_id":1.}',
        b'{"x":NaN}',
        b'{"x":-Infinity}',
        b'{"x":tru}',
        b'{/* */"user_id":1}',
        b'{"user_id":1} // end',
        b'{"event":"a\tb"}',
        b'{"x":"a\nb"}',
        b'{"event":"\\ud800"}',
        b'{"x":"\\udc00 and more"}',
        b'{"x":"\\ud800\\u0041 and more"}',
        b'{"\\ud800":1}',
        b'{"event":"\\x"}',
        b'{"event":"\xff"}',
        b'{"x":"\xff"}',
        b'{"x":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"user_id":1}',
        b'{"x":[1 2]}',
        b'{"x":{1:2}}',
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"x":' * 100_000,
    ],
)
def test_what_is_not_strictly_one_json_document_is_a_mismatch(payload: bytes) -> None:
    assert reason(SEED, payload).startswith("payload: expected one JSON object, got ")


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
def test_depth_has_one_limit_in_every_field(depth: int) -> None:
    inner = b"[" * depth + b"]" * depth
    payloads = [b'{"x":' + inner + b"}", b'{"event":' + inner + b"}"]

    for payload in payloads:
        result = decoded(SEED, payload)
        assert (result.rows is not None) == (depth < MAX_DEPTH)


def test_brackets_in_texts_are_not_depth() -> None:
    payload = b'{"event":"' + b'[{\\"' * 1000 + b'","x":[' + b"[]," * 400 + b"[]]}"

    assert row(SEED, payload)["event"] == '[{"' * 1000


def test_an_endless_open_text_is_found_in_linear_time() -> None:
    assert reason(SEED, b'{"x":"' + b'[\\"' * 300_000).startswith("payload: ")


def test_a_default_fills_what_is_missing_or_null() -> None:
    schema = RowSchema(
        (SchemaField("a", parse_type("int"), default=5), SchemaField("b", parse_type("timestamp"), default=0))
    )

    for payload in (b"{}", b'{"a":null,"b":null}', b'{"a":"5"}'):
        assert row(schema, payload)["a"] == 5
        assert row(schema, payload)["b"].isoformat() == "1970-01-01T00:00:00"
    assert row(schema, b'{"a":0}')["a"] == 0


def test_names_that_msgspec_does_not_take_are_decoded_too() -> None:
    schema = schema_of(**{'say "hi"\n': "int", "back\\slash": row_of(**{'"': "string"})})

    assert row(schema, b'{"say \\"hi\\"\\n":1,"back\\\\slash":{"\\"":"x"}}') == {
        'say "hi"\n': 1,
        "back\\slash": {'"': "x"},
    }
