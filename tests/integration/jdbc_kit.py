"""Rows and sinks for tests of the Jdbc sink against real databases."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from edgesocket.components.sink import RejectedRow, SinkContext
from edgesocket.rows import Rows
from edgesocket.sinks.jdbc import JdbcSink

TZ = pa.struct([("utc", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int16())])
EVERY_TYPE = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("yes", pa.bool_()),
        pa.field("i8", pa.int8()),
        pa.field("i16", pa.int16()),
        pa.field("i32", pa.int32()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("dec", pa.decimal128(38, 10)),
        pa.field("day", pa.date32()),
        pa.field("hour", pa.time64("us")),
        pa.field("ts", pa.timestamp("us")),
        pa.field("tz", TZ, metadata={b"edgesocket.type": b"timestamp_tz"}),
        pa.field("raw", pa.binary()),
        pa.field("list", pa.list_(pa.int32())),
        pa.field("map", pa.map_(pa.string(), pa.int32())),
        pa.field("nested", pa.struct([("x", pa.string()), ("y", pa.decimal128(20, 2))])),
        pa.field("nothing", pa.null()),
    ]
)
"""One column of each type that a job file can declare."""

FULL_ROW: dict[str, Any] = {
    "id": 2**63 - 1,
    "s": 'it\'s "x" \\ %s %% ? :name\n\\.\n\tZürich \U0001f98a',
    "yes": True,
    "i8": -128,
    "i16": -32768,
    "i32": 2**31 - 1,
    "f": 1.5,
    "d": 0.1,
    "dec": Decimal("-1234567890123456789012345678.0123456789"),
    "day": dt.date(2024, 2, 29),
    "hour": dt.time(23, 59, 58, 999999),
    "ts": dt.datetime(2024, 5, 6, 7, 8, 9, 5),
    "tz": {"utc": dt.datetime(2024, 5, 6, 22, 8, 9, 123456, dt.UTC), "offset_minutes": 330},
    "raw": b"\0\xff'\\",
    "list": [1, None],
    "map": [("k", 1)],
    "nested": {"x": "q", "y": Decimal("1.50")},
    "nothing": None,
}
EMPTY_ROW: dict[str, Any] = {**dict.fromkeys(EVERY_TYPE.names), "id": 1}

PAIRS = pa.schema([("id", pa.int64()), ("s", pa.string())])


def pairs(*rows: tuple[int | None, str | None], first_id: int = 1) -> Rows:
    """Rows of PAIRS."""
    ids, texts = zip(*rows, strict=True)
    return Rows.of_batch(pa.RecordBatch.from_pydict({"id": ids, "s": texts}, schema=PAIRS), first_id)


class Naps:
    """A sleep that only remembers."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


@contextlib.contextmanager
def opened(
    options: dict[str, Any], *, schema: pa.Schema = PAIRS, epoch: int = 1, rejected: list[RejectedRow] | None = None
) -> Iterator[JdbcSink]:
    """An open sink, closed afterwards."""
    sink = JdbcSink(**{"sleep": Naps(), **options})
    reject = {} if rejected is None else {"reject": rejected.append}
    try:
        sink.open(SinkContext("job", epoch, "sink", schema, **reject))
        yield sink
    finally:
        sink.close()


def checkpoint(sink: JdbcSink, number: int) -> None:
    """Prepare and commit, as the engine does."""
    manifest = sink.prepare(number)
    if manifest:
        sink.commit(number, manifest)


def written(sink: JdbcSink, *rows: Sequence[Any]) -> None:
    """Write pairs, each in a block of its own."""
    for number, row in enumerate(rows, 1):
        sink.write(pairs((row[0], row[1]), first_id=number))
