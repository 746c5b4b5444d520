"""Replace: change a part of the text of one column."""

from __future__ import annotations

from collections.abc import Callable

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
    text_form,
)
from edgesocket.transforms.java_regex import Untranslatable, compile_java, java_replacement


class ReplaceTransform:
    """Replaces in the text form of a column, in its place. The column is text afterwards; nulls stay null.

    Guarantees: every row stays; a plain text is replaced by Arrow, a regular expression once for each different value;
    one thread.
    """

    def __init__(
        self,
        *,
        replace_field: str,
        pattern: str,
        replacement: str,
        is_regex: bool = False,
        replace_first: bool = False,
    ) -> None:
        """Say what is replaced, where, and by what.

        Args:
            replace_field: the column.
            pattern: a text, or a regular expression of Java's dialect.
            replacement: a text; with a regular expression, `$1` is its first group.
            is_regex: whether `pattern` is a regular expression.
            replace_first: only the first match of a regular expression.
        """
        self._field = replace_field
        self._pattern = pattern
        self._replacement = replacement
        self._is_regex = is_regex
        self._most = 1 if replace_first else 0
        self._change: Callable[[str], str] | None = None
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Find the column and read the pattern.

        Raises:
            ConfigError: there is no such field, it has no text form, or the pattern cannot be used.
        """
        problems = missing_fields("replace_field", [self._field], schema)
        if not problems and not has_text_form(schema.field(self._field).type):
            kind = schema.field(self._field).type
            problems.append(ConfigProblem("replace_field", f"{self._field} is {kind}, which has no text to replace in"))
        if self._is_regex:
            try:
                self._change = self._changer()
            except Untranslatable as error:
                problems.append(ConfigProblem("pattern", f"the pattern {error}"))
        refuse(problems)
        field = schema.field(self._field)
        if not pa.types.is_string(field.type):
            field = pa.field(self._field, pa.string())
        self._schema = joined_schema(schema, [field])
        return self._schema

    def apply(self, rows: Rows) -> Rows:
        """The rows with the column changed."""
        batch = rows.batch
        text = text_form(batch.column(batch.schema.get_field_index(self._field)))
        if self._change is None:
            changed = pc.replace_substring(text, self._pattern, self._replacement)
        else:
            changed = for_each_text(text, self._change, pa.string())
        return rows.with_batch(joined_batch(batch, {self._field: changed}, self._schema))

    def close(self) -> None:
        """Nothing is held."""

    def _changer(self) -> Callable[[str], str]:
        pattern = compile_java(self._pattern)
        template = java_replacement(self._replacement, pattern)
        most = self._most
        return lambda value: pattern.sub(template, value, count=most)
