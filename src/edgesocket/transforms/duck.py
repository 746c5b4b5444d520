"""A DuckDB connection that can do nothing but compute: no files, no network, no extensions, bounded memory, one thread.

One thread keeps rows in their order. The settings are locked, so no query can take any of this back. (The compiler
of queries lets none through that would try.)
"""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import PythonUDFType

from edgesocket.transforms.columns import for_each_text
from edgesocket.transforms.sql_functions import soundex

MEMORY_LIMIT = "512MB"
"""The most memory that DuckDB may take. Rows that need more together are computed in parts; one that does is bad."""

INPUT = "edgesocket_input"
"""The name DuckDB knows the rows by."""

_SETTINGS = {
    "threads": "1",
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "true",
}

DuckError = duckdb.Error
DuckFull = duckdb.OutOfMemoryException


class Duck:
    """One locked connection. Not for several threads."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
        self._connection.create_function(
            "edgesocket_soundex", _soundex, ["VARCHAR"], "VARCHAR", type=PythonUDFType.ARROW
        )
        # Comparing is DuckDB's business alone: without this it hands simple conditions to Arrow, which has other rules
        # for NaN.
        self._connection.execute("SET disabled_optimizers = 'filter_pushdown'").fetchall()
        self._connection.execute("SET enable_external_access = false").fetchall()
        self._connection.execute("SET lock_configuration = true").fetchall()

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()

    def parsed(self, query: str) -> dict[str, Any]:
        """DuckDB's own reading of a query: `{"error": .., "statements": [..]}`. Executes nothing of it."""
        rows = self._connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        tree: dict[str, Any] = json.loads(rows[0][0])
        return tree

    def load(self, batch: pa.RecordBatch) -> None:
        """Make a batch the input. It is read where it lies."""
        self._connection.register(INPUT, pa.Table.from_batches([batch]))

    def type_of(self, expression: str) -> str:
        """DuckDB's name for the type of an expression over the input.

        Raises:
            DuckError: it has none, because it does not fit together.
        """
        rows = self._connection.execute(f"DESCRIBE SELECT {expression} AS x FROM {INPUT}").fetchall()  # noqa: S608
        return str(rows[0][1])

    def computed(self, query: str) -> pa.Table:
        """The result of a query over the input.

        Raises:
            DuckError: it fails for one of the rows.
        """
        return self._connection.sql(query).to_arrow_table()


def _soundex(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], pa.string())
    return for_each_text(whole.cast(pa.string()), soundex, pa.string())
