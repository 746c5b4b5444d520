"""Rows: what transforms and sinks work on.

A `RecordBlock` holds payloads as they were received. Once they are typed they are *rows*: an Arrow record batch, and
the batch id of every row. Rows know nothing else, so a sink or a transform can be tested with any Arrow batch.

The Arrow batch is made when somebody asks for it, and once: a sink that only counts rows never pays for it, and one
that writes payloads as they came takes them from `records`. Both shapes hold the same rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgesocket.records import IdArray, RecordBlock

VALUE_COLUMN = "value"
"""The only column of rows without a schema: the payload as text."""

_MIN_TAKEN_RECORDS = 64
"""Below this the fixed cost of taking payloads with Arrow is more than it saves."""


def text_schema(column: str = VALUE_COLUMN) -> pa.Schema:
    """The type of rows that are one payload each."""
    return pa.schema([pa.field(column, pa.string())])


class Rows:
    """Rows of one type in arrival order, immutable once made. At least one row.

    Attributes:
        schema: names and Arrow types of the columns.
        count: how many rows.
        first_id: batch id of the first row.
        ids: int64 array of `count` batch ids, or None where they are `first_id, first_id + 1, ...`.
        records: the payloads, where each row is the payload itself in one text column; else None.
    """

    __slots__ = ("_batch", "_make", "count", "first_id", "ids", "records", "schema")

    def __init__(
        self,
        schema: pa.Schema,
        count: int,
        first_id: int,
        ids: IdArray | None,
        make: Callable[[], pa.RecordBatch],
        records: RecordBlock | None = None,
    ) -> None:
        """Rows whose Arrow batch `make` returns when it is needed: `count` rows of type `schema`."""
        self.schema = schema
        self.count = count
        self.first_id = first_id
        self.ids = ids
        self.records = records
        self._make: Callable[[], pa.RecordBatch] | None = make
        self._batch: pa.RecordBatch | None = None

    @classmethod
    def of_records(cls, block: RecordBlock, schema: pa.Schema | None = None) -> Rows:
        """Rows of one text column, the payloads of `block` (uncompressed UTF-8)."""
        schema = schema or text_schema()
        return cls(schema, block.count, block.first_id, block.ids, lambda: _text_batch(block, schema), block)

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch, first_id: int = 1, ids: IdArray | None = None) -> Rows:
        """Rows that are an Arrow batch already."""
        rows = cls(batch.schema, batch.num_rows, first_id, ids, lambda: batch)
        rows._batch, rows._make = batch, None
        return rows

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows as Arrow columns."""
        if self._batch is None:
            assert self._make is not None
            self._batch, self._make = self._make(), None
        return self._batch

    def id_at(self, index: int) -> int:
        """Batch id of the row at `index`."""
        return self.first_id + index if self.ids is None else int(self.ids[index])

    def id_array(self) -> IdArray:
        """The batch id of every row."""
        if self.ids is not None:
            return self.ids
        return np.arange(self.first_id, self.first_id + self.count, dtype=np.int64)

    def part(self, start: int, stop: int) -> Rows:
        """The rows `start..stop-1`, without copying them. At least one."""
        if start == 0 and stop == self.count:
            return self
        first_id = self.id_at(start)
        ids = None if self.ids is None else self.ids[start:stop]
        records = None if self.records is None else self.records.part(start, stop)
        made = Rows(self.schema, stop - start, first_id, ids, lambda: self.batch.slice(start, stop - start), records)
        if records is not None and self._batch is None:
            made._make = lambda: _text_batch(records, self.schema)
        return made

    def with_batch(self, batch: pa.RecordBatch) -> Rows:
        """The same rows with other columns: `batch` has one row for each of these, in the same order."""
        assert batch.num_rows == self.count
        return Rows.of_batch(batch, self.first_id, self.ids)

    def taken(self, indices: npt.NDArray[np.int64], batch: pa.RecordBatch | None = None) -> Rows | None:
        """Some of the rows, by rising index. None where there are none.

        Args:
            indices: which ones.
            batch: these rows' columns, where they are known already.
        """
        if len(indices) == 0:
            return None
        if batch is None:
            if len(indices) == self.count:
                return self
            batch = self.batch.take(pa.array(indices))
        ids = self.id_array()[indices]
        return Rows.of_batch(batch, int(ids[0]), ids)

    def __repr__(self) -> str:
        return f"Rows({self.count} of {len(self.schema)} columns, from batch {self.first_id})"


def _text_batch(block: RecordBlock, schema: pa.Schema) -> pa.RecordBatch:
    """The payloads of a block as the one text column of `schema`."""
    column = _taken_text(block) if block.count >= _MIN_TAKEN_RECORDS else None
    if column is None:
        column = pa.array(block.payloads(), pa.binary())
    return pa.RecordBatch.from_arrays([column.view(pa.string())], schema=schema)


def _taken_text(block: RecordBlock) -> pa.BinaryArray | None:
    """The payloads copied together by Arrow, where they lie in one buffer in order: see `sinks.lines`."""
    data, starts, ends = block.columns()
    if data.nbytes >= 1 << 31 or bool((starts[1:] < ends[:-1]).any()):
        return None
    bounds = np.empty(2 * block.count, dtype=np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * block.count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return pieces.take(pa.array(np.arange(0, 2 * block.count - 1, 2)))
