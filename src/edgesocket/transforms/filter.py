"""Filter: keep some columns of the rows, or all but some."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from edgesocket.errors import ConfigProblem
from edgesocket.rows import Rows
from edgesocket.transforms.columns import missing_fields, refuse, repeated


class FilterTransform:
    """Keeps the columns of `include_fields` in the order given there, or drops those of `exclude_fields`.

    Guarantees: every row stays; no column is copied; one thread.
    """

    def __init__(self, *, include_fields: Sequence[str] = (), exclude_fields: Sequence[str] = ()) -> None:
        """Name the columns: exactly one of the two lists is not empty."""
        self._include = tuple(include_fields)
        self._exclude = tuple(exclude_fields)
        self._indices: list[int] = []
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Find the columns.

        Raises:
            ConfigError: a name is no field, is given twice, or no column would stay.
        """
        path = "include_fields" if self._include else "exclude_fields"
        given = self._include or self._exclude
        problems = missing_fields(path, given, schema)
        problems += [ConfigProblem(path, f'"{name}" is in the list twice') for name in repeated(given)]
        kept = self._include or [name for name in schema.names if name not in self._exclude]
        if not kept:
            problems.append(ConfigProblem(path, "no field is left", "leave at least one field"))
        refuse(problems)
        self._indices = [schema.get_field_index(name) for name in kept]
        self._schema = pa.schema([schema.field(index) for index in self._indices], metadata=schema.metadata)
        return self._schema

    def apply(self, rows: Rows) -> Rows:
        """The rows with the columns that stay."""
        arrays = [rows.batch.column(index) for index in self._indices]
        return rows.with_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Nothing is held."""
