"""The `schema { ... }` block of a source: its two spellings of columns, and what else SeaTunnel lets it say.

`fields { name = type }` is the short spelling, `columns = [{ name = ..., type = ... }]` the long one with defaults.
Only one of them can be used. A key with dots inside of `fields` is the name of a column as it is written.
"""

from __future__ import annotations

from typing import Any

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import BrokenNode, ListNode, Location, Node, ObjectNode, Report, Scalar, describe
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions, parse_options, whole_number
from edgesocket.schema.exact import default_value
from edgesocket.schema.types import (
    MAX_TYPE_DEPTH,
    FieldType,
    RowSchema,
    RowType,
    SchemaField,
    TypeTextError,
    parse_type,
)
from edgesocket.schema.values import Unfit

MAX_TABLE_PARTS = 3
"""`database.schema.table`"""

_EMPTY = RowSchema(())
"""Returned after a problem, and never used."""


def read_schema(node: Node, path: str, report: Report) -> RowSchema:
    """The columns that a `schema` block names. Every problem goes to the report; after one the result is of no use."""
    known = len(report.problems)
    if isinstance(node, BrokenNode):
        return _EMPTY
    if not isinstance(node, ObjectNode):
        report.problem(node.location, path, f"needs a block, not {describe(node)}", _EXAMPLE)
        return _EMPTY
    parsed = parse_options(_SCHEMA, node, path, report)
    fields = _one_of(parsed, path, report, complain=len(report.problems) == known)
    primary_key = parsed.values.get("primaryKey") or {}
    keys: tuple[str, ...] = tuple(primary_key.get("columnNames") or ())
    if fields:
        names = [field.name for field in fields]
        _check_key(keys, names, parsed.place("primaryKey"), f"{path}.primaryKey.columnNames", report)
        for number, constraint in enumerate(parsed.values.get("constraintKeys") or (), 1):
            columns = tuple(column["columnName"] for column in constraint["constraintColumns"] or ())
            where = f"{path}.constraintKeys[{number}].constraintColumns"
            _check_key(columns, names, parsed.place("constraintKeys"), where, report)
    if len(report.problems) > known:
        return _EMPTY
    return RowSchema(fields, parsed.values["table"] or "", keys, parsed.values["comment"] or "")


def _one_of(parsed: ParsedOptions, path: str, report: Report, *, complain: bool) -> tuple[SchemaField, ...]:
    """What `fields` or `columns` says; there must be exactly one of them.

    `complain`: nothing else is wrong so far, so that none of them is not just a misspelled one.
    """
    given = [key for key in ("fields", "columns") if key in parsed.places]
    if len(given) == 2:
        place = parsed.place("columns")
        report.problem(place, f"{path}.columns", "fields and columns cannot be used together", "keep one of them")
    elif not given and complain:
        report.problem(parsed.location, path, "names no columns", _EXAMPLE)
    elif given:
        fields: tuple[SchemaField, ...] = parsed.values.get(given[0]) or ()
        return fields
    return ()


def _check_key(columns: tuple[str, ...], names: list[str], place: Location, path: str, report: Report) -> None:
    for column in columns:
        if column not in names:
            same = [name for name in names if name.lower() == column.lower()]
            fix = f"did you mean {same[0]}?" if same else f"name some of {shorten(', '.join(names))}"
            report.problem(place, path, f"there is no column {shorten(column, quote=True)}", fix)


def _read_fields(node: Node, path: str, report: Report) -> tuple[SchemaField, ...]:
    """`fields { name = type }`"""
    return tuple(SchemaField(name, kind) for name, kind in _read_block(node, path, report, 1))


def _read_block(node: Node, path: str, report: Report, depth: int) -> list[tuple[str, FieldType]]:
    """Names and types of a block, which is the list of columns or the type of one: a row inside a row."""
    if isinstance(node, BrokenNode):
        return []
    if not isinstance(node, ObjectNode):
        report.problem(node.location, path, f"needs a block of names and types, not {describe(node)}", _EXAMPLE)
        return []
    if not node.fields:
        report.problem(node.location, path, "names no columns", "fields { id = bigint, name = string }")
    found = []
    for name, entry in node.fields.items():
        kind = _read_type(entry.node, f"{path}.{shorten(name)}", report, depth)
        if not name.strip():
            report.problem(entry.location, path, "a column has no name", "id = bigint")
        elif kind is not None:
            found.append((name, kind))
    return found


