"""Payloads become rows, and what does not fit the schema goes the way that `on_bad_record` says."""

from __future__ import annotations

import pytest

from edgesocket.components.dead_letter import DeadLetter
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.errors import BadRecordError, DecodeError
from edgesocket.ingress.admission import RawCodec
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows, text_schema
from edgesocket.schema.types import RowSchema, SchemaField, parse_type
from edgesocket.sources.typing_rows import ORIGIN, CheckedCodec, RowMaker

SCHEMA = RowSchema((SchemaField("n", parse_type("int")),))
BAD = b'{"n":"many"}'


def _options(**options: object) -> EdgeSocketOptions:
    return EdgeSocketOptions.of(port=1, token="t", **{"schema": SCHEMA, **options})


def _maker(**options: object) -> tuple[RowMaker, list[DeadLetter]]:
    letters: list[DeadLetter] = []
    return RowMaker(_options(**options), letters.append), letters


def _block(first_id: int, *payloads: bytes) -> RecordBlock:
    return RecordBlock.of_run(first_id, payloads)


def _pairs(rows: Rows) -> list[tuple[int, object]]:
    return list(zip(rows.id_array().tolist(), rows.batch.column(0).to_pylist(), strict=True))


def test_without_a_schema_a_payload_is_a_row() -> None:
    maker, _ = _maker(schema=None)
    block = _block(5, b"a", BAD)
    (rows,) = maker.rows([block])
    assert rows.records is block
    assert maker.schema == text_schema()
    assert _pairs(rows) == [(5, "a"), (6, BAD.decode())]


def test_with_a_schema_rows_are_typed_and_keep_their_ids() -> None:
    maker, _ = _maker()
    made = list(maker.rows([_block(5, b'{"n":1}', b'{"n":2}'), _block(20, b'{"n":3}')]))
    assert [_pairs(rows) for rows in made] == [[(5, 1), (6, 2)], [(20, 3)]]
    assert maker.schema == SCHEMA.arrow == made[0].schema
    assert (maker.bad, maker.dropped) == (0, 0)


def test_fail_hands_on_the_rows_before_the_bad_one_and_names_its_batch() -> None:
    maker, letters = _maker(on_bad_record="fail")
    made = maker.rows([_block(3, b'{"n":1}', b'{"n":2}', BAD, b'{"n":4}', BAD)])

    assert _pairs(next(made)) == [(3, 1), (4, 2)]
    with pytest.raises(BadRecordError) as caught:
        next(made)

    assert caught.value.batch_id == 5
    assert "many" in caught.value.reason
    assert letters == []


def test_fail_hands_on_nothing_where_the_first_record_is_bad() -> None:
    maker, _ = _maker(on_bad_record="fail")
    with pytest.raises(BadRecordError) as caught:
        next(maker.rows([_block(3, BAD, b'{"n":2}')]))
    assert caught.value.batch_id == 3


def test_dead_letter_goes_on_with_the_good_ones_and_buries_the_others() -> None:
    maker, letters = _maker(on_bad_record="dead_letter")

    made = list(maker.rows([_block(3, b'{"n":1}', BAD, b'{"n":3}'), _block(9, BAD), _block(10, b'{"n":10}')]))

    assert [_pairs(rows) for rows in made] == [[(3, 1), (5, 3)], [(10, 10)]], "a block without good ones makes none"
    assert [(letter.batch_id, letter.payload, letter.origin) for letter in letters] == [
        (4, BAD, ORIGIN),
        (9, BAD, ORIGIN),
    ]
    assert all("many" in letter.reason and letter.time_ms > 0 for letter in letters)
    assert maker.bad == 2


def test_payloads_that_make_no_row_are_counted_under_lenient() -> None:
    maker, letters = _maker(json_mode="lenient")
    (rows,) = maker.rows([_block(1, b"null", b'{"n":2}')])
    assert _pairs(rows) == [(2, 2)]
    assert (maker.dropped, maker.bad, letters) == (1, 0, [])


def test_reject_admits_what_fits_as_the_inner_codec_does() -> None:
    payload = b'{"n":1}'
    assert CheckedCodec(RawCodec(), _options(on_bad_record="reject")).admit(payload) == RawCodec().admit(payload)


def test_reject_refuses_what_does_not_fit_as_undecodable() -> None:
    codec = CheckedCodec(RawCodec(), _options(on_bad_record="reject"))
    for payload in (BAD, b"no json", b"[]"):
        with pytest.raises(DecodeError) as caught:
            codec.admit(payload)
        assert caught.value.reply == "DECODE_FAILED"
