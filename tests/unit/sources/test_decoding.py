"""Packets on their way to the sinks: inflated one after another, never all at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgesocket.compression import Compression
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.packet.compression import deflate
from edgesocket.records import RecordBlock
from edgesocket.sources import decoding
from edgesocket.sources.decoding import RecordDecoder


def _decoder(**options: object) -> RecordDecoder:
    return RecordDecoder(EdgeSocketOptions.of(port=1, token="t", **{"packet_mode": "PACKET", **options}))


def _block(first_id: int, *payloads: bytes, compression: Compression = Compression.GZIP) -> RecordBlock:
    ids = range(first_id, first_id + len(payloads))
    return RecordBlock.of_payloads(list(ids), [deflate(p, compression) for p in payloads], compression)


def _pairs(blocks: object) -> list[tuple[int, bytes]]:
    return [(b.id_at(i), payload) for b in blocks for i, payload in enumerate(b.payloads())]  # type: ignore[attr-defined]


def test_raw_blocks_pass_as_they_are() -> None:
    blocks = [RecordBlock.of_payloads([1], [b"a"])]
    assert _decoder(packet_mode="RAW").decoded(blocks) is blocks


def test_order_and_ids_stay_whatever_the_compression() -> None:
    blocks = [
        _block(1, b"a", b"b"),
        _block(9, b"c", compression=Compression.NONE),
        _block(4, b"d" * 1000, compression=Compression.ZLIB),
    ]
    decoded = list(_decoder().decoded(blocks))
    assert _pairs(decoded) == [(1, b"a"), (2, b"b"), (9, b"c"), (4, b"d" * 1000)]
    assert {block.compression for block in decoded} == {Compression.NONE}


def test_small_records_travel_together_and_large_ones_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "DECODED_BYTES", 100)
    blocks = [_block(n, b"x" * size) for n, size in enumerate([10, 10, 90, 200, 200, 5], 1)]
    assert [block.count for block in _decoder().decoded(blocks)] == [3, 1, 1, 1]


def test_a_record_is_inflated_only_when_it_is_asked_for() -> None:
    asked: list[int] = []

    def blocks() -> Iterator[RecordBlock]:
        for n in range(1, 4):
            asked.append(n)
            yield _block(n, bytes(decoding.DECODED_BYTES))

    decoded = iter(_decoder().decoded(blocks()))
    next(decoded)
    assert asked == [1]


def test_bytes_that_are_no_text_are_replaced_if_that_is_asked_for() -> None:
    blocks = [_block(1, b"a\xffb")]
    assert _pairs(_decoder(invalid_utf8="replace").decoded(blocks)) == [(1, "a\ufffdb".encode())]
