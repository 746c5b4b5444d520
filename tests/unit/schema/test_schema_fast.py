"""Blocks: good rows and bad payloads with their ids, whatever the block looks like, and Arrow only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from schema_helpers import row_of, schema_of

from edgesocket.records import RecordBlock
from edgesocket.schema import fast
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.fast import RUN_RECORDS, BlockDecoder
from edgesocket.schema.types import RowSchema, SchemaField, parse_type

SEED = schema_of(user_id="int", event="string", ts="long")


def lines(payloads: Sequence[bytes], first_id: int = 1, end: bytes = b"\n", last_end: bool = True) -> RecordBlock:
    """A block over received bytes, as the block parser makes it: headers and line ends between the payloads."""
    data, starts, ends = bytearray(), [], []
    for index, payload in enumerate(payloads):
        data += b"__BATCH__:%d:" % (first_id + index)
        starts.append(len(data))
        data += payload
        ends.append(len(data))
        if last_end or index < len(payloads) - 1:
            data += end
    return RecordBlock.of_columns(
        np.frombuffer(bytes(data), dtype=np.uint8), np.array(starts), np.array(ends), first_id
    )


def good(number: int) -> bytes:
    return b'{"user_id":%d,"event":"e%d","ts":%d}' % (number, number, number * 1000)


def count_exact(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The payloads that the exact decoder gets to see from now on."""
    seen: list[bytes] = []
    decode = ExactDecoder.decode

    def spy(self: ExactDecoder, payload: bytes) -> msgspec.Struct:
        seen.append(payload)
        return decode(self, payload)

    monkeypatch.setattr(ExactDecoder, "decode", spy)
    return seen


@pytest.mark.parametrize("count", [1, 63, 64, RUN_RECORDS, RUN_RECORDS + 1, 2000])
@pytest.mark.parametrize(("end", "last_end"), [(b"\n", True), (b"\n", False), (b"\r\n", True)])
def test_payloads_in_a_receive_buffer_are_rows_in_order(count: int, end: bytes, last_end: bool) -> None:
    result = BlockDecoder(SEED).decode(lines([good(n) for n in range(count)], 5, end, last_end))

    assert result.bad == []
    assert result.rows is not None
    assert (result.rows.count, result.rows.first_id, result.rows.ids) == (count, 5, None)
    assert result.rows.batch.to_pydict() == {
        "user_id": list(range(count)),
        "event": [f"e{n}" for n in range(count)],
        "ts": [n * 1000 for n in range(count)],
    }


def test_good_payloads_never_reach_the_exact_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_exact(monkeypatch)
    payloads = [good(n) for n in range(600)]

    BlockDecoder(SEED).decode(lines(payloads))
    BlockDecoder(SEED).decode(RecordBlock.of_run(1, payloads))
    BlockDecoder(SEED).decode(lines([payload + b" \r" for payload in payloads]))

    assert seen == []


def test_only_the_odd_ones_reach_the_exact_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_exact(monkeypatch)
    payloads = [good(n) for n in range(600)]
    payloads[7] = b'{"user_id":7.0}'
    payloads[599] = b"oops"

    result = BlockDecoder(SEED).decode(lines(payloads))

    assert seen == [payloads[7], b"oops"]
    assert result.rows is not None
    assert result.rows.batch.column(0)[7].as_py() == 7


def test_quoted_numbers_in_every_record_do_not_need_the_exact_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_exact(monkeypatch)
    schema = schema_of(a="int", b="double", c="bigint")
    payloads = [b'{"a":"%d","b":"%d.5","c":%d}' % (n, n, n) for n in range(600)]
    payloads[5] = b'{"a":"5.0","b":null}'
    payloads[6] = b'{"a":"five"}'

    result = BlockDecoder(schema).decode(lines(payloads))

    assert seen == [b'{"a":"five"}']
    assert [bad.index for bad in result.bad] == [6]
    assert result.rows is not None
    assert result.rows.batch.slice(4, 3).to_pylist() == [
        {"a": 4, "b": 4.5, "c": 4},
        {"a": 5, "b": None, "c": None},
        {"a": 7, "b": 7.5, "c": 7},
    ]


