"""The options of the JsonPath transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgesocket.config.convert import Refused
from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.plugins.choices import not_empty
from edgesocket.config.plugins.common import COMMON_TRANSFORM


def _build_column(**values: str | None) -> dict[str, str | None]:
    """One column, or several written with semicolons; they are taken apart by `_expanded`."""
    counts = {str(values[key]).count(";") for key in ("path", "dest_field", "dest_type")}
    if ";" in str(values["dest_field"]) and len(counts) != 1:
        raise Refused("path, dest_field and dest_type have different numbers of parts between semicolons")
    return values


def _expanded(columns: tuple[dict[str, str | None], ...]) -> tuple[dict[str, str | None], ...]:
    """Columns written together (`a;b`) as columns of their own."""
    if not columns:
        raise Refused("the list is empty")
    made = []
    for column in columns:
        if ";" not in str(column["dest_field"]):
            made.append(column)
            continue
        parts = zip(*(str(column[key]).split(";") for key in ("path", "dest_field", "dest_type")), strict=True)
        for path, dest_field, dest_type in parts:
            more = {"path": path.strip(), "dest_field": dest_field.strip(), "dest_type": dest_type.strip()}
            made.append({**column, **more})
    return tuple(made)


COLUMN = OptionTable(
    Option(
        name="src_field",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"data"',
        description="The field with the JSON: text, bytes, array, map or row.",
    ),
    Option(
        name="path",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"$.sensor.id"',
        description="The JSONPath of the value.",
    ),
    Option(
        name="dest_field",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"sensor_id"',
        description="Name of the field the value goes to.",
    ),
    Option(
        name="dest_type",
        kind=Kind.TEXT,
        default="string",
        check=not_empty,
        example='"int"',
        description="Type of that field, as in a schema.",
    ),
    Option(
        name="column_error_handle_way",
        kind=Kind.CHOICE,
        default_text="what row_error_handle_way says",
        choices=("FAIL", "SKIP", "SKIP_ROW"),
        example="SKIP",
        description="A value that is not there or does not fit: FAIL ends the job, SKIP makes it null, SKIP_ROW drops "
        "the row.",
    ),
)
JSON_PATH = OptionTable(
    Option(
        name="columns",
        kind=Kind.BLOCKS,
        required=True,
        table=COLUMN,
        build=_build_column,
        check=_expanded,
        example='[{ src_field = "data", path = "$.id", dest_field = "id" }]',
        description="The values to take out.",
    ),
    Option(
        name="row_error_handle_way",
        kind=Kind.CHOICE,
        default="FAIL",
        choices=("FAIL", "SKIP"),
        example="SKIP",
        description="For columns that say nothing themselves: FAIL ends the job, SKIP drops the row.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPathOptions:
    """What the JsonPath transform is made with, checked."""

    columns: tuple[Mapping[str, str | None], ...]
    row_error_handle_way: str
