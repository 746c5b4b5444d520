"""What the transforms share: finding columns with helpful errors, putting columns into a batch, and text forms."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.errors import ConfigError, ConfigProblem

_TEXT_FORMS = (
    pa.types.is_string,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_null,
)


def unknown_field(path: str, name: str, known: Sequence[str]) -> ConfigProblem:
    """The problem of naming a field that the rows do not have.

    Args:
        path: the option, relative to the transform's block.
        name: what was written.
        known: names of the fields there are.
    """
    exact = {field.casefold(): field for field in known}
    close = difflib.get_close_matches(name.casefold(), exact, 1)
    fix = f"did you mean {exact[close[0]]}?" if close else ""
    return ConfigProblem(path, f'there is no field "{name}"; the fields are {", ".join(known) or "none"}', fix)


def missing_fields(path: str, names: Iterable[str], schema: pa.Schema) -> list[ConfigProblem]:
    """A problem for each of the names that is no field of the rows."""
    return [unknown_field(path, name, schema.names) for name in dict.fromkeys(names) if name not in schema.names]


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, each once, in order."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return [name for name, times in seen.items() if times > 1]


def refuse(problems: Sequence[ConfigProblem]) -> None:
    """Raise ConfigError if there are any problems."""
    if problems:
        raise ConfigError(problems)


def joined_schema(schema: pa.Schema, fields: Iterable[pa.Field]) -> pa.Schema:
    """The schema with these fields: in the place of the field of that name, otherwise at the end."""
    made = {field.name: field for field in schema}
    for field in fields:
        made[field.name] = field
    return pa.schema(list(made.values()), metadata=schema.metadata)


def joined_batch(batch: pa.RecordBatch, columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """The batch with these columns put in or added. `schema`: what `joined_schema` made."""
    names = batch.schema.names
    arrays = [columns[name] if name in columns else batch.column(names.index(name)) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def has_text_form(type_: pa.DataType) -> bool:
    """Whether `text_form` takes a column of this type."""
    return any(fits(type_) for fits in _TEXT_FORMS)


def text_form(column: pa.Array) -> pa.Array:
    """A column as text: numbers and booleans as JSON has them, dates and times in ISO form.

    Args:
        column: of a type that has a text form.
    """
    kind = column.type
    if pa.types.is_string(kind):
        return column
    text = pc.cast(column, pa.string())
    if pa.types.is_floating(kind):
        return pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring(text, " ", "T", max_replacements=1)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        text = pc.replace_substring_regex(text, r"\.0+$", "")
        text = pc.replace_substring_regex(text, r"(\.\d*[1-9])0+$", r"\1")
    return text


def for_each_text(column: pa.Array, change: Callable[[str], object], type_: pa.DataType) -> pa.Array:
    """Apply a function to a text column, once for each different value. Nulls stay null.

    Args:
        column: of strings.
        change: of one value.
        type_: of the results.
    """
    coded = column.dictionary_encode()
    values = pa.array([change(value) for value in coded.dictionary.to_pylist()], type_)
    return values.take(coded.indices)
