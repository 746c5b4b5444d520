"""An owner looks once a second what others appended to the commit log: operators' words, or that it was fenced.

The log is the pump's: a look and a checkpoint never run at the same time. But in an idle job each look wakes two
threads to find nothing. So where the state lies in a directory, the housekeeper glances at the place of the next entry,
which is one system call, and wakes the pump when something is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgesocket.checkpoint.commit_log import refresh
from edgesocket.checkpoint.effects import Read
from edgesocket.checkpoint.entries import Settle, entry_name
from edgesocket.checkpoint.log_view import Log
from edgesocket.components.source import OperatorSettlement, Source
from edgesocket.components.state import StateStore
from edgesocket.engine.performing import ProcedureRun
from edgesocket.errors import DamagedStateError, EdgeSocketError, FencedError
from edgesocket.telemetry.events import CommitLogUnreadable

LOG_WATCH_S = 1.0
"""How often an owner looks whether the commit log has moved on without it."""

QUIET_WATCH_S = 2.0
"""The same while no rows come."""

GLANCED_WATCH_S = 20.0
"""From one look to the next where somebody glances and finds nothing."""

THOROUGH_LOOK_EVERY = 10
"""Every so many looks the directory is listed too; at every look where somebody glances."""


class LogWatch:
    """Looks, one step at a time.

    Args:
        log: of the owner.
        begin: makes the run of a procedure beside the pump.
        source: told of what operators settled.
        report: told of a look that failed.
        glances: whether glances are cheap in this store; then somebody has to `glance` about once a second.

    Attributes:
        period_s: from the end of a look to the next at most.
    """

    def __init__(
        self,
        log: Log,
        begin: Callable[[Any], ProcedureRun],
        source: Source,
        report: Callable[[object], None],
        *,
        glances: bool = False,
    ) -> None:
        self._log = log
        self._begin = begin
        self._source = source
        self._report = report
        self._look: ProcedureRun | None = None
        self._looks = 0
        self._last_look: float | None = None
        self._hurried = False
        self._glances = glances
        self.period_s = GLANCED_WATCH_S if glances else LOG_WATCH_S

    @property
    def under_way(self) -> bool:
        """Whether a look is running."""
        return self._look is not None

    def rows_came(self, came: bool) -> None:
        """Look more often while rows come."""
        if not self._glances:
            self.period_s = LOG_WATCH_S if came else QUIET_WATCH_S

    def glance(self, store: StateStore) -> bool:
        """Whether there is something that no look has told of yet. Then the next `advance` looks: wake the pump.

        Safe on any thread.
        """
        if not self._glances:
            return False
        if not self._log.has_news:  # what a checkpoint met as it appended its record
            try:
                if store.perform(Read(entry_name(self._log.head + 1))) is None:
                    return False
            except DamagedStateError:
                pass  # for the pump to find out
            except EdgeSocketError:
                return False  # the next look says what is wrong
        self._hurried = True
        return True

    def advance(self, now: float, *, may_begin: bool) -> bool:
        """Begin a look that is due, move the running one on. Returns whether one is under way.

        Raises:
            FencedError: another incarnation has taken over.
            DamagedStateError: the next entry cannot be read.
        """
        if self._look is None:
            if not may_begin or not self._is_due(now):
                return False
            self._looks += 1
            self._hurried = False
            thorough = self._glances or self._looks % THOROUGH_LOOK_EVERY == 0
            self._look = self._begin(refresh(self._log, thorough=thorough))
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
        self._last_look = now
        return False

    def _is_due(self, now: float) -> bool:
        return self._hurried or self._last_look is None or now >= self._last_look + self.period_s


def settlement(index: int, entry: Settle) -> OperatorSettlement:
    """An operator's entry of the log as the source takes it."""
    return OperatorSettlement(index, entry.ids, ends_unclean=not entry.ids)
