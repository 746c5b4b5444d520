"""Record blocks: whatever their shape, they hold the same records."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.compression import Compression
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.records import RecordBlock

IDS = st.one_of(st.integers(1, 9), st.integers(1, MAX_BATCH_ID))
RECORDS = st.lists(st.tuples(IDS, st.binary(max_size=5)), min_size=1, max_size=9)


def separate(records: list[tuple[int, bytes]]) -> RecordBlock:
    return RecordBlock.of_payloads([id_ for id_, _ in records], [payload for _, payload in records], Compression.ZLIB)


def columnar(records: list[tuple[int, bytes]]) -> RecordBlock:
    """As the block parser makes it: payloads between headers and line ends."""
    data, starts, ends = b"", [], []
    for id_, payload in records:
        data += b"__BATCH__:%d:" % id_
        starts.append(len(data))
        data += payload
        ends.append(len(data))
        data += b"\n"
    ids = np.array([id_ for id_, _ in records], dtype=np.int64)
    consecutive = bool((np.diff(ids) == 1).all())
    return RecordBlock.of_columns(
        np.frombuffer(data, dtype=np.uint8),
        np.array(starts),
        np.array(ends),
        records[0][0],
        None if consecutive else ids,
        Compression.ZLIB,
    )


def contents(block: RecordBlock) -> list[tuple[int, bytes]]:
    return [(block.id_at(n), block.payload(n)) for n in range(block.count)]


@given(RECORDS)
def test_both_shapes_say_the_same(records: list[tuple[int, bytes]]) -> None:
    ids = [id_ for id_, _ in records]
    payloads = [payload for _, payload in records]
    for block in (separate(records), columnar(records)):
        assert contents(block) == records
        assert list(block.payloads()) == payloads
        assert [bytes(view) for view in block.payload_views()] == payloads
        assert block.lengths().tolist() == [len(payload) for payload in payloads]
        assert block.payload_bytes == sum(map(len, payloads))
        assert (block.first_id, block.last_id, block.count) == (ids[0], ids[-1], len(ids))
        assert block.rising == (ids == sorted(set(ids)))
        assert [id_ for first, last in block.runs() for id_ in range(first, last + 1)] == ids
        assert all(left[1] + 1 != right[0] for left, right in zip(block.runs(), block.runs()[1:], strict=False))
        assert (block.ids is None) == (ids == list(range(ids[0], ids[0] + len(ids))))
        assert block.compression is Compression.ZLIB


@given(RECORDS)
def test_a_block_of_payloads_becomes_columns_that_say_the_same(records: list[tuple[int, bytes]]) -> None:
    block = separate(records)
    before = block.pinned_bytes
    data, starts, ends = block.columns()

    assert [data[s:e].tobytes() for s, e in zip(starts, ends, strict=True)] == [payload for _, payload in records]
    assert contents(block) == records
    assert before == block.pinned_bytes == block.payload_bytes
    again = block.columns()
    assert again[0] is data, "made once"


@given(RECORDS, st.data())
def test_a_part_is_those_records(records: list[tuple[int, bytes]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(records) - 1))
    stop = data.draw(st.integers(start + 1, len(records)))
    for block in (separate(records), columnar(records)):
        part = block.part(start, stop)

        assert contents(part) == records[start:stop]
        assert list(part.payloads()) == [payload for _, payload in records[start:stop]]
        assert part.payload_bytes == sum(len(payload) for _, payload in records[start:stop])
        assert part.first_id == records[start][0]
        assert part.last_id == records[stop - 1][0]
        assert part.compression is Compression.ZLIB
        assert (part is block) == (stop - start == len(records))


def test_a_columnar_part_copies_nothing_and_keeps_the_whole_buffer_alive() -> None:
    block = columnar([(1, b"abc"), (2, b"def")])

    part = block.part(1, 2)

    assert part.columns()[0] is block.columns()[0]
    assert part.pinned_bytes == len(b"__BATCH__:1:abc\n__BATCH__:2:def\n")
    assert part.span_bytes == 3
    assert block.span_bytes == len(b"abc\n__BATCH__:2:def")
    assert separate([(1, b"abc"), (2, b"def")]).span_bytes == 6


@given(RECORDS, st.data())
def test_a_compacted_block_says_the_same_and_keeps_no_large_buffer(
    records: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    whole = columnar(records)
    start = data.draw(st.integers(0, len(records) - 1))
    block = whole.part(start, data.draw(st.integers(start + 1, len(records))))

    own = block.compacted()

    assert contents(own) == contents(block)
    assert own.compression is Compression.ZLIB
    base, stop = int(block.columns()[1][0]), int(block.columns()[2][-1])
    assert own.pinned_bytes <= 2 * (stop - base + 1)
    after = own.columns()[0][own.columns()[2][-1] : own.columns()[2][-1] + 1]
    assert after.tobytes() == b"\n", "the byte behind the last payload is still its line end"


def test_a_block_of_payloads_has_no_buffer_to_leave() -> None:
    block = separate([(1, b"a"), (2, b"b")])

    assert block.buffer is None
    assert block.compacted() is block
    block.columns()
    assert block.buffer is None, "the columns are a copy of its own"
    assert columnar([(1, b"a")]).buffer is not None


def test_a_run_of_payloads_has_consecutive_ids() -> None:
    block = RecordBlock.of_run(7, [b"a", b"", b"ccc"])

    assert contents(block) == [(7, b"a"), (8, b""), (9, b"ccc")]
    assert (block.ids, block.payload_bytes, block.compression) == (None, 4, Compression.NONE)


def test_other_payloads_under_the_same_ids() -> None:
    block = columnar([(7, b"packed"), (3, b"")]).with_payloads([b"one", b"three"])

    assert contents(block) == [(7, b"one"), (3, b"three")]
    assert block.compression is Compression.NONE
    assert block.payload_bytes == 8


def test_what_it_looks_like() -> None:
    assert repr(columnar([(7, b"x"), (8, b"y")])) == "RecordBlock(2 records, ids 7..8)"
