"""FieldMapper: choose, order and rename columns in one step."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from edgesocket.errors import ConfigProblem
from edgesocket.rows import Rows
from edgesocket.transforms.columns import missing_fields, refuse, repeated


class FieldMapperTransform:
    """Makes rows of the mapped columns only, in the order of the map.

    Guarantees: every row stays; no column is copied; one thread.
    """

    def __init__(self, *, field_mapper: Mapping[str, str]) -> None:
        """Take the map: name before -> name after."""
        self._map = dict(field_mapper)
        self._indices: list[int] = []
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Find the columns.

        Raises:
            ConfigError: a name is no field, or two fields would get one name.
        """
        problems = missing_fields("field_mapper", self._map, schema)
        for name in repeated(self._map.values()):
            befores = " and ".join(before for before, after in self._map.items() if after == name)
            problems.append(ConfigProblem("field_mapper", f'{befores} would both be called "{name}"'))
        refuse(problems)
        self._indices = [schema.get_field_index(name) for name in self._map]
        renamed = [schema.field(before).with_name(after) for before, after in self._map.items()]
        self._schema = pa.schema(renamed, metadata=schema.metadata)
        return self._schema

    def apply(self, rows: Rows) -> Rows:
        """The rows with the mapped columns."""
        arrays = [rows.batch.column(index) for index in self._indices]
        return rows.with_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Nothing is held."""
