"""From Arrow types back to the types of a job file, for rows that were written as JSON and are to be read again.

The other way (`types.FieldType.arrow`) is one to one for what a job file can name. Transforms may make columns of
other types (unsigned numbers, timestamps of a zone); those have no way back and are named.
"""

from __future__ import annotations

import pyarrow as pa

from edgesocket.schema.types import (
    ArrayType,
    DecimalType,
    FieldType,
    Kind,
    MapType,
    RowSchema,
    RowType,
    SchemaField,
    SimpleType,
)

_SIMPLE = {SimpleType(kind).arrow: SimpleType(kind) for kind in Kind}


def row_schema_of(schema: pa.Schema) -> RowSchema:
    """The schema whose rows have these columns.

    Raises:
        ValueError: a column has a type that no job file can name; the text says which.
    """
    fields = []
    for field in schema:
        kind = field_type_of(field.type)
        if kind is None:
            raise ValueError(f"column {field.name} has the type {field.type}, which cannot be read back")
        fields.append(SchemaField(field.name, kind))
    return RowSchema(tuple(fields))


def field_type_of(kind: pa.DataType) -> FieldType | None:
    """The type that is this one in Arrow; None where there is none."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        key, item = field_type_of(kind.key_type), field_type_of(kind.item_type)
        return None if key is None or item is None else MapType(key, item)
    if pa.types.is_list(kind):
        element = field_type_of(kind.value_type)
        return None if element is None else ArrayType(element)
    if pa.types.is_struct(kind):
        inner = [(field.name, field_type_of(field.type)) for field in kind]
        known = [(name, one) for name, one in inner if one is not None]
        return RowType(tuple(known)) if len(known) == len(inner) else None
    return None
