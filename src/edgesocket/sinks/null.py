"""The sink that throws rows away and counts them: delivery guarantee none, nothing is kept anywhere.

It answers what everything before the sink costs, so benchmarks use it.
"""

from __future__ import annotations

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.rows import Rows


class NullSink:
    """Counts rows and payload bytes since it was made.

    Attributes:
        rows: rows taken.
        bytes: payload bytes taken, line ends not included; 0 for rows that are not payloads any more.

    Guarantees: no delivery; every call is O(1); one thread.
    """

    commit_role = CommitRole.NONE

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0

    def open(self, context: SinkContext) -> None:
        """Nothing to get ready."""

    def write(self, rows: Rows) -> None:
        """Count the rows."""
        self.rows += rows.count
        self.bytes += 0 if rows.records is None else rows.records.payload_bytes

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  the contract
        """Nothing is held back."""
        return {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Nothing to publish."""

    def close(self) -> None:
        """Nothing to release."""
