"""What is counted of one sink: rows, failures, and how long it takes. Paid once a block or a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgesocket.telemetry.histogram import Histogram


@dataclass(slots=True)
class SinkFigures:
    """Written by one thread at a time; any may read.

    Attributes:
        rows: taken by it.
        failures: calls that failed, `write` and `flush` together.
        write_s: how long each successful `write` of a block took.
        prepare_s: how long it took for each checkpoint to flush and confirm what it had.
    """

    rows: int = 0
    failures: int = 0
    write_s: Histogram = field(default_factory=Histogram)
    prepare_s: Histogram = field(default_factory=Histogram)

    def as_json(self) -> dict[str, Any]:
        """For the status; histograms as `Histogram.as_json` gives them."""
        return {
            "rows": self.rows,
            "failures": self.failures,
            "write_seconds": self.write_s.as_json(),
            "prepare_seconds": self.prepare_s.as_json(),
        }
