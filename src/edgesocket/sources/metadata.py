"""Metadata as columns, where the source's `metadata_fields` asks for them: behind the payload's own columns.

| field | type | value |
|---|---|---|
| `batch_id` | bigint | the id the collector gave the batch |
| `received_time` | timestamp, in UTC | when the bytes of the batch were read from the connection |
| `peer` | string | the collector's address and port |

Checkpoints do not carry time and peer: of a record that was queued when a process ended, and that the next one takes
from the checkpoint, both are null. The batch id is always there.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from edgesocket.records import Origin
from edgesocket.rows import Rows

TYPES = {"batch_id": pa.int64(), "received_time": pa.timestamp("us"), "peer": pa.string()}
"""The Arrow type of each metadata field."""


class MetadataColumns:
    """Adds columns to rows.

    Args:
        wanted: metadata field and column name, in the order of the columns.
        schema: the type of the rows without them.

    Attributes:
        schema: the type of the rows with them.
    """

    def __init__(self, wanted: Sequence[tuple[str, str]], schema: pa.Schema) -> None:
        self._wanted = tuple(field for field, _ in wanted)
        added = [pa.field(name, TYPES[field]) for field, name in wanted]
        self.schema = pa.schema([*schema, *added], metadata=schema.metadata)

    def added(self, rows: Rows, origin: Origin | None) -> Rows:
        """The rows with the columns. Nothing is made before somebody asks for the Arrow batch."""
        return Rows(self.schema, rows.count, rows.first_id, rows.ids, lambda: self._batch(rows, origin))

    def _batch(self, rows: Rows, origin: Origin | None) -> pa.RecordBatch:
        made = [self._column(field, rows, origin) for field in self._wanted]
        return pa.RecordBatch.from_arrays([*rows.batch.columns, *made], schema=self.schema)

    @staticmethod
    def _column(field: str, rows: Rows, origin: Origin | None) -> pa.Array:
        if field == "batch_id":
            return pa.array(rows.id_array(), pa.int64())
        if origin is None:
            return pa.nulls(rows.count, TYPES[field])
        value = origin.received_us if field == "received_time" else origin.peer
        return pa.repeat(pa.scalar(value, TYPES[field]), rows.count)
