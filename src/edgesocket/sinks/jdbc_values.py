"""Rows as values that database drivers take, and as text for COPY. The tables of types are in `jdbc_databases`."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from edgesocket.rows import Rows, text_schema
from edgesocket.sinks.encoding import json_rows

TYPE_KEY = b"edgesocket.type"
"""Key in a field's metadata that says what a struct stands for."""

_CSV = pc_csv.WriteOptions(include_header=False, quoting_style="needed")
"""Text is always in quotes and NULL never, so an empty text and NULL differ."""


def is_timestamp_tz(field: pa.Field) -> bool:
    """Whether a column holds moments with their offset from UTC."""
    return bool(field.metadata) and field.metadata.get(TYPE_KEY) == b"timestamp_tz"


def is_nested(field: pa.Field) -> bool:
    """Whether a column is written as JSON text."""
    return bool(pa.types.is_nested(field.type)) and not is_timestamp_tz(field)


def plain_values(column: pa.Array, field: pa.Field) -> list[Any]:
    """Values as Python has them: int, float, Decimal, str, bytes, date, time, naive datetime; a moment as an aware
    datetime in UTC; nested values as JSON text.

    Raises:
        ValueError, OverflowError: a date or time is outside of years 1 to 9999.
    """
    if is_timestamp_tz(field):
        return _moments(column)
    if is_nested(field):
        return json_texts(column)
    values: list[Any] = column.to_pylist()
    return values


def naive_utc_values(column: pa.Array, field: pa.Field) -> list[Any]:
    """The same, a moment as a naive datetime in UTC."""
    if is_timestamp_tz(field):
        return [None if moment is None else moment.replace(tzinfo=None) for moment in _moments(column)]
    return plain_values(column, field)


def sqlite_values(column: pa.Array, field: pa.Field) -> list[Any]:
    """What SQLite can hold: decimals, dates and times as text, a moment as text with its own offset."""
    if is_timestamp_tz(field):
        offsets = pc.struct_field(column, "offset_minutes").to_pylist()
        pairs = zip(_moments(column), offsets, strict=True)
        return [None if moment is None else _at_offset(moment, offset or 0).isoformat(" ") for moment, offset in pairs]
    values = plain_values(column, field)
    as_text = _sqlite_text(field.type)
    return values if as_text is None else [None if value is None else as_text(value) for value in values]


def _sqlite_text(type_: pa.DataType) -> Callable[[Any], str] | None:
    if pa.types.is_timestamp(type_):
        return lambda value: str(value.isoformat(" "))
    if pa.types.is_date(type_) or pa.types.is_time(type_):
        return lambda value: str(value.isoformat())
    if pa.types.is_decimal(type_):
        return lambda value: format(value, "f")
    return None


def _moments(column: pa.Array) -> list[datetime | None]:
    moments: list[datetime | None] = _utc(column).cast(pa.timestamp("us")).to_pylist()
    return [None if moment is None else moment.replace(tzinfo=UTC) for moment in moments]


def _utc(column: pa.Array) -> pa.Array:
    """The moments of a timestamp_tz column; NULL where the whole value is."""
    return pc.struct_field(column, "utc")


def _at_offset(moment: datetime, minutes: int) -> datetime:
    return moment.astimezone(timezone(timedelta(minutes=minutes)))


def json_texts(column: pa.Array) -> list[str | None]:
    """Each value as JSON text, None for NULL."""
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    valid = column.is_valid().to_pylist()
    texts: list[str | None] = []
    for row, known in zip(json_rows(Rows.of_batch(batch)), valid, strict=True):
        texts.append(row[row.index(b":") + 1 : -1].strip().decode() if known else None)
    return texts


def csv_text(rows: Rows) -> bytes:
    """Rows for `COPY ... FROM STDIN (FORMAT csv)` of PostgreSQL."""
    batch = rows.batch
    columns = [_csv_column(batch.column(n), field) for n, field in enumerate(rows.schema)]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        made = batch
    else:
        made = pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
    output = io.BytesIO()
    pc_csv.write_csv(made, output, _CSV)
    return output.getvalue()


def _csv_column(column: pa.Array, field: pa.Field) -> pa.Array:
    if is_timestamp_tz(field):
        return _utc(column)
    if is_nested(field):
        return pa.array(json_texts(column), pa.string())
    if pa.types.is_binary(field.type):
        values = (None if value is None else "\\x" + value.hex() for value in column.to_pylist())
        return pa.array(values, pa.string())
    if pa.types.is_null(field.type):
        return column.cast(pa.string())
    return column


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of one schema as one block."""
    if len(parts) == 1:
        return parts[0]
    batch = pa.Table.from_batches([part.batch for part in parts]).combine_chunks().to_batches()[0]
    ids = np.concatenate([part.id_array() for part in parts])
    return Rows.of_batch(batch, int(ids[0]), ids)


def row_text(rows: Rows) -> bytes:
    """A single row: its payload where the row is one, else JSON text."""
    if rows.schema == text_schema():
        value = rows.batch.column(0)[0]
        return b"" if not value.is_valid else bytes(value.as_buffer())
    text: bytes = json_rows(rows)[0]
    return text


def bytes_of(rows: Rows) -> int:
    """About how much memory rows take."""
    return rows.records.payload_bytes if rows.records is not None else int(rows.batch.nbytes)
