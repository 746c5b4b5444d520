"""Dead letters: records that were refused for good, as rows that any sink can take.

A record can be refused on its way into the job (its payload cannot be decoded or does not fit the schema), by a
transform or by a sink. Whoever refuses it makes a `DeadLetter`; the sink of the `dead_letter` block gets rows of one
fixed type and need not know where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from edgesocket.rows import Rows

DEAD_LETTER_SCHEMA = pa.schema(
    [
        pa.field("batch_id", pa.int64()),
        pa.field("time", pa.timestamp("us")),
        pa.field("origin", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("payload", pa.string()),
        pa.field("payload_bytes", pa.binary()),
    ]
)
"""The type of rows that are dead letters.

`time` is when the record was refused, in UTC. `payload` is the record as text, with U+FFFD for what is not UTF-8;
`payload_bytes` is null, or the record itself where it is not UTF-8.
"""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that was refused for good.

    Attributes:
        batch_id: the batch it came in.
        payload: the record: as it was received, or the row as JSON where a sink refused a typed row.
        reason: what is wrong with it.
        origin: id of the source, transform or sink that refused it.
        time_ms: when it was refused, milliseconds since 1970 in UTC.
    """

    batch_id: int
    payload: bytes
    reason: str
    origin: str
    time_ms: int


def dead_letter_rows(entries: Sequence[DeadLetter]) -> Rows:
    """Dead letters as rows of DEAD_LETTER_SCHEMA, in the same order. At least one.

    Nothing is lost: what the text of a payload cannot show is in `payload_bytes`. Lone surrogates in reasons, which
    Arrow cannot hold, become question marks.
    """
    texts = [_text(entry.payload) for entry in entries]
    columns = [
        pa.array([entry.batch_id for entry in entries], pa.int64()),
        pa.array([entry.time_ms * 1000 for entry in entries], pa.int64()).cast(pa.timestamp("us")),
        pa.array([_valid(entry.origin) for entry in entries], pa.string()),
        pa.array([_valid(entry.reason) for entry in entries], pa.string()),
        pa.array([text for text, _ in texts], pa.string()),
        pa.array(
            [None if whole else entry.payload for entry, (_, whole) in zip(entries, texts, strict=True)], pa.binary()
        ),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA)
    ids = np.array([entry.batch_id for entry in entries], dtype=np.int64)
    return Rows.of_batch(batch, entries[0].batch_id, ids)


def _text(payload: bytes) -> tuple[str, bool]:
    """A payload as text, and whether the text is all of it."""
    try:
        return payload.decode(), True
    except UnicodeDecodeError:
        return payload.decode(errors="replace"), False


def _valid(text: str) -> str:
    return text.encode(errors="replace").decode()
