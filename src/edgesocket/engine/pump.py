"""The pump: one thread that moves rows from the source to the sinks, and steps checkpoints and looks at the log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from edgesocket.components.source import Source
from edgesocket.engine.checkpoints import CheckpointRunner
from edgesocket.engine.log_watch import LogWatch
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.sink_group import SinkGroup
from edgesocket.engine.standing import Standing
from edgesocket.errors import EdgeSocketError
from edgesocket.telemetry.events import LastStepFailed

DECIDING_LOOK_S = 0.001
"""How often the pump looks whether a checkpoint that a sink decides has ended."""

END_LOOK_S = 2.0
"""Most time that a look at the log or a checkpoint may take once the job has failed."""


class Pump:
    """Moves rows. Everything is called on one thread.

    Args:
        plan: the job.
        source, sinks: opened.
        checkpoints, watch: stepped between rows.
        standing: whether it may go on.
        now: a steady clock in seconds.

    Attributes:
        rows: how many rows the source has given.
        turned_at: when it last went round, seconds of the clock, or is to wake at the latest; a call to a sink that
            hangs holds it up.
    """

    def __init__(
        self,
        plan: JobPlan,
        source: Source,
        sinks: SinkGroup,
        checkpoints: CheckpointRunner,
        watch: LogWatch,
        standing: Standing,
        now: Callable[[], float],
    ) -> None:
        self.rows = 0
        self.turned_at = now()
        self._plan = plan
        self._source = source
        self._sinks = sinks
        self._checkpoints = checkpoints
        self._watch = watch
        self._standing = standing
        self._now = now
        self._next_flush: float | None = None
        self._stop_by: float | None = None

    def run(self) -> None:
        """Pump until the job is to stop. Raises what ends the incarnation."""
        checkpoints = self._checkpoints
        while not self._standing.stop_requested:
            self._standing.raise_failure()
            now = self._now()
            if not self._looking_at_log(now):
                checkpoints.advance(now)
            until_flush = self._flush_if_due(self._now())
            pause_s = min(self._watch.period_s, checkpoints.seconds_until_due(self._now()), until_flush)
            self._watch.rows_came(self.move(pause_s) > 0)

    def move(self, timeout_s: float) -> int:
        """Move what is queued to the sinks. Returns how many records, or 1 while none may be moved."""
        self.turned_at = self._now()
        if self._checkpoints.under_way and self._sinks.deciding is not None:
            # Its transaction is open until the checkpoint is decided: more rows would go into it.
            time.sleep(DECIDING_LOOK_S)
            return 1
        moved, tap = 0, self._plan.tap
        self.turned_at += timeout_s
        polled = self._source.poll(timeout_s)
        self.turned_at = self._now()
        for rows in polled:
            if tap.listening:
                tap.offer(rows)
            self._sinks.write(rows, self._while_a_sink_fails)
            moved += rows.count
            del rows  # or it would stay in memory while the source makes the next one
        self._sinks.write_letters(self._while_a_sink_fails)
        self.rows += moved
        return moved

    def limit_stop(self) -> float:
        """Begin to count the time that a graceful end may take. Returns when it is over, seconds of the clock."""
        self._stop_by = self._stop_by or self._now() + self._plan.checkpoint_timeout_s
        return self._stop_by

    def drain_and_checkpoint(self, deadline: float) -> bool:
        """Write out what is queued and take the last checkpoint. Returns whether it completed."""
        checkpoints = self._checkpoints
        drained = final = False
        while self._now() < deadline:
            self._standing.raise_failure()
            now = self._now()
            if drained and not final and not self._watch.under_way:
                final = checkpoints.begin_final(now)
            if self._watch.under_way:
                self._looking_at_log(now)
            elif checkpoints.under_way and checkpoints.advance(now) and final:
                return True
            if final and not checkpoints.under_way:
                return False
            drained = not self.move(0.0 if not drained else 0.05) or drained
        return False

    def end_what_runs(self, report: Callable[[object], None]) -> None:
        """Let a look at the log, or a checkpoint, come to its end: an entry cannot be appended in the middle of one.

        A checkpoint was cut before what has failed now, so it may complete. One that takes too long is aborted.
        """
        checkpoints = self._checkpoints
        deadline = self._now() + END_LOOK_S
        try:
            while (self._watch.under_way or checkpoints.under_way) and self._now() < deadline:
                if self._watch.under_way:
                    self._looking_at_log(self._now())
                else:
                    checkpoints.advance(self._now())
                time.sleep(DECIDING_LOOK_S)
        except EdgeSocketError as error:
            report(LastStepFailed(str(error)))
        checkpoints.end_early(self._now())

    def _looking_at_log(self, now: float) -> bool:
        return self._watch.advance(now, may_begin=not self._checkpoints.under_way)

    def _flush_if_due(self, now: float) -> float:
        """Let sinks send what they hold back when it is time. Returns the seconds until the next time."""
        interval_s = self._plan.flush_interval_s
        if not interval_s:
            return math.inf
        if self._next_flush is None or now >= self._next_flush:
            if self._next_flush is not None:
                self._sinks.flush()
                self._sinks.write_letters(self._while_a_sink_fails)
            self._next_flush = self._now() + interval_s
        return max(0.0, self._next_flush - now)

    def _while_a_sink_fails(self) -> bool:
        """What goes on although the pump holds rows that a sink does not take. Returns whether it may go on trying.

        No checkpoint may begin: those rows are neither queued nor in the sink.
        """
        self._standing.raise_failure()
        now = self.turned_at = self._now()
        if self._checkpoints.under_way:
            self._checkpoints.advance(now)
        else:
            self._looking_at_log(now)
        return not self._standing.stop_requested or now < self.limit_stop()
