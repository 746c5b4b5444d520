"""Blocks of payloads decode to exactly what the exact decoder makes of each one, however they lie in memory."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgesocket.errors import SchemaMismatchError
from edgesocket.records import RecordBlock
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.fast import BlockDecoder
from edgesocket.schema.lenient import LenientDecoder
from edgesocket.schema.types import RowSchema, RowType, SchemaField, parse_type

INNER = RowType((("lat", parse_type("double")), ("tags", parse_type("array<string>")), ("n", parse_type("tinyint"))))
ODD = RowType((("d", parse_type("decimal(6,2)")), ("é.x", parse_type("map<int,timestamp>"))))
SCHEMA = RowSchema(
    (
        SchemaField("a", parse_type("int")),
        SchemaField("b", parse_type("bigint"), default=-1),
        SchemaField("c", parse_type("tinyint")),
        SchemaField("d", parse_type("double")),
        SchemaField("e", parse_type("float")),
        SchemaField("f", parse_type("boolean")),
        SchemaField("g", parse_type("string"), default="none"),
        SchemaField("h", INNER),
        SchemaField("i", parse_type("map<string,bigint>")),
        SchemaField("j", parse_type("timestamp"), default=0),
        SchemaField("k", parse_type("timestamp_tz")),
        SchemaField("l", parse_type("decimal(10,3)")),
        SchemaField("m", ODD),
        SchemaField("n", parse_type("bytes")),
        SchemaField("o", parse_type("date")),
        SchemaField("p", parse_type("time")),
        SchemaField("q", parse_type("array<float>")),
        SchemaField("r", parse_type("null")),
    )
)
NATIVE = RowSchema(tuple(field for field in SCHEMA.fields if field.name in "acdefgh" or field.name == "i"))
FLAT = RowSchema(tuple(field for field in SCHEMA.fields if field.name in "abcdefgjo"))
"""What the compiled way takes, where there is one."""
DECODERS = {
    (id(schema), lenient): (
        BlockDecoder(schema, lenient),
        LenientDecoder(schema) if lenient else ExactDecoder(schema),
    )
    for schema in (SCHEMA, NATIVE, FLAT)
    for lenient in (False, True)
}

SPELLINGS = [
    *("-0", "-0.0", "0.0", "1e3", "1E+3", "7.0", "7.9", "1e400", "-1e400", "1e-400", "1.50", "1e39", "1e19"),
    *("00", "01", "-01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "NaN", "Infinity", "0.1e1", "100e-2"),
    *("0e999999999999999999999", "1e99999999999999999999", "1e-99999999999999999999", "9007199254740993"),
    *("3.4028235677973362e38", "3.4028235677973366e38", "3.4028236e38", "340282356779733661637539395458142568448"),
    *("340282356779733661637539395458142568447", "123456789012345678901234567890", "2.2250738585072011e-308"),
    *("4.9e-324", "2.4703282292062327e-324", "1" * 400, "1" * 1001, "7." + "0" * 1001),
]
"""Numbers at the edge of something."""

numbers = st.one_of(
    st.integers().map(str),
    st.integers(-130, 130).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from([2**7, 2**31, 2**63, 2**64, 2**53]).flatmap(
        lambda limit: (
            st.integers(-2, 2).map(lambda near: str(limit + near)) | st.just(str(-limit)) | st.just(f"{-limit - 1}")
        )
    ),
    st.sampled_from(SPELLINGS),
)
texts = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(
        lambda text: json.dumps(text, ensure_ascii=False)
    ),
    numbers.map(lambda text: f'"{text}"'),
    st.sampled_from(
        [
            '"2022-09-24T22:45:00"',
            '"2022-09-24 22:45:00.123456789+0530"',
            '"2022-09-24T22:45Z"',
            '"2022-02-30T00:00:00"',
            '"2022-09-24"',
            '"20220924"',
            '"22:45:00.5"',
            '"24:00:00"',
            '"aGk="',
            '"aGl="',
            '"true"',
            '"null"',
            '""',
            '"\\ud83d\\ude00"',
            '"\\ude00"',
            '"\\ud83d"',
            '"\\ud83d\\ue000 and so on"',
            '"\\u0000"',
            '"\\u00e9"',
            '"\t"',
            '"\x7f"',
            '"}{"',
            '"\\"',
            '"\\/"',
            '"\\x"',
        ]
    ),
)
scalars = st.one_of(numbers, texts, st.sampled_from(["true", "false", "null", "True", "nul", "20220924", ""]))
blanks = st.sampled_from(["", "", "", "", " ", "\n", "\t", "\r", "\x0c", " \n "])
keys = st.sampled_from([*"abcdefghijklmnopqrx", "lat", "tags", "n", "d", "é.x", "5", "\\u0061", "A", "", "\x01"]).map(
    lambda name: f'"{name}"'
)


def _object(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(keys, blanks, inner).map(lambda parts: f"{parts[0]}{parts[1]}:{parts[2]}")
    return st.tuples(st.lists(pair, max_size=4), blanks).map(lambda parts: "{" + parts[1] + ",".join(parts[0]) + "}")


def _array(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.lists(inner, max_size=3), blanks).map(lambda parts: "[" + ",".join(parts[0]) + parts[1] + "]")


values = st.recursive(scalars, lambda inner: _object(inner) | _array(inner), max_leaves=5)

fitting: dict[str, st.SearchStrategy[str]] = {
    "a": st.integers(-(2**31), 2**31 - 1).map(str),
    "d": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "f": st.sampled_from(["true", "false", "null"]),
    "g": st.text(max_size=8).map(json.dumps),
    "h": st.sampled_from(["null", "{}", '{"lat":1,"tags":["a",null],"n":-128}', '{"n":null,"x":[[]]}']),
    "i": st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=3).map(json.dumps),
    "j": st.datetimes().map(lambda moment: f'"{moment.isoformat()}"'),
    "k": st.datetimes().map(lambda moment: f'"{moment.isoformat()}-00:30"'),
    "l": st.decimals(-1000, 1000, places=3).map(str),
    "m": st.sampled_from(['{"d":1.5}', '{"é.x":{"1":"2022-09-24T22:45:00+01:00","2":null}}']),
    "n": st.binary(max_size=4).map(lambda data: json.dumps(base64.b64encode(data).decode())),
    "o": st.dates().map(lambda day: f'"{day}"'),
    "p": st.times().map(lambda time: f'"{time.isoformat()}"'),
    "q": st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=3).map(json.dumps),
}


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A good row, sometimes with one strange value in it."""
    names = draw(st.lists(st.sampled_from(sorted(fitting)), unique=True, max_size=6))
    pairs = [f'"{name}":{draw(fitting[name])}' for name in names]
    if draw(st.integers(0, 2)) == 0:
        pairs.insert(draw(st.integers(0, len(pairs))), f"{draw(keys)}:{draw(values)}")
    return "{" + ",".join(pairs) + "}"


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A row with a byte changed, taken out or put in."""
    row = bytearray(draw(rows()).encode())
    at = draw(st.integers(0, len(row) - 1))
    row[at : at + draw(st.integers(0, 1))] = draw(
        st.sampled_from([b"", b"{", b"}", b'"', b",", b"\\", b"\xff", b"\n", b"0"])
    )
    return bytes(row)


payloads = st.one_of(
    rows().map(str.encode),
    rows().map(str.encode),
    rows().map(str.encode),
    damaged(),
    values.map(str.encode),
    st.tuples(blanks, _object(values), blanks).map(lambda parts: "".join(parts).encode()),
    st.lists(_object(scalars), min_size=2, max_size=2).map(lambda pair: "".join(pair).encode()),
    st.binary(max_size=6),
)


def _model(schema: RowSchema, lenient: bool, records: list[bytes]) -> tuple[list[int], str, list[tuple[int, str]], int]:
    """Which records are rows, those rows, the other ones with their reasons, and how many are neither."""
    exact = DECODERS[id(schema), lenient][1]
    good: list[Any] = []
    kept: list[int] = []
    bad: list[tuple[int, str]] = []
    for index, record in enumerate(records):
        try:
            row = exact.decode(record)
        except SchemaMismatchError as error:
            bad.append((index, str(error)))
            continue
        if row is not None:
            good.append(row)
            kept.append(index)
    shown = repr(record_batch(good, schema).to_pylist()) if good else ""
    return kept, shown, bad, len(records) - len(kept) - len(bad)


def _blocks(records: list[bytes]) -> list[RecordBlock]:
    """The records as separate payloads and, where no line end is in them, as lines of one buffer."""
    blocks = [RecordBlock.of_run(10, records)]
    if not any(b"\n" in record for record in records):
        data = bytearray()
        starts, ends = [], []
        for index, record in enumerate(records):
            data += b"__BATCH__:%d:" % (10 + index)
            starts.append(len(data))
            data += record
            ends.append(len(data))
            data += b"\n"
        buffer = np.frombuffer(bytes(data), dtype=np.uint8)
        blocks.append(RecordBlock.of_columns(buffer, np.array(starts), np.array(ends), 10))
    return blocks


def _same(schema: RowSchema, lenient: bool, records: list[bytes]) -> None:
    kept, shown, bad, dropped = _model(schema, lenient, records)
    decoder = DECODERS[id(schema), lenient][0]
    for block in _blocks(records):
        if decoder._flat is not None:
            decoder._flat._left_alone = 0
        result = decoder.decode(block)
        assert [(one.index, one.reason) for one in result.bad] == bad
        assert [(one.batch_id, one.payload) for one in result.bad] == [(10 + at, records[at]) for at, _ in bad]
        assert result.dropped == dropped
        if result.rows is None:
            assert kept == []
        else:
            assert result.rows.id_array().tolist() == [10 + at for at in kept]
            assert repr(result.rows.batch.to_pylist()) == shown
            assert result.rows.batch.schema == schema.arrow == result.rows.schema
    if not lenient:
        refused = dict(bad)
        for index, record in enumerate(records):
            error = decoder.check(record)
            assert (str(error) if error else None) == refused.get(index)


_SETTINGS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_SETTINGS
@given(st.lists(payloads, min_size=1, max_size=6))
def test_a_block_decodes_like_its_records_strictly(records: list[bytes]) -> None:
    _same(SCHEMA, False, records)
    _same(NATIVE, False, records)
    _same(FLAT, False, records)


@_SETTINGS
@given(st.lists(payloads, min_size=1, max_size=6))
def test_a_block_decodes_like_its_records_leniently(records: list[bytes]) -> None:
    _same(SCHEMA, True, records)
    _same(NATIVE, True, records)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(payloads, max_size=4),
    st.integers(60, 600),
    st.integers(0, 600),
    st.sampled_from(['{"a":%d,"d":%d.5,"g":"x"}', '{"a":"%d","d":"%d.5"}', '{"a":%d,"c":"%d"}']),
    st.booleans(),
)
def test_a_long_block_decodes_like_its_records(
    strange: list[bytes], count: int, at: int, form: str, lenient: bool
) -> None:
    alike = [(form % (number, number)).encode() for number in range(count)]

    for schema in (NATIVE, FLAT):
        _same(schema, lenient, alike[:at] + strange + alike[at:])


@settings(max_examples=300, deadline=None)
@given(numbers, st.sampled_from(["a", "b", "c", "d", "e", "g"]), st.booleans())
def test_one_number_in_one_column_decodes_like_it_does_alone(number: str, name: str, lenient: bool) -> None:
    for schema in (NATIVE, FLAT):
        _same(schema, lenient, [f'{{"{name}":{number}}}'.encode()])


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e", "g", "l"])
@pytest.mark.parametrize("lenient", [False, True])
def test_numbers_at_the_edge_of_something_decode_like_they_do_alone(name: str, lenient: bool) -> None:
    for number in SPELLINGS:
        for text in (number, f'"{number}"'):
            _same(SCHEMA, lenient, [f'{{"{name}":{text}}}'.encode()])
            for schema in (NATIVE, FLAT):
                if name in schema.names:
                    _same(schema, lenient, [f'{{"{name}":{text}}}'.encode()])


def _python_accepts(payload: bytes) -> bool:
    """Whether Python's own reader, kept to the RFC, takes a payload as one object."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        document = json.loads(payload.decode(), parse_constant=refuse, parse_int=str, parse_float=str)
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict)


@_SETTINGS
@given(payloads)
def test_the_same_payloads_are_json_for_us_as_for_python(payload: bytes) -> None:
    schema = RowSchema((SchemaField("no such field", parse_type("int")),))

    assert (BlockDecoder(schema).check(payload) is None) == _python_accepts(payload)
