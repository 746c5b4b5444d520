"""Blocks: the unit of the hot path.

A *record* is one payload with its batch id. Between the socket and the sink records travel in blocks, so that the
cost of moving, counting and remembering them is paid once a block. A block has one of two shapes:

- columns: one buffer, and arrays of start and end offsets into it. The block parser makes these without copying a
  payload; the buffer is the one the bytes were received into.
- payloads: a list of `bytes`. The exact line-by-line path makes these.

Everything else (queue, ledger, sinks) asks a block for what it needs and never looks at its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgesocket.compression import Compression
from edgesocket.ids import IdRange

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
IdArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records came from, kept only where somebody asked for it.

    Attributes:
        received_us: when they were received, microseconds since 1970 in UTC.
        peer: address of the collector that sent them, as the log shows it.
    """

    received_us: int
    peer: str


class RecordBlock:
    """Records in arrival order, immutable once made.

    Attributes:
        count: how many records (at least 1).
        first_id: batch id of the first record.
        ids: int64 array of `count` ids, or None where they are `first_id, first_id + 1, ...`.
        payload_bytes: sum of the payload lengths.
        compression: how every payload of this block is compressed.
        origin: where all of them came from; None where nobody asked, or where a checkpoint brought them back.
        decoded: the same payloads uncompressed, where somebody has just had to make them; else None.
    """

    __slots__ = (
        "_columns",
        "_payloads",
        "compression",
        "count",
        "decoded",
        "first_id",
        "ids",
        "origin",
        "payload_bytes",
    )

    def __init__(
        self,
        count: int,
        first_id: int,
        ids: IdArray | None,
        payload_bytes: int,
        compression: Compression,
    ) -> None:
        self.count = count
        self.first_id = first_id
        self.ids = ids
        self.payload_bytes = payload_bytes
        self.compression = compression
        self.origin: Origin | None = None
        self.decoded: Sequence[bytes] | None = None
        self._columns: tuple[Bytes, Offsets, Offsets] | None = None
        self._payloads: Sequence[bytes] | None = None

    @classmethod
    def of_columns(
        cls,
        data: Bytes,
        starts: Offsets,
        ends: Offsets,
        first_id: int,
        ids: IdArray | None = None,
        compression: Compression = Compression.NONE,
    ) -> RecordBlock:
        """A block over `data[starts[i]:ends[i]]`. The caller must never write to `data` again."""
        block = cls(len(starts), first_id, ids, int((ends - starts).sum()), compression)
        block._columns = (data, starts, ends)
        return block

    @classmethod
    def of_payloads(
        cls, ids: Sequence[int], payloads: Sequence[bytes], compression: Compression = Compression.NONE
    ) -> RecordBlock:
        """A block of separate payloads; `ids` and `payloads` have one length."""
        first, count = ids[0], len(ids)
        rising_by_one = count == 1 or list(ids) == list(range(first, first + count))
        array = None if rising_by_one else np.array(ids, dtype=np.int64)
        block = cls(count, first, array, sum(map(len, payloads)), compression)
        block._payloads = payloads
        return block

    @classmethod
    def of_run(
        cls, first_id: int, payloads: Sequence[bytes], compression: Compression = Compression.NONE
    ) -> RecordBlock:
        """A block of separate payloads with the ids `first_id`, `first_id + 1`, ..."""
        block = cls(len(payloads), first_id, None, sum(map(len, payloads)), compression)
        block._payloads = payloads
        return block

    @property
    def last_id(self) -> int:
        """Batch id of the last record."""
        return self.first_id + self.count - 1 if self.ids is None else int(self.ids[-1])

    @property
    def rising(self) -> bool:
        """Whether every id is greater than the one before it."""
        return self.ids is None or self.count == 1 or bool((self.ids[1:] > self.ids[:-1]).all())

    def id_at(self, index: int) -> int:
        """Batch id of the record at `index`."""
        return self.first_id + index if self.ids is None else int(self.ids[index])

    def runs(self) -> list[IdRange]:
        """The ids in record order, folded into runs of consecutive ids."""
        if self.ids is None:
            return [(self.first_id, self.first_id + self.count - 1)]
        cuts = np.flatnonzero(self.ids[1:] != self.ids[:-1] + 1) + 1
        firsts = self.ids[np.concatenate(([0], cuts))].tolist()
        lasts = self.ids[np.concatenate((cuts - 1, [self.count - 1]))].tolist()
        return list(zip(firsts, lasts, strict=True))

    def part(self, start: int, stop: int) -> RecordBlock:
        """The records `start..stop-1` as a block over the same bytes. At least one record."""
        if start == 0 and stop == self.count:
            return self
        first_id = self.id_at(start)
        ids = None if self.ids is None else self.ids[start:stop]
        if self._columns is not None:
            data, starts, ends = self._columns
            block = RecordBlock.of_columns(data, starts[start:stop], ends[start:stop], first_id, ids, self.compression)
        else:
            payloads = self.payloads()[start:stop]
            block = RecordBlock(stop - start, first_id, ids, sum(map(len, payloads)), self.compression)
            block._payloads = payloads
        block.origin = self.origin
        block.decoded = None if self.decoded is None else self.decoded[start:stop]
        return block

    def lengths(self) -> Offsets:
        """Payload length of each record."""
        if self._columns is not None:
            return self._columns[2] - self._columns[1]
        return np.fromiter(map(len, self.payloads()), dtype=np.int64, count=self.count)

    def payload(self, index: int) -> bytes:
        """Payload of the record at `index`, copied."""
        if self._columns is not None:
            data, starts, ends = self._columns
            return data[starts[index] : ends[index]].tobytes()
        assert self._payloads is not None
        return self._payloads[index]

    def payloads(self) -> Sequence[bytes]:
        """All payloads as separate `bytes` (copied where the block is columnar)."""
        if self._payloads is not None:
            return self._payloads
        assert self._columns is not None
        data, starts, ends = self._columns
        base = int(starts[0])
        text = data[base : int(ends[-1])].tobytes()
        return [text[s - base : e - base] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]

    def payload_views(self) -> Sequence[bytes | memoryview]:
        """All payloads without copying them; a view is valid as long as this block is."""
        if self._payloads is not None:
            return self._payloads
        assert self._columns is not None
        data, starts, ends = self._columns
        view = data.data
        return [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def columns(self) -> tuple[Bytes, Offsets, Offsets]:
        """The block as (data, starts, ends), joining separate payloads where needed."""
        if self._columns is None:
            lengths = self.lengths()
            ends = np.cumsum(lengths)
            self._columns = (np.frombuffer(b"".join(self.payloads()), dtype=np.uint8), ends - lengths, ends)
        return self._columns

    def with_payloads(self, payloads: Sequence[bytes]) -> RecordBlock:
        """The same ids with other, uncompressed payloads."""
        block = RecordBlock(self.count, self.first_id, self.ids, sum(map(len, payloads)), Compression.NONE)
        block._payloads = payloads
        block.origin = self.origin
        return block

    def with_origin(self, origin: Origin | None) -> RecordBlock:
        """The same records, said to come from `origin`. Copies nothing."""
        block = RecordBlock(self.count, self.first_id, self.ids, self.payload_bytes, self.compression)
        block._columns, block._payloads, block.origin = self._columns, self._payloads, origin
        block.decoded = self.decoded
        return block

    @property
    def buffer(self) -> Bytes | None:
        """The memory that the payloads lie in, perhaps with other blocks' payloads; None where they are separate."""
        return None if self._columns is None or self._payloads is not None else self._columns[0]

    def compacted(self) -> RecordBlock:
        """The same records in a buffer of their own, where the one they lie in is more than twice too large."""
        if self._columns is None:
            return self
        data, starts, ends = self._columns
        base, stop = int(starts[0]), int(ends[-1]) + 1  # with the line end, see `sinks.lines`
        if data.nbytes <= 2 * (stop - base):
            return self
        own = data[base:stop].copy()
        block = RecordBlock.of_columns(own, starts - base, ends - base, self.first_id, self.ids, self.compression)
        block.origin = self.origin
        return block

    @property
    def pinned_bytes(self) -> int:
        """Bytes of memory that this block alone would keep alive through its buffer."""
        return self.payload_bytes if self._columns is None else int(self._columns[0].nbytes)

    @property
    def span_bytes(self) -> int:
        """Bytes from the first payload's begin to the last one's end.

        Receive buffers are filled by one block after the other, at least to the half: the spans of blocks that follow
        each other add up to at least half of the memory that they keep alive together.
        """
        if self._columns is None:
            return self.payload_bytes
        _, starts, ends = self._columns
        return int(ends[-1]) - int(starts[0])

    def __repr__(self) -> str:
        return f"RecordBlock({self.count} records, ids {self.first_id}..{self.last_id})"
