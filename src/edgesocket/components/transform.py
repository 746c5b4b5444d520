"""The contract of a transform.

A transform turns rows of one type into rows of another, between the source and the sinks. It is a function of the
rows: the same rows give the same result after a restart, so it keeps no state and asks no clock. The engine calls,
from one thread::

    bind(schema) -> schema    once, before anything is received
    apply(rows)*
    close()                   once, on every path, also after a `bind` that raised

Guarantees a transform owes: rows keep their order and their batch id; what it drops it drops on purpose (a filter);
rows it was given are never changed, because other branches of the job look at the same rows.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from edgesocket.rows import Rows


class Transform(Protocol):
    """One step between source and sinks. See the module's text for what it owes."""

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Learn the type of the rows to come. Returns the type of the rows it makes of them.

        Raises:
            ConfigError: it does not fit, such as a field that is not there. Names every fault, with paths relative to
                the transform's own block (`replace_field`).
        """

    def apply(self, rows: Rows) -> Rows | None:
        """Transform the rows. None: all were dropped.

        Raises:
            BadRecordError: a row cannot be transformed; names its batch.
        """

    def close(self) -> None:
        """Release what it holds; nothing is called after it."""