def test_the_ids_of_rows_and_of_bad_payloads_are_those_of_their_records() -> None:
    block = RecordBlock.of_payloads([7, 9, 12, 13], [good(1), b"x", good(2), b""])

    result = BlockDecoder(SEED).decode(block)

    assert result.rows is not None
    assert result.rows.id_array().tolist() == [7, 12]
    assert [(bad.index, bad.batch_id, bad.payload) for bad in result.bad] == [(1, 9, b"x"), (3, 13, b"")]


def test_a_block_without_one_good_payload_has_no_rows() -> None:
    result = BlockDecoder(SEED).decode(lines([b"x"] * 100))

    assert result.rows is None
    assert len(result.bad) == 100
    assert result.dropped == 0


@pytest.mark.parametrize(
    "payloads",
    [
        [b'{"user_id":1}{"user_id":2}', b'{"user_id":3,', b'"event":"a"}'],
        [b'{"user_id":1}{"user_id":2}', b'{"x":{}', b',"event":"a"}'],
        [b'{"user_id":1}{"user_id":2}', b'{"x":', b'{"event":"a"}}'],
        [b'{"user_id":1} {"user_id":2}', b"{}"],
        [b'{"event":"}', b'{"}'],
        [b'{"x":{"user_id":1}', b'{"user_id":2}}'],
        [b'{"x":[{}', b"{}]}"],
        [b"{}{}", b""],
        [b"", b"{}"],
    ],
)
def test_documents_that_only_the_neighbours_would_complete_are_bad(payloads: list[bytes]) -> None:
    for block in (lines(payloads), RecordBlock.of_run(1, payloads)):
        result = BlockDecoder(SEED).decode(block)
        rows = 0 if result.rows is None else result.rows.count
        assert rows == payloads.count(b"{}")
        assert len(result.bad) == len(payloads) - rows


def test_a_payload_of_several_lines_is_one_document() -> None:
    payloads = [b'{\n  "user_id": 1,\n  "event": "a"\n}', good(2), b'\n{"user_id":3}\n']

    result = BlockDecoder(SEED).decode(RecordBlock.of_run(1, payloads))

    assert result.rows is not None
    assert result.rows.batch.column(0).to_pylist() == [1, 2, 3]


def test_bytes_that_are_not_utf8_spoil_only_their_own_payload() -> None:
    result = BlockDecoder(SEED).decode(lines([good(1), b'{"x":"\xff"}', '{"event":"é"}'.encode()]))

    assert [bad.index for bad in result.bad] == [1]
    assert result.rows is not None
    assert result.rows.batch.column(1).to_pylist() == ["e1", "é"]


def test_a_character_is_never_put_together_of_two_payloads() -> None:
    result = BlockDecoder(SEED).decode(RecordBlock.of_run(1, [b'{"x":"\xc3', b'\xa9"}']))

    assert result.rows is None


def test_arrow_columns_are_made_once_and_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = fast.record_batch

    def spy(rows: list[msgspec.Struct], schema: RowSchema) -> pa.RecordBatch:
        made.append(len(rows))
        return make(rows, schema)

    monkeypatch.setattr(fast, "record_batch", spy)
    monkeypatch.setattr(fast, "COMPILED", None)
    rows = BlockDecoder(SEED).decode(lines([good(n) for n in range(100)])).rows
    assert rows is not None
    assert (rows.count, rows.id_at(99), made) == (100, 100, [])

    assert rows.batch is rows.batch
    assert rows.batch.schema == rows.schema == SEED.arrow
    assert made == [100]


