"""JsonPath: take values out of a column of JSON, by path, into columns of their own.

Paths are read by the `jsonpath` library after RFC 9535, which has all of what SeaTunnel's library has but functions
behind the path (`.length()`). A value becomes its column's type by the rules of the source's schema, strict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import jsonpath
import msgspec
import numpy as np
import pyarrow as pa

from edgesocket.errors import BadRecordError, ConfigProblem, SchemaMismatchError
from edgesocket.rows import Rows
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.types import RowSchema, SchemaField, TypeTextError, arrow_field, parse_type
from edgesocket.transforms.columns import joined_batch, joined_schema, missing_fields, refuse, repeated

_FIELD_PATH = re.compile(r"\$\s*(?:\.\s*[^\W\d]|\[\s*['\"])")
_REASON_CHARACTERS = 200
_STEP = re.compile(r"""\.([^\W\d]\w*)|\[(0|-?[1-9][0-9]{0,8})\]|\['([^'\\]+)'\]|\["([^"\\]+)"\]""")
_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder(float_hook=Decimal)


class Wrong(Exception):  # noqa: N818 - never leaves the package
    """A value that is not there, or does not fit."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One value to take out.

    Attributes:
        one: the path finds one value or none.
        steps: the way of a plain path, see `plain_steps`.
        way: FAIL, SKIP (null) or SKIP_ROW.
    """

    source: str
    name: str
    path: str
    query: jsonpath.JSONPath
    one: bool
    steps: tuple[str | int, ...] | None
    schema: RowSchema
    decoder: ExactDecoder
    way: str

    def taken(self, document: Any) -> bytes:
        """The JSON text of what the path finds: one value, or the list of all where it may find several.

        Raises:
            Wrong: it finds nothing.
        """
        if self.steps is not None:
            return _encoded(walked(document, self.steps, self.path), self.path)
        try:
            # The library takes a text for a document that is still to be read.
            found = self.query.findall(_encoder.encode(document).decode() if isinstance(document, str) else document)
        except (jsonpath.JSONPathError, RecursionError, TypeError, ValueError) as error:
            raise Wrong(f"{self.path} fails: {error}") from None
        if self.one and not found:
            raise Wrong(f"there is nothing at {self.path}")
        return _encoded(found[0] if self.one else found, self.path)

    def decoded(self, text: bytes) -> msgspec.Struct:
        """The value as the decoder of schemas makes it.

        Raises:
            Wrong: it does not fit the type.
        """
        try:
            return self.decoder.decode(b'{"value":' + text + b"}")
        except SchemaMismatchError as error:
            raise Wrong(f"{self.path} should be {error.expected}, and is {error.value}") from None


class JsonPathTransform:
    """Adds one column for each path. A column that is there already is replaced.

    What happens to a value that is not there, or does not fit its type, is said by `column_error_handle_way`, and for
    columns that say nothing by `row_error_handle_way`. A null makes nulls.

    Guarantees: the source column stays; rows are dropped by SKIP_ROW and SKIP only; each document is read once; one
    thread.
    """

    def __init__(self, *, columns: Sequence[Mapping[str, str | None]], row_error_handle_way: str = "FAIL") -> None:
        """Take the columns: maps of src_field, path, dest_field, dest_type and column_error_handle_way."""
        self._given = tuple(columns)
        self._way = "SKIP_ROW" if row_error_handle_way == "SKIP" else "FAIL"
        self._columns: list[_Column] = []
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Read paths and types, and find the columns.

        Raises:
            ConfigError: a source is no field or cannot hold JSON, a path or type cannot be read, or two columns have
                one name.
        """
        problems: list[ConfigProblem] = []
        self._columns = []
        for number, given in enumerate(self._given, 1):
            path = f"columns[{number}]"
            known = len(problems)
            problems += _source_problems(f"{path}.src_field", str(given["src_field"]), schema)
            column = self._column(given, path, problems)
            if len(problems) == known and column is not None:
                self._columns.append(column)
        for name in repeated(str(given["dest_field"]) for given in self._given):
            problems.append(ConfigProblem("columns", f'two columns are called "{name}"'))
        refuse(problems)
        fields = [arrow_field(column.name, column.schema.fields[0].kind) for column in self._columns]
        self._schema = joined_schema(schema, fields)
        return self._schema

    def apply(self, rows: Rows) -> Rows | None:
        """The rows with the values.

        Raises:
            BadRecordError: a value is not there or does not fit, and its column says FAIL.
        """
        batch = rows.batch
        documents = _Documents(batch)
        dropped = np.zeros(rows.count, dtype=np.bool_)
        failures: dict[int, str] = {}
        columns: dict[str, pa.Array] = {}
        for column in self._columns:
            values: list[msgspec.Struct] = []
            nothing = column.decoder.decode(b'{"value":null}')
            for index, document in enumerate(documents.of(column)):
                try:
                    values.append(nothing if document is None else column.decoded(_checked(document, column)))
                except Wrong as wrong:
                    values.append(nothing)
                    if column.way == "FAIL" and not dropped[index]:
                        failures.setdefault(index, f"{column.name}: {wrong}")
                    dropped[index] |= column.way == "SKIP_ROW"
            columns[column.name] = record_batch(values, column.schema).column(0)
        if failures:
            first = min(failures)
            raise BadRecordError(rows.id_at(first), _shortened(failures[first]))
        made = joined_batch(batch, columns, self._schema)
        if not dropped.any():
            return rows.with_batch(made)
        kept = np.flatnonzero(~dropped)
        return rows.taken(kept, made.take(pa.array(kept)))

    def close(self) -> None:
        """Nothing is held."""

    def _column(self, given: Mapping[str, str | None], path: str, problems: list[ConfigProblem]) -> _Column | None:
        written = str(given["path"])
        query = kind = None
        try:
            query = jsonpath.compile(written)
        except (jsonpath.JSONPathError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            problems.append(ConfigProblem(f"{path}.path", f"it is no JSONPath: {reason}", "$.name"))
        try:
            kind = parse_type(given.get("dest_type") or "string")
        except TypeTextError as error:
            problems.append(ConfigProblem(f"{path}.dest_type", str(error), error.fix))
        if not isinstance(query, jsonpath.JSONPath) or kind is None:
            if query is not None and kind is not None:
                problems.append(ConfigProblem(f"{path}.path", "paths cannot be joined with | or &"))
            return None
        schema = RowSchema((SchemaField("value", kind),))
        return _Column(
            source=str(given["src_field"]),
            name=str(given["dest_field"]),
            path=written,
            query=query,
            one=query.singular_query(),
            steps=plain_steps(written),
            schema=schema,
            decoder=ExactDecoder(schema),
            way=given.get("column_error_handle_way") or self._way,
        )


class _Documents:
    """The documents of a batch, read once for all the paths that look at them."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._read: dict[tuple[str, bool], list[tuple[Any] | Wrong | None]] = {}

    def of(self, column: _Column) -> list[tuple[Any] | Wrong | None]:
        """A document for each row, in a tuple: null is a document too. None for no document, `Wrong` for no JSON."""
        source = self._batch.column(self._batch.schema.get_field_index(column.source))
        by_name = _FIELD_PATH.match(column.path) is not None
        key = (column.source, by_name and pa.types.is_struct(source.type))
        if key not in self._read:
            self._read[key] = list(_documents(source, by_name=by_name))
        return self._read[key]


