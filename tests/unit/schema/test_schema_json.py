"""What is JSON: every rule of the grammar, in fields that are read and in fields that are ignored."""

from __future__ import annotations

import json

import pytest
from schema_helpers import decoded, row, schema_of

READ = schema_of(x="string")
IGNORED = schema_of(other="string")

VALUES = [
    *(
        "0",
        "-0",
        "1",
        "-1",
        "0.0",
        "0.5e1",
        "1E5",
        "1e+5",
        "1e-5",
        "123456789012345678901234567890",
        "1e400",
        "-0.0e-0",
    ),
    *(
        '""',
        '"a"',
        '"\\""',
        '"\\\\"',
        '"\\/"',
        '"\\b\\f\\n\\r\\t"',
        '"\\u0000"',
        '"\\u00e9\\uD83D\\uDE00"',
        '"\\uFFFE"',
    ),
    *('"\u2028"', '"\u0085"', '"\u007f"', '"é😀\uffff"', "null", "true", "false", "[]", "{}", "[[]]", "[{}]"),
    *('{"a":{}}', '{"a":[]}', '{"":0}', '{"a":1,"a":2}', '[null,1,"a",[],{}]', '{"\\u0061":1}'),
]

NOT_VALUES = [
    *(
        "00",
        "01",
        "-01",
        "-00",
        "+1",
        "-",
        "+",
        ".",
        ".5",
        "1.",
        "-.5",
        "1.e5",
        "1e",
        "1e+",
        "1E-",
        "1e5.5",
        "0x1",
        "0e",
    ),
    *("1_0", "1a", "1.2.3", "--1", "1+1", "１", "Infinity", "-Infinity", "NaN", "nan"),
    *["True", "TRUE", "tru", "truee", "nul", "nulll", "undefined", "None", "a", "'a'", "`a`"],
    *('"', '"a', "\"a'", '"\\"', '"\\x41"', '"\\u"', '"\\u12"', '"\\u12g4"', '"\\U0041"', '"\\\\""', '"\\a"', '"\\\n"'),
    *(
        '"\\ud800"',
        '"\\udfff"',
        '"\\ud800\\ud800"',
        '"\\ud800a"',
        '"\\ud800\\n"',
        '"\\uDE00\\uD83D"',
        '"\\ud83d\\u0041"',
    ),
    *(f'"{chr(code)}"' for code in range(32)),
    *("[", "]", "[1", "[1,", "[,1]", "[1,]", "[1,,2]", "[1 2]", "[1}", "[1:2]", "[,]", '["a]', "(1)", "[1]]"),
    *("{", "}", "{]", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{,"a":1}', '{"a" 1}', '{"a"::1}', '{"a","b"}'),
    *(
        "{a:1}",
        "{1:1}",
        "{null:1}",
        "{'a':1}",
        '{"a":1 "b":2}',
        '{"a":1;"b":2}',
        '{"a":}',
        "{:1}",
        '{"a"=1}',
        '{"a":1}}',
    ),
    *(
        "1 2",
        "1,2",
        "//c\n1",
        "/*c*/1",
        "1/**/",
        "#c\n1",
        "",
        " ",
        "\f1",
        "\v1",
        "\u00a01",
        "\u20281",
        "\ufeff1",
        "1\0",
        "$",
    ),
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("blank", ["", " ", "\n", "\t", "\r", " \r\n\t "])
def test_every_json_value_is_accepted(value: str, blank: str) -> None:
    payload = f'{blank}{{{blank}"x"{blank}:{blank}{value}{blank}}}{blank}'.encode()

    assert row(IGNORED, payload) == {"other": None}
    as_written = None if value == "null" else value
    assert row(READ, payload)["x"] == (json.loads(value) if value.startswith('"') else as_written)


@pytest.mark.parametrize("value", NOT_VALUES)
def test_nothing_else_is(value: str) -> None:
    payload = f'{{"x":{value}}}'.encode()

    for schema in (READ, IGNORED):
        result = decoded(schema, payload)
        assert result.rows is None
        assert [bad.payload for bad in result.bad] == [payload]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x80",
        b"\xc3",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xe2\x82",
    ],
)
def test_bytes_that_are_not_utf8_are_refused_in_names_and_texts(data: bytes) -> None:
    for schema in (READ, IGNORED):
        for payload in (b'{"x":"' + data + b'"}', b'{"' + data + b'":1}', b'{"x":["' + data + b'"]}'):
            assert decoded(schema, payload).rows is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_other_encodings_are_refused(encoding: str) -> None:
    assert decoded(READ, '{"x":1}'.encode(encoding)).rows is None
