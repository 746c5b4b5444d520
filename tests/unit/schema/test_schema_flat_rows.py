"""The compiled way from JSON to columns: what it takes, what it leaves alone, and that it then is the exact one."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from edgesocket.errors import SchemaMismatchError
from edgesocket.records import RecordBlock
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.fast import BlockDecoder
from edgesocket.schema.flat_rows import MAX_COLUMNS, MAX_LEFT_ALONE, FlatRows, load
from edgesocket.schema.types import RowSchema, SchemaField, parse_type

LIBRARY = load()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="there was no C compiler when the package was built")

SCHEMA = RowSchema(
    (
        SchemaField("whole", parse_type("int")),
        SchemaField("real", parse_type("double")),
        SchemaField("real_32", parse_type("float")),
        SchemaField("truth", parse_type("boolean")),
        SchemaField("text", parse_type("string")),
        SchemaField("stamp", parse_type("timestamp")),
        SchemaField("day", parse_type("date")),
        SchemaField("small", parse_type("tinyint"), default=7),
        SchemaField("note", parse_type("string"), default="none"),
    )
)


def _flat(schema: RowSchema = SCHEMA) -> FlatRows:
    assert LIBRARY is not None
    return FlatRows(schema, LIBRARY)


def _read(*payloads: str | bytes, schema: RowSchema = SCHEMA) -> Any:
    records = [payload if isinstance(payload, bytes) else payload.encode() for payload in payloads]
    return _flat(schema).read(RecordBlock.of_run(1, records))


def _exactly(payload: bytes, schema: RowSchema = SCHEMA) -> Any:
    return record_batch([ExactDecoder(schema).decode(payload)], schema)


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        ' \t{ "whole" : -7 , "text" : "" }\r\n',
        '{"text":"two words, and a longer text than eight","whole":2147483647}',
        '{"text":"tab\\t quote\\" slash\\/ back\\\\ line\\n\\r\\b\\f"}',
        '{"text":"Zürich \U0001f98a"}',
        '{"real":0.1,"real_32":0.1}',
        '{"real":-0.0,"real_32":1e10}',
        '{"real":123456789012345678}',
        '{"real":3.141592653589793115997963468544}',
        '{"real":4.9e-324,"real_32":3.4028235e38}',
        '{"real":1.7976931348623157e308}',
        '{"real":1e22}',
        '{"real":1e23}',
        '{"whole":-0}',
        '{"truth":true}',
        '{"truth":false}',
        '{"truth":null,"text":null,"real":null,"stamp":null,"day":null,"whole":null,"small":null,"note":null}',
        '{"stamp":"2024-02-29T23:59:59"}',
        '{"stamp":"2024-02-29 23:59:59.123456789Z"}',
        '{"stamp":"0001-01-01T00:00:00","day":"9999-12-31"}',
        '{"stamp":"1969-12-31T23:59:59.5","day":"1900-03-01"}',
        '{"unknown":1.5e3,"other":"x\\"y","and":true,"none":null,"whole":1}',
        '{"day":"2000-02-29","note":"given","small":-128}',
    ],
)
def test_what_is_plain_is_taken_as_the_exact_decoder_takes_it(payload: str) -> None:
    batch = _read(payload)
    assert batch is not None
    batch.validate(full=True)
    exact = _exactly(payload.encode())
    assert batch.schema == exact.schema
    assert repr(batch.to_pylist()) == repr(exact.to_pylist())


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "{",
        "[]",
        "null",
        '{"whole":1}{}',
        '{"whole":1,}',
        '{"whole":01}',
        '{"whole":1.0}',
        '{"whole":"1"}',
        '{"whole":2147483648}',
        '{"whole":1234567890123456789}',
        '{"whole":1,"whole":2}',
        '{"small":128}',
        '{"real":-0}',
        '{"real":1e400}',
        '{"real":.5}',
        '{"real":NaN}',
        '{"real_32":3.5e38}',
        '{"truth":1}',
        '{"truth":tru}',
        '{"text":1}',
        '{"text":"\\u0041"}',
        '{"text":"\\x"}',
        '{"text":"a\x1fb"}',
        '{"text":"open',
        '{"wh\\u006fle":1}',
        '{"stamp":"2024-02-30T00:00:00"}',
        '{"stamp":"2024-02-29T24:00:00"}',
        '{"stamp":"2024-02-29T23:59:60"}',
        '{"stamp":"2024-02-29T23:59:59."}',
        '{"stamp":"2024-02-29T23:59:59+01:00"}',
        '{"stamp":20240229}',
        '{"day":"0000-01-01"}',
        '{"day":"1900-02-29"}',
        '{"unknown":[1]}',
        '{"unknown":{"whole":1}}',
    ],
)
def test_everything_else_is_left_to_the_exact_decoder(payload: str) -> None:
    assert _read("{}", payload, "{}") is None


@pytest.mark.parametrize("payload", [b'{"text":"\xff"}', b'{"text":"\xc3"}', b'{"\xe9":1}'])
def test_bytes_that_are_not_utf8_are_left_to_the_exact_decoder(payload: bytes) -> None:
    assert _read(b'{"text":"\xa9"}') is None
    assert _read(payload, b'{"text":"x"}') is None


def test_fields_may_come_in_any_order_and_only_some_of_the_time() -> None:
    random.seed(1)
    names = list(SCHEMA.names)
    values = {"whole": 1, "real": 1.5, "real_32": 2.5, "truth": True, "text": "t", "stamp": "2024-01-01T00:00:00",
              "day": "2024-01-01", "small": 3, "note": "n", "more": 4}  # fmt: skip
    rows = []
    for _ in range(1000):
        some = random.sample([*names, "more"], random.randrange(len(names) + 1))
        rows.append(json.dumps({name: values[name] for name in some}).encode())
    batch = _read(*rows)
    assert batch is not None
    decoder = ExactDecoder(SCHEMA)
    assert batch.equals(record_batch([decoder.decode(row) for row in rows], SCHEMA))


def test_a_byte_changed_anywhere_never_makes_another_row_than_the_exact_decoder_does() -> None:
    random.seed(2)
    decoder = ExactDecoder(SCHEMA)
    form = (
        b'{"whole":-12,"real":1.25e-3,"truth":true,"text":"a\\n\xc3\xa9b","stamp":"2024-02-29T23:59:59.5Z",'
        b'"day":"2024-02-29","real_32":0.5,"x":null}'
    )
    letters = b'{}[]":,\\ \t\n\x00\x1f\x7f\x80\xc3\xff0123456789-+.eEtrufalsn/TZ'
    taken = 0
    for _ in range(20_000):
        payload = bytearray(form)
        for _ in range(random.randrange(1, 3)):
            at = random.randrange(len(payload))
            payload[at : at + random.randrange(2)] = bytes([random.choice(letters)]) * random.randrange(2)
        batch = _read(bytes(payload))
        if batch is not None:
            taken += 1
            assert repr(batch.to_pylist()) == repr(record_batch([decoder.decode(bytes(payload))], SCHEMA).to_pylist())
    assert 1000 < taken < 19_000


def test_every_piece_of_a_payload_that_is_cut_off_is_left_alone() -> None:
    whole = b'{"whole":1,"text":"abcdefgh ijk","real":1.5,"stamp":"2024-02-29T23:59:59.5","truth":false}'
    for size in range(len(whole)):
        assert _read(whole[:size]) is None
        with pytest.raises(SchemaMismatchError):
            ExactDecoder(SCHEMA).decode(whole[:size])


def test_schemas_of_other_types_or_of_too_many_columns_have_no_compiled_way() -> None:
    wide = [SchemaField(f"c{n}", parse_type("int")) for n in range(MAX_COLUMNS + 1)]
    assert not FlatRows.fits(RowSchema(tuple(wide)))
    assert not FlatRows.fits(RowSchema((SchemaField("a", parse_type("array<int>")),)))
    assert not FlatRows.fits(RowSchema((SchemaField("a", parse_type("decimal(3,1)")),)))
    schema = RowSchema(tuple(wide[:-1]))
    assert FlatRows.fits(schema)
    assert _read('{"c63":63,"c0":0}', schema=schema).to_pylist()[0] == {
        f"c{n}": n if n in (0, 63) else None for n in range(MAX_COLUMNS)
    }


def test_after_surprises_a_few_pieces_are_not_even_tried_and_then_it_is_tried_again() -> None:
    flat, odd, plain = _flat(), RecordBlock.of_run(1, [b"[]"]), RecordBlock.of_run(1, [b"{}"])
    for surprises in range(1, MAX_LEFT_ALONE + 3):
        assert flat.read(odd) is None
        for _ in range(min(surprises, MAX_LEFT_ALONE)):
            assert flat.read(plain) is None
    assert flat.read(plain) is not None
    assert flat.read(odd) is None
    assert flat.read(plain) is None
    assert flat.read(plain) is not None


def test_ids_and_order_are_those_of_the_block() -> None:
    block = RecordBlock.of_payloads([3, 9, 4], [b'{"whole":3}', b'{"whole":9}', b'{"whole":4}'])
    rows = BlockDecoder(SCHEMA).decode(block).rows
    assert rows is not None
    assert rows.id_array().tolist() == [3, 9, 4]
    assert rows.batch.column("whole").to_pylist() == [3, 9, 4]
