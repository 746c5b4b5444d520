"""Metadata columns: id, time and sender of a batch beside its payload, for those who ask."""

from __future__ import annotations

from datetime import datetime

from edgesocket.compression import Compression
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.packet.compression import deflate
from edgesocket.records import Origin, RecordBlock
from edgesocket.rows import text_schema
from edgesocket.schema.types import RowSchema, SchemaField, parse_type
from edgesocket.sources.decoding import RecordDecoder
from edgesocket.sources.metadata import TYPES
from edgesocket.sources.typing_rows import RowMaker

SCHEMA = RowSchema((SchemaField("n", parse_type("int")),))
ALL = (("peer", "sender"), ("batch_id", "id"), ("received_time", "at"))
ORIGIN = Origin(1_700_000_000_000_001, "127.0.0.1:5000")
AT = datetime(2023, 11, 14, 22, 13, 20, 1)


def _maker(**options: object) -> RowMaker:
    given = {"metadata_fields": ALL, "schema": None, **options}
    return RowMaker(EdgeSocketOptions.of(port=1, token="t", **given), lambda _: None)


def _rows(maker: RowMaker, *blocks: RecordBlock) -> list[dict[str, object]]:
    return [row for rows in maker.rows(blocks) for row in rows.batch.to_pylist()]


def test_rows_of_a_schema_get_the_columns_behind_their_own_in_the_order_asked_for() -> None:
    maker = _maker(schema=SCHEMA)
    assert maker.schema.names == ["n", "sender", "id", "at"]
    assert [maker.schema.field(name).type for _, name in ALL] == [TYPES[field] for field, _ in ALL]
    block = RecordBlock.of_payloads([7, 9], [b'{"n":1}', b'{"n":2}']).with_origin(ORIGIN)
    assert _rows(maker, block) == [
        {"n": 1, "sender": "127.0.0.1:5000", "id": 7, "at": AT},
        {"n": 2, "sender": "127.0.0.1:5000", "id": 9, "at": AT},
    ]


def test_payloads_without_a_schema_get_them_too() -> None:
    block = RecordBlock.of_run(3, [b"a", b"b"]).with_origin(ORIGIN)
    maker = _maker()
    (rows,) = maker.rows([block])
    assert rows.records is None, "a row is more than its payload"
    assert rows.schema == rows.batch.schema == maker.schema
    assert [(row["value"], row["id"], row["sender"]) for row in rows.batch.to_pylist()] == [
        ("a", 3, "127.0.0.1:5000"),
        ("b", 4, "127.0.0.1:5000"),
    ]


def test_what_a_checkpoint_brought_back_has_its_id_and_nulls() -> None:
    (row,) = _rows(_maker(schema=SCHEMA), RecordBlock.of_run(3, [b'{"n":1}']))
    assert row == {"n": 1, "sender": None, "id": 3, "at": None}


def test_ids_stay_with_their_rows_where_some_records_make_none() -> None:
    maker = _maker(schema=SCHEMA, on_bad_record="dead_letter")
    block = RecordBlock.of_run(3, [b"no", b'{"n":1}', b"no", b'{"n":2}']).with_origin(ORIGIN)
    assert [(row["n"], row["id"]) for row in _rows(maker, block)] == [(1, 4), (2, 6)]


def test_a_job_that_does_not_ask_gets_rows_as_they_always_were() -> None:
    maker = _maker(metadata_fields=())
    block = RecordBlock.of_run(3, [b"a"])
    (rows,) = maker.rows([block])
    assert rows.records is block
    assert maker.schema == text_schema()


def test_an_origin_stays_with_records_that_are_cut_and_copied() -> None:
    block = RecordBlock.of_run(1, [b"a", b"b", b"c"]).with_origin(ORIGIN)
    whole = RecordBlock.of_columns(*block.columns(), first_id=1).with_origin(ORIGIN)
    parts = [block.part(1, 2), whole.part(0, 1), whole.part(0, 1).compacted(), block.with_payloads([b"x"] * 3)]
    assert [part.origin for part in parts] == [ORIGIN] * 4
    assert whole.part(0, 1).compacted().payloads() == [b"a"]


def test_packets_of_two_senders_are_not_put_into_one_block() -> None:
    decoder = RecordDecoder(EdgeSocketOptions.of(port=1, token="t", packet_mode="PACKET"))
    other = Origin(2, "127.0.0.1:6000")
    packets = [
        RecordBlock.of_payloads([n], [deflate(b"x", Compression.GZIP)], Compression.GZIP).with_origin(origin)
        for n, origin in enumerate([ORIGIN, ORIGIN, other, None], 1)
    ]
    made = list(decoder.decoded(packets))
    assert [(block.first_id, block.count, block.origin) for block in made] == [
        (1, 2, ORIGIN),
        (3, 1, other),
        (4, 1, None),
    ]
