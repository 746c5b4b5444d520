"""The record queue: its marks, its order, and the numbers that checkpoints know its records by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.ids import IdRanges
from edgesocket.ingress import record_queue as module
from edgesocket.ingress.record_queue import RecordQueue, high_water_mark
from edgesocket.records import RecordBlock
from tests.support.ingress_kit import block_of, run_of

HUGE = 1 << 40


def payloads_of(blocks: list[RecordBlock] | tuple[RecordBlock, ...]) -> list[bytes]:
    return [payload for block in blocks for payload in block.payloads()]


def ids_of(queue: RecordQueue) -> list[int]:
    return [id_ for first, last in queue.image().runs() for id_ in range(first, last + 1)]


@pytest.mark.parametrize(
    ("capacity", "ratio", "mark"),
    [
        (100, "0.07", 7),
        (100, "0.55", 55),
        (10, "0.9", 9),
        (3, "0.67", 3),
        (1, "0.9", 1),
        (1, "0.0001", 1),
        (1, "1.0", 1),
        (1024, "1", 1024),
        (1024, "1.0", 1024),
        (1000, "0.0001", 1),
        (1000, "0.0011", 2),
        (10**9, "0.123456789", 123456789),
        (3, "1e-1", 1),
        (1, "1e-18", 1),
        (10, "1.0", 10),
        (1024, "0.9", 922),
        (2147483647, "0.999999999999999999", 2147483647),
        (2147483647, "1", 2147483647),
    ],
)
def test_the_high_water_mark_is_exact_decimal_arithmetic(capacity: int, ratio: str, mark: int) -> None:
    assert high_water_mark(capacity, ratio) == mark


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_the_high_water_mark_is_the_least_integer_not_below_the_product(capacity: int, millionths: int) -> None:
    mark = high_water_mark(capacity, f"{millionths / 10**6:.6f}")

    assert mark * 10**6 >= capacity * millionths > (mark - 1) * 10**6
    assert 1 <= mark <= capacity


def test_records_are_taken_below_the_mark_only() -> None:
    queue = RecordQueue(10, 3)
    for id_ in (1, 2, 3):
        assert queue.takes(1)
        queue.append(run_of(id_, 1))

    assert not queue.takes(0)
    assert queue.takes_of(run_of(4, 2)) == 0
    assert not queue.is_full()


def test_a_block_is_taken_up_to_the_mark() -> None:
    queue = RecordQueue(10, 5)
    queue.append(run_of(1, 2))

    assert queue.takes_of(run_of(3, 3)) == 3
    assert queue.takes_of(run_of(3, 9)) == 3


def test_bytes_have_a_mark_of_their_own() -> None:
    queue = RecordQueue(10, 10, max_bytes=10)
    queue.append(run_of(1, 1, b"12345"))

    assert queue.takes(5)
    assert not queue.takes(6)
    assert queue.takes_of(block_of({2: b"12", 3: b"345", 4: b"6"})) == 2
    assert queue.takes_of(block_of({2: b"123456"})) == 0


def test_an_empty_queue_takes_one_record_however_large() -> None:
    queue = RecordQueue(10, 10, max_bytes=10)
    large = block_of({1: b"x" * 1000, 2: b""})

    assert queue.takes(1000)
    assert queue.takes_of(large) == 1

    queue.append(large.part(0, 1))
    assert not queue.takes(0), "it is over its byte mark"
    assert queue.takes_of(large.part(1, 2)) == 0


@given(
    st.lists(st.integers(0, 6), max_size=6),
    st.lists(st.integers(0, 6), min_size=1, max_size=6),
    st.integers(1, 6),
    st.integers(1, 20),
)
def test_a_block_is_admitted_like_its_records_one_by_one(
    before: list[int], sizes: list[int], mark: int, max_bytes: int
) -> None:
    whole, single = RecordQueue(6, mark, max_bytes), RecordQueue(6, mark, max_bytes)
    for queue in (whole, single):
        for id_, size in enumerate(before, 1):
            queue.append(run_of(id_, 1, b"x" * size))

    taken = 0
    for id_, size in enumerate(sizes, 100):
        if not single.takes(size):
            break
        single.append(run_of(id_, 1, b"x" * size))
        taken += 1

    assert whole.takes_of(block_of({id_: b"x" * size for id_, size in enumerate(sizes, 100)})) == taken


def test_it_is_full_at_its_capacity() -> None:
    queue = RecordQueue(2, 2)
    queue.append(run_of(1, 2))

    assert queue.is_full()
    assert queue.most_records == 2


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), max_size=6),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=12),
)
def test_records_come_out_first_in_first_out(appended: list[list[int]], takes: list[tuple[int, int]]) -> None:
    queue = RecordQueue(1000, 1000)
    expected: list[bytes] = []
    number = 0
    for sizes in appended:
        records = {}
        for size in sizes:
            number += 1
            records[number] = b"%d" % number * size
        queue.append(block_of(records))
        expected += records.values()

    out: list[bytes] = []
    for max_records, max_bytes in takes:
        before = queue.head
        blocks = queue.take(max_records, max_bytes)
        got = payloads_of(blocks)
        assert len(got) <= max_records
        assert bool(got) == (len(out) < len(expected))
        sizes = [block.payload_bytes for block in blocks]
        assert sum(sizes) <= max_bytes or sum(sizes[:-1]) < max_bytes, "only the last block passes the bound"
        out += got
        assert queue.head == before + len(got)
        assert queue.tail == len(expected)
        assert out + payloads_of(queue.image().blocks) == expected
        assert queue.records == len(expected) - len(out)
        assert queue.payload_bytes == sum(map(len, expected[len(out) :]))
    out += payloads_of(queue.take(HUGE, HUGE))
    assert out == expected
    assert (queue.records, queue.payload_bytes, queue.head) == (0, 0, len(expected))


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), max_size=5), st.sets(st.integers(1, 9)))
def test_settled_records_are_dropped_and_the_rest_keeps_its_order(blocks: list[list[int]], settled: set[int]) -> None:
    queue = RecordQueue(100, 100)
    for ids in blocks:
        queue.append(block_of([(id_, b"%d" % id_) for id_ in ids]))
    tail = queue.tail

    dropped = queue.discard(IdRanges((id_, id_) for id_ in settled))

    everything = [id_ for ids in blocks for id_ in ids]
    left = [id_ for id_ in everything if id_ not in settled]
    assert ids_of(queue) == left
    assert dropped == len(everything) - len(left)
    assert queue.records == len(left)
    assert queue.payload_bytes == len(left)
    assert (queue.generation, queue.tail) == (1, tail), "numbers below this no longer name the same records"


def three_receives() -> list[RecordBlock]:
    """Blocks that share receive buffers of 1000 bytes: two in the first, one in the second, one with none."""
    first = block_of([(id_, b"x" * 100) for id_ in range(1, 11)])
    second = block_of([(id_, b"x" * 100) for id_ in range(11, 21)])
    return [first.part(0, 3), first.part(5, 6), second.part(9, 10), RecordBlock.of_payloads([21, 22], [b"a", b"b"])]


@given(st.lists(st.integers(1, 3), max_size=8), st.sets(st.sampled_from([1, 2, 3, 6, 20, 21])))
def test_the_memory_that_queued_records_keep_alive_is_known(takes: list[int], settled: set[int]) -> None:
    queue = RecordQueue(100, 100)
    blocks = three_receives()

    def pinned() -> int:
        buffers = {id(block.buffer): block.buffer.nbytes for block in queue.image().blocks if block.buffer is not None}
        return sum(buffers.values())

    for block in blocks:
        queue.append(block)
        assert queue.pinned_bytes == pinned()
    assert queue.pinned_bytes == 2000
    for count in takes:
        queue.take(count, HUGE)
        assert queue.pinned_bytes == pinned()
    queue.discard(IdRanges((id_, id_) for id_ in settled))
    assert queue.pinned_bytes == pinned()
    queue.take_all()
    assert queue.pinned_bytes == 0


def test_blocks_leave_their_receive_buffers_once_those_keep_too_much_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PINNED_SLACK_BYTES", 1500)
    queue = RecordQueue(100, 100)
    for first in range(1, 80, 10):
        block = block_of([(id_, b"%03d" % id_ * 30) for id_ in range(first, first + 10)]).part(0, 1)
        queue.append(queue.fitted(block))

    assert queue.pinned_bytes < 1500 + 2 * queue.payload_bytes + 1000
    assert payloads_of(queue.image().blocks) == [b"%03d" % id_ * 30 for id_ in range(1, 80, 10)]


def test_a_restore_puts_records_back_in_order_even_beyond_the_capacity() -> None:
    queue = RecordQueue(2, 2)

    queue.restore([run_of(5, 3), run_of(2, 1)], head=40, generation=7)

    assert ids_of(queue) == [5, 6, 7, 2]
    assert (queue.head, queue.tail, queue.generation) == (40, 44, 7)
    assert queue.is_full()
    assert not queue.takes(1)
    assert queue.image().records == 4


def test_an_image_does_not_change_with_the_queue() -> None:
    queue = RecordQueue(10, 10)
    queue.append(run_of(1, 3))
    image = queue.image()

    queue.take(1, HUGE)
    queue.append(run_of(9, 1))

    assert image.runs() == [(1, 3)]
    assert (image.head, image.records) == (0, 3)


def test_a_block_is_cut_where_the_bytes_are_used_up() -> None:
    queue = RecordQueue(100, 100, 1 << 20)
    queue.append(RecordBlock.of_run(1, [b"x" * 10] * 9))
    assert [block.count for block in queue.take(100, 25)] == [3], "the last one may go beyond"
    assert (queue.records, queue.payload_bytes, queue.head) == (6, 60, 3)
    assert [(block.first_id, block.count) for block in queue.take(100, 60)] == [(4, 6)]
