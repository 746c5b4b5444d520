"""An owner looks once a second what others appended to the commit log: operators' words, or that it was fenced.

The log is the pump's: a look and a checkpoint never run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgesocket.checkpoint.commit_log import refresh
from edgesocket.checkpoint.entries import Settle
from edgesocket.checkpoint.log_view import Log
from edgesocket.components.source import OperatorSettlement, Source
from edgesocket.engine.performing import ProcedureRun
from edgesocket.errors import DamagedStateError, EdgeSocketError, FencedError
from edgesocket.telemetry.events import CommitLogUnreadable

LOG_WATCH_S = 1.0
"""How often an owner looks whether the commit log has moved on without it."""

QUIET_WATCH_S = 2.0
"""The same while no rows come."""

THOROUGH_LOOK_EVERY = 10
"""Every so many looks the directory is listed too."""


class LogWatch:
    """Looks, one step at a time.

    Args:
        log: of the owner.
        begin: makes the run of a procedure beside the pump.
        source: told of what operators settled.
        report: told of a look that failed.
    """

    def __init__(
        self,
        log: Log,
        begin: Callable[[Any], ProcedureRun],
        source: Source,
        report: Callable[[object], None],
    ) -> None:
        self._log = log
        self._begin = begin
        self._source = source
        self._report = report
        self._look: ProcedureRun | None = None
        self._looks = 0
        self._next_look = 0.0
        self.period_s = LOG_WATCH_S
        """From one look to the next."""

    @property
    def under_way(self) -> bool:
        """Whether a look is running."""
        return self._look is not None

    def advance(self, now: float, *, may_begin: bool) -> bool:
        """Begin a look that is due, move the running one on. Returns whether one is under way.

        Raises:
            FencedError: another incarnation has taken over.
            DamagedStateError: the next entry cannot be read.
        """
        if self._look is None:
            if not may_begin or now < self._next_look:
                return False
            self._looks += 1
            self._look = self._begin(refresh(self._log, thorough=self._looks % THOROUGH_LOOK_EVERY == 0))
        try:
            if not self._look.advance(now):
                return True
            for placed in self._look.result:
                if isinstance(placed.entry, Settle):
                    self._source.settle(settlement(placed.index, placed.entry))
        except (FencedError, DamagedStateError):
            raise
        except EdgeSocketError as error:
            self._report(CommitLogUnreadable(str(error)))
        self._look = None
        self._next_look = now + self.period_s
        return False


def settlement(index: int, entry: Settle) -> OperatorSettlement:
    """An operator's entry of the log as the source takes it."""
    return OperatorSettlement(index, entry.ids, ends_unclean=not entry.ids)