def _read_type(node: Node, path: str, report: Report, depth: int = 1) -> FieldType | None:
    """A type: as text, or a row as a block. None after a problem."""
    if depth > MAX_TYPE_DEPTH:
        report.problem(node.location, path, f"types are nested more than {MAX_TYPE_DEPTH} deep", "name fewer levels")
    elif isinstance(node, ObjectNode):
        known = len(report.problems)
        inner = _read_block(node, path, report, depth + 1)
        return RowType(tuple(inner)) if len(report.problems) == known else None
    elif isinstance(node, Scalar) and node.is_null:
        report.problem(node.location, path, "has no type", 'write "null" in quotes for a column that is always null')
    elif isinstance(node, Scalar):
        try:
            return parse_type(node.text)
        except TypeTextError as error:
            fix = f"did you mean {error.fix}?" if error.fix else "write a type such as string, int or decimal(10, 2)"
            report.problem(node.location, path, str(error), fix)
    elif not isinstance(node, BrokenNode):
        fix = 'tags = "array<string>"'
        report.problem(node.location, path, f"needs the name of a type, not {describe(node)}", fix)
    return None


def _read_columns(node: Node, path: str, report: Report) -> tuple[SchemaField, ...]:
    """`columns = [{ name = ..., type = ... }]`"""
    if isinstance(node, BrokenNode):
        return ()
    if not isinstance(node, ListNode):
        fix = "columns = [{ name = id, type = bigint }]"
        report.problem(node.location, path, f"needs a list of blocks, not {describe(node)}", fix)
        return ()
    if not node.items:
        report.problem(node.location, path, "names no columns", "columns = [{ name = id, type = bigint }]")
    columns: dict[str, SchemaField] = {}
    for number, item in enumerate(node.items, 1):
        where = f"{path}[{number}]"
        column = _read_column(item, where, report)
        if column is not None and column.name in columns:
            report.problem(item.location, where, f"{shorten(column.name, quote=True)} is named twice", "rename one")
        elif column is not None:
            columns[column.name] = column
    return tuple(columns.values())


def _read_column(node: Node, path: str, report: Report) -> SchemaField | None:
    if isinstance(node, BrokenNode):
        return None
    if not isinstance(node, ObjectNode):
        report.problem(node.location, path, f"needs a block, not {describe(node)}", "{ name = id, type = bigint }")
        return None
    known = len(report.problems)
    parsed = parse_options(_COLUMN, node, path, report)
    if len(report.problems) > known:
        return None
    said = parsed.values
    default = _default(said["defaultValue"], said["type"], f"{path}.defaultValue", report)
    return SchemaField(said["name"], said["type"], said["nullable"], default, said["comment"] or "")


def _default(node: Scalar | None, kind: FieldType, path: str, report: Report) -> Any:
    """A default as a value of the column's type."""
    if node is None or node.is_null:
        return None
    try:
        return default_value(kind, node.text)
    except Unfit as unfit:
        why = f" ({unfit.why})" if unfit.why else ""
        shown = shorten(node.text, quote=True)
        report.problem(node.location, path, f"{shown} is not {kind.text}{why}", "write a value of the column's type")
    return None


def _read_default(node: Node, path: str, report: Report) -> Scalar | None:
    if not isinstance(node, Scalar | BrokenNode):
        message = f"needs a single value, not {describe(node)}: only columns of simple types have defaults"
        report.problem(node.location, path, message, "leave it out")
    return node if isinstance(node, Scalar) else None


def _check_name(name: str) -> str:
    if not name.strip():
        raise Refused("the name is blank", "name = id")
    return name


def _check_table(table: str) -> str:
    parts = table.split(".")
    if len(parts) > MAX_TABLE_PARTS or not all(part.strip() for part in parts):
        raise Refused(f"{shorten(table, quote=True)} is not a table name", 'table = "database.schema.table"')
    return table


_EXAMPLE = "schema { fields { id = bigint, name = string } }"

