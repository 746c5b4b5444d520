"""FilterRowKind: keep rows of some kinds. Every row that a collector sends is an INSERT."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from edgesocket.rows import Rows

INSERT = "INSERT"


class FilterRowKindTransform:
    """Lets every row through, or none, by whether INSERT is among the kinds wanted.

    Guarantees: rows are passed on as they are; one thread.
    """

    def __init__(self, *, include_kinds: Sequence[str] = (), exclude_kinds: Sequence[str] = ()) -> None:
        """Name the kinds to keep or to drop: exactly one of the two lists is not empty."""
        self._passes = INSERT in include_kinds if include_kinds else INSERT not in exclude_kinds

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """The type of the rows stays."""
        return schema

    def apply(self, rows: Rows) -> Rows | None:
        """All of the rows, or None."""
        return rows if self._passes else None

    def close(self) -> None:
        """Nothing is held."""
