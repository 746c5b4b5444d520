"""From Arrow types back to the types of a job file."""

from __future__ import annotations

import pyarrow as pa
import pytest

from edgesocket.schema.arrow_types import field_type_of, row_schema_of
from edgesocket.schema.types import Kind, RowSchema, SchemaField, parse_type

TYPES = [kind.value for kind in Kind] + [
    "decimal(38, 18)",
    "array<int>",
    "array<timestamp_tz>",
    "map<string, array<double>>",
]


@pytest.mark.parametrize("text", TYPES)
def test_every_type_of_a_job_file_has_a_way_back(text: str) -> None:
    kind = parse_type(text)
    assert field_type_of(kind.arrow) == kind


def test_a_schema_is_read_back_as_it_was() -> None:
    schema = RowSchema((SchemaField("a", parse_type("int")), SchemaField("b", parse_type("array<string>"))))
    assert row_schema_of(schema.arrow) == schema


@pytest.mark.parametrize("kind", [pa.uint32(), pa.timestamp("us", "UTC"), pa.list_(pa.uint8()), pa.large_string()])
def test_a_type_without_a_way_back_is_named(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="column total has the type"):
        row_schema_of(pa.schema([("total", kind)]))
