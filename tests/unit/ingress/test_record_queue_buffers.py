"""What queued records keep alive: blocks point into receive buffers, and must not hold many for a few records."""

from __future__ import annotations

import numpy as np

from edgesocket.ids import IdRanges
from edgesocket.ingress.record_queue import PINNED_SLACK_BYTES, RecordQueue
from edgesocket.records import RecordBlock

BUFFER_BYTES = 1024 * 1024


def _buffer() -> np.ndarray:
    return np.full(BUFFER_BYTES, ord("x"), dtype=np.uint8)


def _block(buffer: np.ndarray, first_id: int, count: int = 2, at: int = 100) -> RecordBlock:
    """`count` records of 10 bytes each, 20 bytes apart, from `at` on."""
    starts = np.arange(at, at + 20 * count, 20)
    return RecordBlock.of_columns(buffer, starts, starts + 10, first_id)


def _fill(queue: RecordQueue, blocks: int) -> None:
    for n in range(blocks):
        block = queue.fitted(_block(_buffer(), 1 + 2 * n))
        queue.append(block)


def test_a_few_records_do_not_keep_a_buffer_each() -> None:
    queue = RecordQueue(10_000, 10_000)
    _fill(queue, 200)
    assert queue.pinned_bytes <= PINNED_SLACK_BYTES + BUFFER_BYTES + 200 * 100
    held = {id(block.buffer): block.buffer.nbytes for block in queue.image().blocks if block.buffer is not None}
    assert sum(held.values()) == queue.pinned_bytes, "the count is right"
    assert [payload for block in queue.take_all() for payload in block.payloads()] == [b"x" * 10] * 400


def test_a_buffer_that_is_mostly_records_is_never_copied() -> None:
    queue = RecordQueue(10**6, 10**6)
    for n in range(100):
        block = _block(_buffer(), 1 + n * 50_000, count=50_000)
        assert queue.fitted(block) is block
        queue.append(block)


def test_blocks_of_one_buffer_count_it_once_and_let_go_of_it_together() -> None:
    queue = RecordQueue(100, 100)
    first, second = _buffer(), _buffer()
    for n, buffer in enumerate([first, first, second]):
        queue.append(_block(buffer, 1 + 2 * n, at=100 + 100 * n))
    assert queue.pinned_bytes == 2 * BUFFER_BYTES
    queue.take(1, 10**9)
    assert queue.pinned_bytes == 2 * BUFFER_BYTES, "half a block is still there"
    queue.take(3, 10**9)
    assert queue.pinned_bytes == BUFFER_BYTES
    queue.discard(IdRanges([(1, 10)]))
    assert queue.pinned_bytes == 0
    queue.append(_block(first, 20))
    queue.take_all()
    assert queue.pinned_bytes == 0


def test_separate_payloads_pin_nothing() -> None:
    queue = RecordQueue(100, 100)
    block = RecordBlock.of_payloads([1, 2], [b"a", b"b"])
    queue.append(block)
    block.columns()  # a checkpoint asks for it
    assert queue.pinned_bytes == 0
    queue.take(1, 10**9)
    assert queue.pinned_bytes == 0


def test_compacted_records_are_the_same_records() -> None:
    ids = np.array([5, 9, 7])
    starts = np.array([100, 300, 310])
    block = RecordBlock.of_columns(_buffer(), starts, starts + 5, 5, ids)
    small = block.compacted()
    assert small.pinned_bytes == 310 + 5 + 1 - 100
    assert list(small.payloads()) == list(block.payloads())
    assert small.runs() == block.runs()
    assert small.payload_bytes == block.payload_bytes
    assert small.compacted() is small
