"""`edgesocket run JOB`, with a stop-watch: how long each checkpoint keeps the pump and the receiver from going on.

Usage: `pause_probe.py JOB.conf OUT.json CHECKPOINTS`. Runs the job as the command does. After so many checkpoints that
had something to write it puts its figures into OUT.json; the job goes on until it is told to stop. Timed are

- *pump*: each stretch in which the pump asked for no rows and worked for a checkpoint: its procedure, what the sinks do
  for it, and telling of it. Between two stretches rows flow.
- *receiver*: the cut, for which the receiver has to wait: the time for getting the lock, and holding it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from edgesocket.cli.main import main
from edgesocket.engine.checkpoints import CheckpointRunner
from edgesocket.sources.edge_socket import EdgeSocketSource

WARM_UP = 5
"""So many checkpoints are not counted."""


class Watch:
    """Times the checkpoints of the process."""

    def __init__(self, out: Path, wanted: int) -> None:
        self._out = out
        self._wanted = wanted
        self._stretches: list[float] = []
        self._cut = 0.0
        self._queued = 0
        self._polled_at = 0.0
        self._worked = False
        self._completed: int | None = None
        self.checkpoints: list[dict[str, Any]] = []

    def install(self) -> None:
        """Put the stop-watch around the engine's own calls."""
        advance, cut, poll = CheckpointRunner.advance, EdgeSocketSource.cut, EdgeSocketSource.poll

        def timed_advance(runner: CheckpointRunner, now: float) -> bool:
            was_under_way = runner.under_way
            completed = advance(runner, now)
            self._worked |= was_under_way or runner.under_way or completed
            if completed:
                self._completed = runner.figures.last_state_bytes
            return completed

        def timed_poll(source: EdgeSocketSource, timeout_s: float) -> Any:
            if self._worked:
                self._stretches.append(time.perf_counter() - self._polled_at)
                self._worked = False
            if self._completed is not None:
                self._add(self._completed)
                self._completed = None
            made = poll(source, timeout_s)
            self._polled_at = time.perf_counter()
            return made

        def timed_cut(source: EdgeSocketSource) -> Any:
            self._queued = source.status()["queue"]["records"]
            began = time.perf_counter()
            made = cut(source)
            self._cut = time.perf_counter() - began
            return made

        CheckpointRunner.advance = timed_advance  # type: ignore[method-assign, assignment]
        EdgeSocketSource.poll = timed_poll  # type: ignore[method-assign, assignment]
        EdgeSocketSource.cut = timed_cut  # type: ignore[method-assign, assignment]

    def _add(self, state_bytes: int) -> None:
        self.checkpoints.append(
            {
                "longest_s": max(self._stretches),
                "total_s": sum(self._stretches),
                "cut_s": self._cut,
                "queued": self._queued,
                "state_bytes": state_bytes,
            }
        )
        self._stretches = []
        if len(self.checkpoints) == self._wanted + WARM_UP:
            fresh = self._out.with_suffix(".tmp")
            fresh.write_text(json.dumps(self.checkpoints[WARM_UP:]))
            fresh.replace(self._out)


if __name__ == "__main__":
    job, out, wanted = sys.argv[1:4]
    Watch(Path(out), int(wanted)).install()
    sys.exit(main(["run", job]))
