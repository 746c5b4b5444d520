"""Runs a job: one incarnation after another, as the restart budget allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from edgesocket.components.state import Host, Ownership, StateStore
from edgesocket.engine.incarnation import Incarnation
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.restart import RestartBudget
from edgesocket.errors import (
    ComponentError,
    DamagedStateError,
    EdgeSocketError,
    FencedError,
    StoreError,
)
from edgesocket.telemetry.events import RestartScheduled


class JobRunner:
    """Runs one job until it is stopped or has failed.

    Args:
        plan: the job.
        open_store: opens its state directory; called for each incarnation.
        make_owner: a fresh claim on its ownership.
        host: this host.
        report: told of everything that happens, for the log.
        publish_status: given the status about once a second, and when the state changes.
        now: a steady clock in seconds.

    Attributes:
        restarts: how often the job has been started again.
        last_error: why, the last time; also why it ended, where it failed.
    """

    def __init__(
        self,
        plan: JobPlan,
        open_store: Callable[[], StateStore],
        make_owner: Callable[[], Ownership],
        host: Host,
        report: Callable[[object], None],
        publish_status: Callable[[dict[str, Any]], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._open_store = open_store
        self._make_owner = make_owner
        self._host = host
        self._report = report
        self._publish_status = publish_status
        self._now = now
        self._budget = RestartBudget(plan.retry_times, plan.retry_reset_s)
        self._stopping = threading.Event()
        self._incarnation: Incarnation | None = None
        self._between: str = ""
        """The state while no incarnation runs: restarting, ended, failed or fenced."""
        self.restarts = 0
        self.last_error = ""

    def stop(self) -> None:
        """Ask for a graceful end. Safe on any thread, but not in a signal handler: it takes locks."""
        self._stopping.set()
        incarnation = self._incarnation
        if incarnation is not None:
            incarnation.stop()

    @property
    def fenced(self) -> bool:
        """Whether another process may own the job, so that this one has nothing left to do but end."""
        incarnation = self._incarnation
        return incarnation is not None and incarnation.fenced

    @property
    def standstill_s(self) -> float:
        """For how long the pump has not gone round, as when a call to a sink hangs. Safe on any thread."""
        incarnation = self._incarnation
        return 0.0 if incarnation is None or self._between else incarnation.standstill_s

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON, as of now. Safe on any thread.

        `state` is starting, running, stopping, restarting, ended, failed or fenced.
        """
        incarnation = self._incarnation
        if incarnation is None:
            return self._completed({"job": self._plan.name, "state": "starting"})
        return self._completed(incarnation.status())

    def _completed(self, status: dict[str, Any]) -> dict[str, Any]:
        """The status of an incarnation, and what outlives it."""
        state = self._between or status["state"]
        return {**status, "state": state, "restarts": self.restarts, "last_error": self.last_error}

    def run(self) -> bool:
        """Run until stopped.

        Returns:
            Whether the last checkpoint completed: all that was received is confirmed.

        Raises:
            EdgeSocketError: what ended the job, once no restart is left or none can heal it. `exit_code` fits.
        """
        while True:
            try:
                complete = self._run_once()
                self._between = "ended"
                return complete
            except EdgeSocketError as error:
                self.last_error = str(error)
                if not _may_heal(error) or self._stopping.is_set() or not self._budget.failed():
                    self._between = "fenced" if isinstance(error, FencedError) else "failed"
                    raise
                self._between = "restarting"
                self._report(RestartScheduled(self.last_error, self._plan.retry_interval_s, self._budget.left))
                if (status := self.status()).get("epoch"):  # else the status that is shown is another process's
                    self._publish_status(status)
            if self._stopping.wait(self._plan.retry_interval_s):
                self._between = "ended"
                return False
            self.restarts += 1
            self._between = ""

    def _run_once(self) -> bool:
        store, owner = self._open_store(), self._make_owner()
        incarnation = Incarnation(self._plan, store, owner, self._host, self._report, self._publish, self._now)
        incarnation.on_checkpoint(self._budget.checkpoint_completed)
        self._incarnation = incarnation
        if self._stopping.is_set():
            incarnation.stop()
        return incarnation.run()

    def _publish(self, status: dict[str, Any]) -> None:
        self._publish_status(self._completed(status))


def _may_heal(error: EdgeSocketError) -> bool:
    """Whether starting again from the last checkpoint can help."""
    if isinstance(error, ComponentError):
        return error.retryable
    return isinstance(error, StoreError) and not isinstance(error, FencedError | DamagedStateError)
