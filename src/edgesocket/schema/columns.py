"""Rows to Arrow: the values of each column gathered in a list, and the list made an array of the column's type."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from edgesocket.schema.types import (
    TIMESTAMP_TZ_ARROW,
    ArrayType,
    FieldType,
    Kind,
    MapType,
    RowSchema,
    RowType,
    SimpleType,
    arrow_field,
)


def record_batch(rows: Sequence[msgspec.Struct], schema: RowSchema) -> pa.RecordBatch:
    """The rows as columns of `schema.arrow`.

    Args:
        rows: objects of the schema's class (`schema.wire`), whose values fit.
    """
    columns = [
        _column(list(map(attrgetter(f"f{index}"), rows)), field.kind) for index, field in enumerate(schema.fields)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _column(values: list[Any], kind: FieldType) -> pa.Array:
    if isinstance(kind, RowType):
        return _rows(values, kind)
    if isinstance(kind, ArrayType):
        return _lists(values, kind)
    if isinstance(kind, MapType):
        return _maps(values, kind)
    if kind == SimpleType(Kind.TIMESTAMP_TZ):
        return _moments(values)
    return pa.array(values, kind.arrow)


def _rows(values: list[msgspec.Struct | None], kind: RowType) -> pa.StructArray:
    children = []
    for index, (_, inner) in enumerate(kind.fields):
        value_of = attrgetter(f"f{index}")
        children.append(_column([None if value is None else value_of(value) for value in values], inner))
    fields = [arrow_field(name, inner) for name, inner in kind.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(values))


def _moments(values: list[tuple[int, int] | None]) -> pa.StructArray:
    children = [
        pa.array([None if value is None else value[index] for value in values], field.type)
        for index, field in enumerate(TIMESTAMP_TZ_ARROW)
    ]
    return pa.StructArray.from_arrays(children, fields=list(TIMESTAMP_TZ_ARROW), mask=_nulls(values))


def _lists(values: list[list[Any] | None], kind: ArrayType) -> pa.ListArray:
    items = [item for value in values if value is not None for item in value]
    return pa.ListArray.from_arrays(_offsets(values), _column(items, kind.element), type=kind.arrow)


def _maps(values: list[dict[Any, Any] | None], kind: MapType) -> pa.MapArray:
    keys = [key for value in values if value is not None for key in value]
    items = [item for value in values if value is not None for item in value.values()]
    return pa.MapArray.from_arrays(
        _offsets(values), _column(keys, kind.key), _column(items, kind.value), type=kind.arrow
    )


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each list begins in the flat items, and where the last one ends. Null where there is no list."""
    offsets: list[int | None] = []
    position = 0
    for value in values:
        offsets.append(None if value is None else position)
        position += 0 if value is None else len(value)
    return pa.array([*offsets, position], pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())
