"""Split: cut the text of one column into several columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.errors import ConfigProblem
from edgesocket.rows import Rows
from edgesocket.transforms.columns import (
    for_each_text,
    has_text_form,
    joined_batch,
    joined_schema,
    missing_fields,
    refuse,
    repeated,
    text_form,
)
from edgesocket.transforms.java_regex import Untranslatable, compile_java, is_literal


class SplitTransform:
    """Adds one text column for each part. The last part takes the rest, parts that are missing are null.

    Guarantees: every row stays, and so does the column that is cut; a plain separator is cut by Arrow, a regular
    expression once for each different value; one thread.
    """

    def __init__(self, *, separator: str, split_field: str, output_fields: Sequence[str]) -> None:
        """Say what is cut, where, and into what.

        Args:
            separator: a regular expression of Java's dialect.
            split_field: the column to cut.
            output_fields: names of the parts, at least one.
        """
        self._separator = separator
        self._field = split_field
        self._outputs = tuple(output_fields)
        self._pattern: re.Pattern[str] | None = None
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Find the column and read the separator.

        Raises:
            ConfigError: there is no such field, it has no text form, an output is named twice, or the separator cannot
                be used.
        """
        problems = missing_fields("split_field", [self._field], schema)
        if not problems and not has_text_form(schema.field(self._field).type):
            kind = schema.field(self._field).type
            problems.append(ConfigProblem("split_field", f"{self._field} is {kind}, which has no text to cut"))
        problems += [ConfigProblem("output_fields", f'"{name}" is there twice') for name in repeated(self._outputs)]
        if not is_literal(self._separator):
            try:
                self._pattern = compile_java(self._separator)
            except Untranslatable as error:
                problems.append(ConfigProblem("separator", f"the pattern {error}"))
        refuse(problems)
        self._schema = joined_schema(schema, [pa.field(name, pa.string()) for name in self._outputs])
        return self._schema

    def apply(self, rows: Rows) -> Rows:
        """The rows with the parts."""
        batch = rows.batch
        text = text_form(batch.column(batch.schema.get_field_index(self._field)))
        parts = self._cut(text)
        columns = {name: _part(parts, number) for number, name in enumerate(self._outputs)}
        return rows.with_batch(joined_batch(batch, columns, self._schema))

    def close(self) -> None:
        """Nothing is held."""

    def _cut(self, text: pa.Array) -> pa.ListArray:
        most = len(self._outputs) - 1
        if most == 0:
            offsets = pa.array(range(len(text) + 1), pa.int32())
            return pa.ListArray.from_arrays(offsets, text)
        if self._pattern is None:
            return pc.split_pattern(text, self._separator, max_splits=most)
        pattern = self._pattern
        return for_each_text(text, lambda value: _pieces(value, pattern, most), pa.list_(pa.string()))


def _pieces(text: str, pattern: re.Pattern[str], most: int) -> list[str]:
    """Cut at up to `most` matches. As in Java, an empty match at the very beginning cuts nothing off."""
    pieces: list[str] = []
    start = 0
    for match in pattern.finditer(text):
        if len(pieces) == most:
            break
        if match.end() == 0:
            continue
        pieces.append(text[start : match.start()])
        start = match.end()
    pieces.append(text[start:])
    return pieces


def _part(parts: pa.ListArray, number: int) -> pa.Array:
    """One element of every list, null where the list is shorter or null."""
    cut = pc.list_slice(parts, number, number + 1, return_fixed_size_list=True)
    return cut.flatten() if cut.null_count == 0 else pc.list_element(cut, 0)