def _documents(source: pa.Array, *, by_name: bool) -> Iterable[tuple[Any] | Wrong | None]:
    """See `_Documents.of`. A row is the array of its fields, as in SeaTunnel, or an object for a path with a name."""
    read: Callable[[Any], Any] = _read
    if not _is_text(source.type):
        plain = _plain_reader(source.type)

        def read(value: Any) -> Any:
            value = plain(value)
            if isinstance(value, dict) and pa.types.is_struct(source.type) and not by_name:
                value = list(value.values())
            return _read(_encoder.encode(value))

    for value in source.to_pylist():
        try:
            yield None if value is None else (read(value),)
        except Wrong as wrong:
            yield wrong


def _checked(document: tuple[Any] | Wrong, column: _Column) -> bytes:
    if isinstance(document, Wrong):
        raise document
    return column.taken(document[0])


def plain_steps(path: str) -> tuple[str | int, ...] | None:
    """The names and numbers of a path that has nothing else (`$.a[0]['b']`), or None.

    Such a path is walked without the library, which takes ten times as long.
    """
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, number, quoted, double_quoted = found.groups()
        steps.append(int(number) if number is not None else name or quoted or double_quoted or "")
        at = found.end()
    return tuple(steps) if path.startswith("$") else None


def walked(document: Any, steps: tuple[str | int, ...], path: str) -> Any:
    """What lies at the end of plain steps.

    Raises:
        Wrong: there is nothing. `path` is for the message.
    """
    value = document
    for step in steps:
        try:
            fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list)
            value = value[step] if fits else _nothing(path)
        except LookupError:
            _nothing(path)
    return value


def _nothing(path: str) -> NoReturn:
    raise Wrong(f"there is nothing at {path}")


def _encoded(value: Any, path: str) -> bytes:
    try:
        return _encoder.encode(value)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"what is at {path} cannot be written: {error}") from None


def _read(text: str | bytes) -> Any:
    """A JSON text, its fractions exact."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Wrong(f"the source is no JSON: {error}") from None


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _plain_reader(type_: pa.DataType) -> Callable[[Any], Any]:
    """What turns a Python value of an Arrow type into one that JSON has: maps become dicts, at any depth."""
    if pa.types.is_map(type_):
        inner = _plain_reader(type_.item_type)
        return lambda value: None if value is None else {str(key): inner(item) for key, item in value}
    if pa.types.is_list(type_):
        element = _plain_reader(type_.value_type)
        return lambda value: None if value is None else [element(item) for item in value]
    if pa.types.is_struct(type_):
        fields = [(field.name, _plain_reader(field.type)) for field in type_]
        return lambda value: None if value is None else {name: read(value[name]) for name, read in fields}
    return lambda value: value


def _source_problems(path: str, name: str, schema: pa.Schema) -> list[ConfigProblem]:
    problems = missing_fields(path, [name], schema)
    if not problems:
        kind = schema.field(name).type
        fits = (_is_text, pa.types.is_list, pa.types.is_map, pa.types.is_struct)
        if not any(one(kind) for one in fits):
            problems.append(
                ConfigProblem(path, f"{name} is {kind}, which is no JSON", "a text, bytes, array, map or row")
            )
    return problems


def _shortened(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else text[:_REASON_CHARACTERS] + "..."
