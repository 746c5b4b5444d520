"""The queue's image: what is written is read back, and nothing else is taken for one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.ingress.snapshot import decode_blocks, encode_blocks
from edgesocket.records import RecordBlock
from tests.support.ingress_kit import block_of, run_of

IDS = st.integers(1, MAX_BATCH_ID)


@st.composite
def blocks(draw: st.DrawFn) -> RecordBlock:
    payloads = draw(st.lists(st.binary(max_size=12), min_size=1, max_size=8))
    if draw(st.booleans()):
        first = draw(st.integers(1, MAX_BATCH_ID - 10))
        ids = list(range(first, first + len(payloads)))
    else:
        ids = draw(st.lists(IDS, min_size=len(payloads), max_size=len(payloads)))
    block = RecordBlock.of_payloads(ids, payloads, draw(st.sampled_from(Compression)))
    if draw(st.booleans()):
        # As it lies in a receive buffer: something before, between and behind the payloads.
        data = b"".join(b"__BATCH__:7:" + payload + b"\n" for payload in payloads)
        joined = RecordBlock.of_payloads([1], [data]).columns()[0]
        ends, position = [], 0
        for payload in payloads:
            position += 12 + len(payload) + 1
            ends.append(position - 1)
        lengths = block.lengths()
        stops = lengths * 0 + ends
        block = RecordBlock.of_columns(joined, stops - lengths, stops, block.first_id, block.ids, block.compression)
        start = draw(st.integers(0, len(payloads) - 1))
        block = block.part(start, draw(st.integers(start + 1, len(payloads))))
    return block


def contents(block: RecordBlock) -> tuple[object, ...]:
    ids = [block.id_at(n) for n in range(block.count)]
    return ids, list(block.payloads()), block.compression, block.payload_bytes, block.ids is None


def encoded(*queue: RecordBlock) -> bytes:
    return b"".join(encode_blocks(queue))


@given(st.lists(blocks(), max_size=4))
def test_what_is_written_is_read_back(queue: list[RecordBlock]) -> None:
    restored = decode_blocks(encoded(*queue))

    assert [contents(block) for block in restored] == [contents(block) for block in queue]
    assert encoded(*restored) == encoded(*queue)


def test_an_empty_queue_and_empty_payloads_are_images_too() -> None:
    assert decode_blocks(encoded()) == []
    (block,) = decode_blocks(encoded(run_of(5, 3, b"")))
    assert contents(block)[:2] == ([5, 6, 7], [b"", b"", b""])


@given(st.lists(blocks(), min_size=1, max_size=3), st.data())
def test_an_image_cut_anywhere_is_refused(queue: list[RecordBlock], data: st.DataObject) -> None:
    image = encoded(*queue)

    with pytest.raises(DecodeError):
        decode_blocks(image[: data.draw(st.integers(0, len(image) - 1))])


@given(st.lists(blocks(), max_size=3), st.binary(min_size=1, max_size=9))
def test_bytes_behind_an_image_are_refused(queue: list[RecordBlock], rest: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_blocks(encoded(*queue) + rest)


@given(blocks(), st.data())
def test_a_changed_length_is_refused(block: RecordBlock, data: st.DataObject) -> None:
    """The number of blocks, of records and of bytes: whatever bit of them changes, the rest does not fit any more."""
    image = bytearray(encoded(block))
    offset = data.draw(st.sampled_from([*range(8), *range(20, 28)]))
    image[offset] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(DecodeError):
        decode_blocks(bytes(image))


@given(st.lists(blocks(), max_size=3), st.data())
def test_no_damage_makes_anything_but_blocks_or_a_refusal(queue: list[RecordBlock], data: st.DataObject) -> None:
    image = bytearray(encoded(*queue))
    for _ in range(data.draw(st.integers(1, 4))):
        image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))

    try:
        restored = decode_blocks(bytes(image))
    except DecodeError:
        return
    for block in restored:
        assert block.payload_bytes == sum(map(len, block.payloads()))
        assert block.count == len(block.payloads())


@pytest.mark.parametrize(
    ("starts", "ends"),
    [([0, 1], [3, 4]), ([2, 2], [1, 4]), ([0, 2], [2, 5]), ([0, 3], [2, 2])],
    ids=["overlap", "end before start", "past the bytes", "last ends before it starts"],
)
def test_payloads_that_overlap_or_lie_outside_are_refused(starts: list[int], ends: list[int]) -> None:
    header = struct.pack("<IIBBxxqQ", 1, 2, 0, 0, 1, 4)

    with pytest.raises(DecodeError):
        decode_blocks(header + struct.pack("<4I", *starts, *ends) + b"abcd")


def test_an_unknown_compression_is_refused() -> None:
    image = bytearray(encoded(block_of({1: b"a"})))
    image[8] = 9

    with pytest.raises(DecodeError):
        decode_blocks(bytes(image))
