"""Records that are queued together."""

from __future__ import annotations

from collections.abc import Sequence

from edgesocket.compression import Compression
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.ingress.admission import Admitted
from edgesocket.ingress.together import MOST_DECODED_TO_STORED, Together
from edgesocket.packet.compression import deflate
from edgesocket.records import Origin
from edgesocket.sources.decoding import RecordDecoder


def packed(records: Sequence[bytes | None], stored: bytes = b"stored") -> Together:
    together = Together()
    for index, record in enumerate(records):
        together.add(7 + index, Admitted(stored, Compression.GZIP, b"d" * 16, record=record))
    return together


def test_they_become_one_block_of_consecutive_ids() -> None:
    block = packed([b"a", b"b", b"c"]).block(with_decoded=True)

    assert (block.first_id, block.count, block.ids, block.compression) == (7, 3, None, Compression.GZIP)
    assert list(block.payloads()) == [b"stored"] * 3


def test_another_compression_does_not_fit() -> None:
    together = Together()
    assert together.fits(Admitted(b"x", Compression.ZLIB, b""))

    together.add(1, Admitted(b"x", Compression.ZLIB, b""))

    assert together.fits(Admitted(b"x", Compression.ZLIB, b""))
    assert not together.fits(Admitted(b"x", Compression.NONE, b""))


def test_decoded_payloads_travel_along_where_asked_for() -> None:
    together = packed([b"a", b"b", b"c"])

    assert together.block(with_decoded=True).decoded == [b"a", b"b", b"c"]
    assert together.block(with_decoded=False).decoded is None


def test_decoded_payloads_stay_behind_if_one_is_missing_or_they_are_much_larger() -> None:
    limit = MOST_DECODED_TO_STORED * len(b"stored")

    assert packed([b"a", None]).block(with_decoded=True).decoded is None
    assert packed([b"x" * limit]).block(with_decoded=True).decoded is not None
    assert packed([b"x" * (limit + 1)]).block(with_decoded=True).decoded is None


def test_parts_of_a_block_keep_their_decoded_payloads() -> None:
    block = packed([b"a", b"b", b"c"]).block(with_decoded=True)

    assert block.part(1, 3).decoded == [b"b", b"c"]
    assert block.with_origin(Origin(1, "peer")).decoded == [b"a", b"b", b"c"]


def test_what_travelled_along_is_not_inflated_again_and_what_did_not_is() -> None:
    decoder = RecordDecoder(EdgeSocketOptions.of(port=1, token="t", packet_mode="PACKET"))
    stored = deflate(b"inflated", Compression.GZIP)
    kept, lost = packed([b"kept"], stored).block(with_decoded=True), packed([None], stored).block(with_decoded=True)

    rows = [payload for block in decoder.decoded([kept, lost]) for payload in block.payloads()]

    assert rows == [b"kept", b"inflated"]