def test_nested_columns_keep_null_apart_from_empty() -> None:
    schema = schema_of(
        r=row_of(a="int", b=row_of(c="timestamp_tz")),
        l="array<array<int>>",
        m="map<string,array<decimal(3,1)>>",
        t="timestamp_tz",
    )
    payloads = [
        b'{"r":null,"l":null,"m":null,"t":null}',
        b'{"r":{},"l":[],"m":{}}',
        b'{"r":{"b":{}},"l":[null,[],[null,1]],"m":{"k":null,"e":[],"v":[1.5,null]},"t":"1970-01-01T00:00:00Z"}',
    ]

    result = BlockDecoder(schema).decode(RecordBlock.of_run(1, payloads))

    assert result.rows is not None
    batch = result.rows.batch
    batch.validate(full=True)
    assert batch.schema == schema.arrow
    assert batch.column("r").to_pylist() == [None, {"a": None, "b": None}, {"a": None, "b": {"c": None}}]
    assert batch.column("l").to_pylist() == [None, [], [None, [], [None, 1]]]
    assert batch.column("m").to_pylist() == [None, [], [("k", None), ("e", []), ("v", [Decimal("1.5"), None])]]
    assert batch.column("t").null_count == 2


def test_defaults_fill_rows_of_either_path() -> None:
    schema = RowSchema(
        (
            SchemaField("a", parse_type("int"), default=1),
            SchemaField("b", parse_type("date"), default=0),
            SchemaField("c", parse_type("decimal(3,1)"), default=Decimal("0.5")),
        )
    )
    payloads = [b"{}", b'{"a":"2","b":null}', b'{"a":null,"c":null}'] * 30

    result = BlockDecoder(schema).decode(lines(payloads))

    assert result.rows is not None
    assert [tuple(map(str, row.values())) for row in result.rows.batch.slice(0, 3).to_pylist()] == [
        ("1", "1970-01-01", "0.5"),
        ("2", "1970-01-01", "0.5"),
        ("1", "1970-01-01", "0.5"),
    ]


def test_a_check_says_what_decoding_would() -> None:
    decoder = BlockDecoder(SEED)

    assert decoder.check(good(1)) is None
    assert decoder.check(b'{"user_id":"1"}') is None
    assert str(decoder.check(b'{"user_id":1.5}')) == "field user_id: expected int, got 1.5 (has a fraction)"
    assert str(decoder.check(b"")) == "payload: expected one JSON object, got nothing (empty)"
    deep = b'{"x":' + b"[" * 1000 + b"]" * 1000 + b"}"
    assert str(decoder.check(deep)).endswith("(nested more than 256 deep)")


def test_a_schema_of_very_many_columns_works() -> None:
    schema = schema_of(**{f"c{number}": "int" for number in range(2000)})

    result = BlockDecoder(schema).decode(lines([b'{"c1999":5}'] * 3))

    assert result.rows is not None
    assert result.rows.batch.column("c1999").to_pylist() == [5, 5, 5]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_tz", "date"])
def test_times_of_a_long_block_are_those_of_its_records(kind: str) -> None:
    texts = [f"20{number % 100:02}-0{number % 9 + 1}-1{number % 10}" for number in range(300)]
    if kind != "date":
        texts = [f"{text}T22:45:{number % 60:02}.{number:03}-03:30" for number, text in enumerate(texts)]
    payloads = [f'{{"t":"{text}"}}'.encode() for text in texts]
    payloads[3] = b'{"t":null}'
    payloads[4] = b'{"t":"2022-02-30"}'
    payloads[5] = b'{"t":"2022-02-30T00:00:00.000-03:30"}'
    schema = schema_of(t=kind)
    exact = ExactDecoder(schema)
    expected = record_batch([exact.decode(payload) for payload in payloads[:4] + payloads[6:]], schema)

    result = BlockDecoder(schema).decode(lines(payloads))

    assert [bad.index for bad in result.bad] == [4, 5]
    assert result.rows is not None
    assert result.rows.batch.equals(expected)


def test_payloads_without_anything_between_them_are_rows() -> None:
    ends = np.arange(1, 101) * 3
    data = np.frombuffer(b"\n{}" * 100 + b"\n", dtype=np.uint8)

    result = BlockDecoder(SEED).decode(RecordBlock.of_columns(data, ends - 3, ends, 1))

    assert result.rows is not None
    assert (result.rows.count, result.bad) == (100, [])
