"""Field types: the names a job file uses for them, and the Arrow type of each.

The names are SeaTunnel's, in any letter case and with blanks wherever one likes. A type knows how it is written
(`text`) and what a column of it is in Arrow (`arrow`); how JSON becomes a value of it is told in `schema.exact`.
"""

from __future__ import annotations

import difflib
import enum
import json
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAX_TYPE_DEPTH = 32
"""How deep types may be nested in each other."""
MAX_PRECISION = 38
"""Most digits of a decimal: what 128 bits hold."""

TYPE_MARK = b"edgesocket.type"
"""Metadata key of an Arrow field whose Arrow type alone does not tell the type."""


class Kind(enum.Enum):
    """The simple types, by name."""

    STRING = "string"
    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TZ = "timestamp_tz"
    BYTES = "bytes"
    NULL = "null"


TIMESTAMP_TZ_ARROW = pa.struct([("utc", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int16())])
"""A moment, and the offset from UTC that it was written with."""

_ARROW: dict[Kind, pa.DataType] = {
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMP_TZ: TIMESTAMP_TZ_ARROW,
    Kind.BYTES: pa.binary(),
    Kind.NULL: pa.null(),
}

INTEGER_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
"""The whole-number types and their width."""


@dataclass(frozen=True, slots=True)
class SimpleType:
    """A type that takes no parameter."""

    kind: Kind

    @property
    def text(self) -> str:
        return self.kind.value

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self.kind]


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers of at most `precision` digits (1..38), `scale` of them (0..precision) behind the point."""

    precision: int
    scale: int

    @property
    def text(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type; each may be null."""

    element: FieldType

    @property
    def text(self) -> str:
        return f"array<{self.element.text}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(arrow_field("item", self.element))


@dataclass(frozen=True, slots=True)
class MapType:
    """Values of one type by key; a value may be null, a key not."""

    key: FieldType
    value: FieldType

    @property
    def text(self) -> str:
        return f"map<{self.key.text},{self.value.text}>"

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, arrow_field("value", self.value))


@dataclass(frozen=True, slots=True)
class RowType:
    """A row inside a row: names with their types, in order."""

    fields: tuple[tuple[str, FieldType], ...]

    @property
    def text(self) -> str:
        return "row{" + ", ".join(f"{name} = {kind.text}" for name, kind in self.fields) + "}"

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([arrow_field(name, kind) for name, kind in self.fields])


FieldType = SimpleType | DecimalType | ArrayType | MapType | RowType
"""What a field is. `text` is how a job file writes it, `arrow` its Arrow type."""


def arrow_field(name: str, kind: FieldType) -> pa.Field:
    """The Arrow field of a column. Any column may hold null."""
    mark = {TYPE_MARK: kind.text.encode()} if kind == SimpleType(Kind.TIMESTAMP_TZ) else None
    return pa.field(name, kind.arrow, metadata=mark)


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One column.

    Attributes:
        name: the JSON field it is read from, and the name that transforms and sinks see.
        kind: its type.
        nullable: what the job file says; it is told to sinks, and not enforced when JSON is read.
        default: what a missing or null field becomes, a value as `schema.exact` makes them; None for null.
        comment: free text.
    """

    name: str
    kind: FieldType
    nullable: bool = True
    default: Any = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The columns of a source's rows, in order. At least one; no name twice.

    Attributes:
        fields: the columns.
        table: name of the table the rows belong to, or an empty string.
        primary_key: columns that identify a row; empty where none are named.
        comment: free text.
    """

    fields: tuple[SchemaField, ...]
    table: str = ""
    primary_key: tuple[str, ...] = ()
    comment: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(field.name for field in self.fields)

    @property
    def arrow(self) -> pa.Schema:
        """Names and Arrow types of the columns."""
        return pa.schema([arrow_field(field.name, field.kind) for field in self.fields])

    @property
    def row_type(self) -> RowType:
        """The columns as a type."""
        return RowType(tuple((field.name, field.kind) for field in self.fields))

    @property
    def fingerprint(self) -> str:
        """A text that is the same for two schemas if and only if they make the same rows of the same payloads."""
        columns = [[field.name, _fingerprint(field.kind), repr(field.default)] for field in self.fields]
        return json.dumps(columns, ensure_ascii=True, separators=(",", ":"))


def _fingerprint(kind: FieldType) -> Any:
    """A type as JSON, in which a strange field name cannot look like something else."""
    if isinstance(kind, RowType):
        return [[name, _fingerprint(inner)] for name, inner in kind.fields]
    if isinstance(kind, ArrayType):
        return {"array": _fingerprint(kind.element)}
    if isinstance(kind, MapType):
        return {"map": [_fingerprint(kind.key), _fingerprint(kind.value)]}
    return kind.text


