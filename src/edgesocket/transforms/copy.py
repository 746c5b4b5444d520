"""Copy: columns once more under other names."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from edgesocket.rows import Rows
from edgesocket.transforms.columns import joined_batch, joined_schema, missing_fields, refuse


class CopyTransform:
    """Adds copies of columns at the end of the rows. A copy with the name of a column that is there takes its place.

    Guarantees: every row stays; no value is copied, both names show the same memory; one thread.
    """

    def __init__(
        self, *, fields: Mapping[str, str] | None = None, src_field: str | None = None, dest_field: str | None = None
    ) -> None:
        """Take the map (name of the copy -> field), or the older form with one field."""
        self._fields = dict(fields or {})
        self._path = "fields"
        if src_field is not None and dest_field is not None:
            self._fields, self._path = {dest_field: src_field}, "src_field"
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Find the columns.

        Raises:
            ConfigError: a name is no field.
        """
        refuse(missing_fields(self._path, self._fields.values(), schema))
        copies = [schema.field(source).with_name(name) for name, source in self._fields.items()]
        self._schema = joined_schema(schema, copies)
        return self._schema

    def apply(self, rows: Rows) -> Rows:
        """The rows with the copies."""
        batch = rows.batch
        copies = {name: batch.column(batch.schema.get_field_index(source)) for name, source in self._fields.items()}
        return rows.with_batch(joined_batch(batch, copies, self._schema))

    def close(self) -> None:
        """Nothing is held."""
