"""What the tests of schemas share: a schema of names and types, and the row of a payload."""

from __future__ import annotations

from typing import Any

from edgesocket.records import RecordBlock
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.fast import BlockDecoder, Decoded
from edgesocket.schema.types import FieldType, RowSchema, RowType, SchemaField, parse_type


def row_of(**fields: str | FieldType) -> RowType:
    """A row type of names and types."""
    return RowType(tuple((name, parse_type(kind) if isinstance(kind, str) else kind) for name, kind in fields.items()))


def schema_of(**fields: str | FieldType) -> RowSchema:
    """A schema of names and types."""
    return RowSchema(tuple(SchemaField(name, kind) for name, kind in row_of(**fields).fields))


def decoded(schema: RowSchema, *payloads: bytes, lenient: bool = False) -> Decoded:
    """What becomes of a block of payloads with the ids 1, 2, ..."""
    return BlockDecoder(schema, lenient).decode(RecordBlock.of_run(1, payloads))


def row(schema: RowSchema, payload: bytes, *, lenient: bool = False) -> dict[str, Any]:
    """The one row of a payload, as Arrow shows it; the exact decoder makes the same."""
    result = decoded(schema, payload, lenient=lenient)
    assert result.bad == []
    assert result.rows is not None
    shown: dict[str, Any] = result.rows.batch.to_pylist()[0]
    if not lenient:
        alone = record_batch([ExactDecoder(schema).decode(payload)], schema)
        assert repr(alone.to_pylist()[0]) == repr(shown)
    return shown


def value(kind: str | FieldType, json: str, *, lenient: bool = False) -> Any:
    """What a JSON value becomes in a column of a type."""
    return row(schema_of(x=kind), b'{"x":' + json.encode() + b"}", lenient=lenient)["x"]


def reason(schema: RowSchema, payload: bytes, *, lenient: bool = False) -> str:
    """Why a payload is not a row."""
    result = decoded(schema, payload, lenient=lenient)
    assert result.rows is None
    assert len(result.bad) == 1
    return result.bad[0].reason


def refusal(kind: str | FieldType, json: str, *, lenient: bool = False) -> str:
    """Why a JSON value cannot be in a column of a type."""
    return reason(schema_of(x=kind), b'{"x":' + json.encode() + b"}", lenient=lenient)