_COLUMN = OptionTable(
    Option(
        name="name",
        kind=Kind.TEXT,
        required=True,
        check=_check_name,
        example="id",
        description="Name of the column, and of the JSON field it is read from.",
    ),
    Option(
        name="type",
        kind=Kind.STRUCTURE,
        required=True,
        read=_read_type,
        former=("dataType", "data_type"),
        example="bigint",
        description="Type of the column; a row inside a row is a block of names and types.",
    ),
    Option(
        name="nullable",
        kind=Kind.BOOLEAN,
        default=True,
        example="true",
        description="Whether a sink that makes tables allows null; not enforced when JSON is read.",
    ),
    whole_number("columnLength", 0, "Accepted, without effect.", minimum=0),
    whole_number("columnScale", 0, "Accepted, without effect: a decimal says it in its type.", minimum=0),
    Option(
        name="defaultValue",
        kind=Kind.STRUCTURE,
        read=_read_default,
        former=("default",),
        example='"unknown"',
        description="What a missing or null field becomes. Simple types only.",
    ),
    Option(name="comment", kind=Kind.TEXT, example='"who clicked"', description="Free text."),
)

_PRIMARY_KEY = OptionTable(
    Option(name="name", kind=Kind.TEXT, example="id", description="Name of the key."),
    Option(
        name="columnNames",
        kind=Kind.TEXT_LIST,
        required=True,
        aliases=("columns",),
        example="[id]",
        description="Columns that identify a row.",
    ),
)

_CONSTRAINT_COLUMN = OptionTable(
    Option(name="columnName", kind=Kind.TEXT, required=True, example="id", description="Name of the column."),
    Option(name="sortType", kind=Kind.CHOICE, choices=("ASC", "DESC"), example="ASC", description="Order of the key."),
)

_CONSTRAINT = OptionTable(
    Option(name="constraintName", kind=Kind.TEXT, example="by_id", description="Name of the constraint."),
    Option(
        name="constraintType",
        kind=Kind.CHOICE,
        choices=("KEY", "INDEX_KEY", "UNIQUE_KEY", "FOREIGN_KEY"),
        refused={"VECTOR_INDEX_KEY": "is not supported: there are no vectors"},
        example="UNIQUE_KEY",
        description="Kind of the constraint.",
    ),
    Option(
        name="constraintColumns",
        kind=Kind.BLOCKS,
        table=_CONSTRAINT_COLUMN,
        required=True,
        example="[{ columnName = id, sortType = ASC }]",
        description="Columns of the constraint.",
    ),
)

_SCHEMA = OptionTable(
    Option(
        name="fields",
        kind=Kind.STRUCTURE,
        read=_read_fields,
        example="{ id = bigint, name = string }",
        description="Columns as names and types.",
    ),
    Option(
        name="columns",
        kind=Kind.STRUCTURE,
        read=_read_columns,
        example="[{ name = id, type = bigint }]",
        description="Columns as a list of blocks, with defaults and comments.",
    ),
    Option(
        name="table",
        kind=Kind.TEXT,
        check=_check_table,
        former=("table_name", "tableName"),
        example='"shop.public.clicks"',
        description="Name of the table that the rows belong to.",
    ),
    Option(
        name="schema_first",
        kind=Kind.BOOLEAN,
        default=False,
        example="false",
        description="A table name of two parts is schema and table. Accepted, without effect.",
    ),
    Option(name="comment", kind=Kind.TEXT, example='"clicks"', description="Free text."),
    Option(
        name="primaryKey",
        kind=Kind.BLOCK,
        table=_PRIMARY_KEY,
        former=("primary_key",),
        example="{ name = id, columnNames = [id] }",
        description="Columns that identify a row.",
    ),
    Option(
        name="constraintKeys",
        kind=Kind.BLOCKS,
        table=_CONSTRAINT,
        example="[{ constraintColumns = [{ columnName = id }] }]",
        description="Other keys. Their columns must exist; else without effect.",
    ),
    Option(name="metadata_table_id", kind=Kind.LATER, description="columns are named here, not looked up elsewhere"),
    ignored={"partition_keys": "rows are not partitioned by the source"},
)
