"""The record queue between the socket and the sinks.

It counts records and bytes but moves blocks. Every record gets a sequence number when it is queued; the queue is
first in, first out, so its content is always the sequence numbers `head..tail-1`. Checkpoints name queued records by
those numbers, which is what makes it possible to say exactly which of them an older, still readable snapshot holds.

Not thread-safe: the shell holds one lock around queue and ledger.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from edgesocket.ids import IdRange, IdRanges
from edgesocket.records import RecordBlock

DEFAULT_QUEUE_MAX_BYTES = 256 * 1024 * 1024

PINNED_SLACK_BYTES = 32 * 1024 * 1024
"""So much memory, beyond twice their own size, may queued records keep alive through the buffers they came in."""


def high_water_mark(capacity: int, ratio: str) -> int:
    """ceil(capacity x ratio) in exact decimal arithmetic, at least 1, at most `capacity`.

    Args:
        capacity: `local_queue_capacity`, in records, at least 1.
        ratio: `queue_backpressure_watermark_ratio` as it was written, in (0, 1]. Text, because 0.07 has no exact
            binary float: 100 x 0.07 is 7, not 8.
    """
    return min(capacity, max(1, math.ceil(capacity * Fraction(ratio))))


@dataclass(frozen=True, slots=True)
class QueueImage:
    """The queue as of a cut.

    Attributes:
        head: sequence number of the first record.
        generation: how often the records were renumbered; sequence numbers compare only within one generation.
        blocks: the records, in order.
    """

    head: int
    generation: int
    blocks: tuple[RecordBlock, ...]

    @property
    def records(self) -> int:
        """How many records."""
        return sum(block.count for block in self.blocks)

    def runs(self) -> list[IdRange]:
        """The queued ids in order, folded into runs, also from block to block."""
        folded: list[IdRange] = []
        for first, last in (run for block in self.blocks for run in block.runs()):
            if folded and folded[-1][1] + 1 == first:
                folded[-1] = (folded[-1][0], last)
            else:
                folded.append((first, last))
        return folded


class RecordQueue:
    """A bounded queue of record blocks with a high-water mark in records and a second one in bytes.

    Args:
        capacity: most records it can hold, at least 1.
        mark: high-water mark in records, 1..capacity (see `high_water_mark`).
        max_bytes: second mark, in payload bytes. An empty queue always takes one record, however large.
    """

    def __init__(self, capacity: int, mark: int, max_bytes: int = DEFAULT_QUEUE_MAX_BYTES) -> None:
        self.capacity = capacity
        self.mark = mark
        self.max_bytes = max_bytes
        self.records = 0
        self.payload_bytes = 0
        self.most_records = 0
        """The most records it ever held, for the status."""
        self.head = 0
        """Sequence number of the first queued record; what lies below it was taken."""
        self.generation = 0
        self.pinned_bytes = 0
        """Size of the buffers that queued blocks keep alive."""
        self._blocks: deque[RecordBlock] = deque()

    @property
    def tail(self) -> int:
        """Sequence number that the next record will get."""
        return self.head + self.records

    def takes(self, payload_bytes: int, more_records: int = 0, more_bytes: int = 0) -> bool:
        """Whether a record of that size is below both marks, behind `more_records` that are about to be queued."""
        records = self.records + more_records
        if not records:
            return True
        return records < self.mark and self.payload_bytes + more_bytes + payload_bytes <= self.max_bytes

    def takes_of(self, block: RecordBlock) -> int:
        """How many leading records of `block` are below both marks."""
        room = self.mark - self.records
        if room >= block.count and self.payload_bytes + block.payload_bytes <= self.max_bytes:
            return block.count
        room = max(0, min(room, block.count))
        if room:
            left = self.max_bytes - self.payload_bytes
            room = int(np.searchsorted(np.cumsum(block.lengths()[:room]), left, side="right"))
        if not room and not self.records:
            return 1
        return room

    def is_full(self, more_records: int = 0) -> bool:
        """Whether not one more record fits physically, behind `more_records` that are about to be queued.

        That is above the mark, and needs a second producer to happen.
        """
        return self.records + more_records >= self.capacity

    def fitted(self, block: RecordBlock) -> RecordBlock:
        """The block as it should be queued: copied out of its receive buffer where too much of those is kept alive.

        Blocks point into the buffers they were received in. That costs nothing while most of a buffer is records;
        where lines between them were refused, a few records would each keep a whole buffer.
        """
        wasteful = self.pinned_bytes > 2 * self.payload_bytes + PINNED_SLACK_BYTES
        return block.compacted() if wasteful else block

    def append(self, block: RecordBlock) -> None:
        """Queue a block. The caller has asked `takes`, `takes_of` or `is_full`."""
        buffer = block.buffer
        if buffer is not None and not (self._blocks and self._blocks[-1].buffer is buffer):
            self.pinned_bytes += buffer.nbytes
        self._blocks.append(block)
        self.records += block.count
        self.payload_bytes += block.payload_bytes
        if self.records > self.most_records:
            self.most_records = self.records

    def take_all(self) -> list[RecordBlock]:
        """Take every queued block, in order."""
        blocks = list(self._blocks)
        self._blocks.clear()
        self.head += self.records
        self.records = self.payload_bytes = self.pinned_bytes = 0
        return blocks

    def take(self, max_records: int, max_bytes: int) -> list[RecordBlock]:
        """Take the first blocks: at most `max_records` records, and no block after `max_bytes` payload bytes.

        Splits a block where needed, so the bytes are passed by less than one record.
        """
        if self.records <= max_records and self.payload_bytes <= max_bytes:
            return self.take_all()
        taken: list[RecordBlock] = []
        while self.records and max_records > 0 and max_bytes > 0:
            block = self._blocks.popleft()
            count = min(block.count, max_records)
            if block.payload_bytes > max_bytes:
                count = min(count, 1 + int(np.searchsorted(np.cumsum(block.lengths()), max_bytes)))
            if count < block.count:
                self._blocks.appendleft(block.part(count, block.count))
                block = block.part(0, count)
            buffer = block.buffer
            if buffer is not None and not (self._blocks and self._blocks[0].buffer is buffer):
                self.pinned_bytes -= buffer.nbytes
            taken.append(block)
            max_records -= block.count
            max_bytes -= block.payload_bytes
            self.head += block.count
            self.records -= block.count
            self.payload_bytes -= block.payload_bytes
        return taken

    def discard(self, ids: IdRanges) -> int:
        """Drop the queued records of `ids` (settled by the operator). Returns how many.

        What is left is renumbered, so this starts a new generation of sequence numbers.
        """
        before = self.records
        kept: deque[RecordBlock] = deque()
        for block in self._blocks:
            kept.extend(_without(block, ids))
        self._blocks = kept
        buffers = [*(block.buffer for block in kept), None]
        self.pinned_bytes = sum(
            buffer.nbytes for buffer, after in pairwise(buffers) if buffer is not None and buffer is not after
        )
        self.records = sum(block.count for block in kept)
        self.payload_bytes = sum(block.payload_bytes for block in kept)
        self.head += before - self.records
        self.generation += 1
        return before - self.records

    def image(self) -> QueueImage:
        """The content as of now (blocks are immutable: nothing is copied)."""
        return QueueImage(self.head, self.generation, tuple(self._blocks))

    def restore(self, blocks: Iterable[RecordBlock], head: int, generation: int) -> None:
        """Put back the records of a checkpoint, in order, also beyond the capacity of today."""
        self.head = head
        self.generation = generation
        for block in blocks:
            self.append(block)


def _without(block: RecordBlock, ids: IdRanges) -> Iterable[RecordBlock]:
    start: int | None = None
    for index in range(block.count):
        if block.id_at(index) in ids:
            if start is not None:
                yield block.part(start, index)
                start = None
        elif start is None:
            start = index
    if start is not None:
        yield block.part(start, block.count)