class TypeTextError(ValueError):
    """A text that names no type.

    Attributes:
        fix: what was probably meant, or an empty string.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(message)


_ALIASES = {"long": Kind.BIGINT, "short": Kind.SMALLINT, "byte": Kind.TINYINT}
_MEANT = {
    "integer": "int",
    "int32": "int",
    "int64": "bigint",
    "int16": "smallint",
    "int8": "tinyint",
    "number": "double, or decimal(p, s) for exact digits",
    "numeric": "decimal(38, 18)",
    "real": "float",
    "varchar": "string",
    "char": "string",
    "text": "string",
    "str": "string",
    "bool": "boolean",
    "datetime": "timestamp",
    "timestamp_ltz": "timestamp_tz",
    "timestamptz": "timestamp_tz",
    "binary": "bytes",
    "blob": "bytes",
    "list": "array<string>",
    "struct": "a block of names and types",
    "object": "a block of names and types",
    "json": "string",
}
_SIMPLE = {kind.value: kind for kind in Kind} | _ALIASES
_KNOWN = (*_SIMPLE, "decimal", "array", "map")
_PARAMETERS = re.compile(r"([0-9]{1,6}),([0-9]{1,6})\Z")
_SPACES = re.compile(r"\s+")


def parse_type(text: str) -> FieldType:
    """The type a text names: `int`, `Decimal(10, 2)`, `map<string, array<bigint>>`.

    Raises:
        TypeTextError: it names none. The message starts after the field's path; `fix` says what was probably meant.
    """
    plain = _SPACES.sub("", text).lower()
    return _parse(plain, 1)


def _parse(text: str, depth: int) -> FieldType:
    if not text:
        raise TypeTextError("the type is empty", "string")
    if depth > MAX_TYPE_DEPTH:
        raise TypeTextError(f"types are nested more than {MAX_TYPE_DEPTH} deep")
    simple = _SIMPLE.get(text)
    if simple is not None:
        return SimpleType(simple)
    if text.startswith("array<") and text.endswith(">"):
        return ArrayType(_parse(text[6:-1], depth + 1))
    if text.startswith("map<") and text.endswith(">"):
        return _parse_map(text[4:-1], depth)
    if text.startswith("decimal(") and text.endswith(")"):
        return _parse_decimal(text[8:-1])
    raise _unknown(text)


def _parse_map(inside: str, depth: int) -> MapType:
    cut = _comma(inside)
    if cut < 0:
        raise TypeTextError("a map needs two types, one for keys and one for values", "map<string, string>")
    key = _parse(inside[:cut], depth + 1)
    if not isinstance(key, SimpleType | DecimalType) or key == SimpleType(Kind.NULL):
        raise TypeTextError(f"the key of a map must be of a simple type, not {key.text}", "map<string, string>")
    return MapType(key, _parse(inside[cut + 1 :], depth + 1))


def _comma(text: str) -> int:
    """Where the first comma outside of any bracket is, or -1."""
    level = 0
    for index, char in enumerate(text):
        if char in "<(":
            level += 1
        elif char in ">)":
            level -= 1
        elif char == "," and level == 0:
            return index
    return -1


def _parse_decimal(inside: str) -> DecimalType:
    numbers = _PARAMETERS.match(inside)
    if not numbers:
        raise TypeTextError("a decimal needs two numbers, digits in all and digits behind the point", "decimal(10, 2)")
    precision, scale = int(numbers[1]), int(numbers[2])
    if not 1 <= precision <= MAX_PRECISION:
        raise TypeTextError(
            f"a decimal has 1 to {MAX_PRECISION} digits, not {precision}", f"decimal({MAX_PRECISION}, 2)"
        )
    if scale > precision:
        raise TypeTextError(f"a decimal of {precision} digits cannot have {scale} behind the point", "decimal(10, 2)")
    return DecimalType(precision, scale)


def _unknown(text: str) -> TypeTextError:
    shown = text if len(text) <= 40 else text[:40] + "..."
    name = re.split(r"[<(]", text, maxsplit=1)[0]
    if name == "decimal":
        return TypeTextError("a decimal needs two numbers, digits in all and digits behind the point", "decimal(10, 2)")
    if name == "row":
        return TypeTextError("a row is written as a block, not as text", "{ name = string, count = int }")
    if name.endswith("_vector") or name == "vector":
        return TypeTextError(f"{shown} is not supported: there are no vectors")
    if name in ("array", "map"):
        example = "array<string>" if name == "array" else "map<string, string>"
        return TypeTextError(f"{shown} is not complete", example)
    if name in _MEANT:
        return TypeTextError(f"there is no type {shown}", _MEANT[name])
    near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.7)
    return TypeTextError(f"there is no type {shown}", near[0] if near else "")
