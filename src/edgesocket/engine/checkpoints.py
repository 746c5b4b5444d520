"""Runs checkpoints beside the pump: when the next one is due, when one took too long, when to give up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from edgesocket.checkpoint.commit_log import KEEP_AGE_MS
from edgesocket.checkpoint.effects import CommitDeciding, Create, Procedure, Wait
from edgesocket.checkpoint.entries import LOG_DIRECTORY
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.procedure import CheckpointEnd, CheckpointPlan, checkpoint
from edgesocket.engine.performing import PerformHere, ProcedureRun
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.sink_group import SinkGroup
from edgesocket.errors import BadRecordError, ComponentError, StoreError
from edgesocket.ingress.sizing import STATE_LIMIT_BYTES
from edgesocket.telemetry.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointsFailed,
    CheckpointsRecovered,
    StateGrewLarge,
    StateShrank,
)


def describe_large(blob_bytes: Mapping[str, int]) -> str:
    """What to do about a state of this size (bytes by kind of blob); empty if it is no larger than it should be."""
    total = sum(blob_bytes.values())
    if total <= STATE_LIMIT_BYTES:
        return ""
    parts = ", ".join(f"{kind} {_megabytes(size)}" for kind, size in blob_bytes.items())
    return (
        f"the state has {_megabytes(total)} ({parts}), and every checkpoint writes it out: more than "
        f"{_megabytes(STATE_LIMIT_BYTES)} makes checkpoints and restarts slow. Lower local_queue_capacity (edgesocket "
        f"size says what fits your payloads) or local_queue_max_bytes, or see why the sinks are behind"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


@dataclass(slots=True)
class CheckpointFigures:
    """What the status tells of checkpoints. Times are seconds of the steady clock that `advance` is given."""

    completed: int = 0
    failed: int = 0
    last_number: int = 0
    last_completed_at: float | None = None
    last_duration_s: float = 0.0
    last_state_bytes: int = 0
    large_state: str = ""
    """What to know of a state that is larger than it should be; empty while it is not."""
    failing_since: float | None = None
    last_failure: str = ""


class CheckpointRunner:
    """One checkpoint at a time, each `interval_s` after the end of the one before.

    Args:
        make: the procedure for checkpoint n; the flag asks for one even if nothing changed.
        here, in_store, executor, wake: see `ProcedureRun`.
        first_number: n of the first checkpoint.
        interval_s, timeout_s: see `JobPlan`.
        give_up_s: checkpoints that fail for this long fail the job.
        report: told of each checkpoint that ended, and of failures once when they begin and when they end.
        completed: told of each checkpoint that completed, with the time.
    """

    def __init__(
        self,
        make: Callable[[int, bool], Procedure[CheckpointEnd]],
        here: PerformHere,
        in_store: PerformHere,
        executor: Executor,
        wake: Callable[[], None],
        *,
        first_number: int,
        interval_s: float,
        timeout_s: float,
        give_up_s: float,
        report: Callable[[object], None],
        completed: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.figures = CheckpointFigures()
        self._make = make
        self._here = here
        self._in_store = in_store
        self._executor = executor
        self._wake = wake
        self._number = first_number
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._give_up_s = give_up_s
        self._report = report
        self._completed = completed
        self._run: ProcedureRun | None = None
        self._started_at = 0.0
        self._due_at: float | None = None
        self._only_forward = False
        self._waits_for = ""
        self._left_behind: Future[Any] | None = None

    @property
    def hangs(self) -> bool:
        """Whether the store thread is still busy with a checkpoint that was given up: it may never come back."""
        return self._busy()

    @property
    def under_way(self) -> bool:
        """Whether a checkpoint is running."""
        return self._run is not None

    def seconds_until_due(self, now: float) -> float:
        """How long the pump may sleep for our sake."""
        if self._run is not None or self._due_at is None:
            return 0.2
        return max(0.0, self._due_at - now)

    def advance(self, now: float) -> bool:
        """Start a checkpoint when one is due, move the running one on. Returns whether one completed just now.

        Raises: what ends the incarnation: FencedError, an error of the deciding sink, a store or sink that failed for
        longer than `give_up_s`.
        """
        if self._due_at is None:
            self._due_at = now + self._interval_s
        if self._run is None:
            if self._busy():
                self._note_failure(self.figures.last_failure, now)
                return False
            if now < self._due_at:
                return False
            self._begin(now, force=False)
        return self._step(now)

    def begin_final(self, now: float) -> bool:
        """Start the last checkpoint, as soon as the running one has ended. Returns whether it was started."""
        if self._run is not None or self._busy():
            return False
        self._begin(now, force=True)
        return True

    def end_early(self, now: float) -> bool:
        """The job has failed: abort the running checkpoint where that is still allowed. Returns whether none runs."""
        if self._run is not None and not self._only_forward:
            self._run.fail(StoreError("the job has failed"), now)
            if self._run.done:
                self._run = None
        return self._run is None

    def _busy(self) -> bool:
        """Whether the store thread still has work of a checkpoint that timed out."""
        if self._left_behind is not None and self._left_behind.done():
            self._left_behind = None
        return self._left_behind is not None

    def _begin(self, now: float, *, force: bool) -> None:
        self._only_forward = False
        self._waits_for = ""
        self._started_at = now
        self._run = ProcedureRun(
            self._make(self._number, force), self._perform, self._in_store, self._executor, self._wake
        )
        self._number += 1

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, CommitDeciding):
            self._only_forward = True
        elif isinstance(effect, Wait):
            self._waits_for = effect.reason
            self._note_failure(effect.reason, self._now)
            return None
        return self._here(effect)

    def _step(self, now: float) -> bool:
        assert self._run is not None
        self._now = now
        run = self._run
        done = run.advance(now)
        if isinstance(run.last_effect, Create) and run.last_effect.name.startswith(f"{LOG_DIRECTORY}/"):
            self._only_forward = True
        if not done and now - self._started_at > self._timeout_s:
            if self._only_forward:
                cause = f": {self._waits_for}" if self._waits_for else ""
                self._note_failure(f"it takes longer than {self._timeout_s:g} s{cause}", now)
            else:
                self._left_behind = run.fail(StoreError(f"checkpoint took longer than {self._timeout_s:g} s"), now)
                done = run.done
        if not done:
            return False
        self._run = None
        self._due_at = now + self._interval_s
        return self._ended(run.result, now)

    def _ended(self, end: CheckpointEnd, now: float) -> bool:
        figures = self.figures
        if not end.completed:
            figures.failed += 1
            self._report(CheckpointAborted(self._number - 1, now - self._started_at, end.reason))
            self._note_failure(end.reason, now)
            if isinstance(end.error, BadRecordError):
                raise end.error
            if isinstance(end.error, ComponentError) and (end.error.reopen or not end.error.retryable):
                raise end.error
            return False
        if figures.failing_since is not None:
            self._report(CheckpointsRecovered(now - figures.failing_since))
            figures.failing_since = None
        figures.completed += 1
        figures.last_number = self._number - 1
        figures.last_completed_at = now
        figures.last_duration_s = now - self._started_at
        if end.written:
            figures.last_state_bytes = end.state_bytes
            self._watch_size(end)
        self._report(
            CheckpointCompleted(figures.last_number, figures.last_duration_s, end.state_bytes if end.written else 0)
        )
        self._completed(now)
        return True

    def _watch_size(self, end: CheckpointEnd) -> None:
        """Say so when the state has become large, fingerprints counted; once until it is small again."""
        figures, was_large = self.figures, self.figures.large_state
        figures.large_state = describe_large(end.blob_bytes)
        if figures.large_state and not was_large:
            self._report(StateGrewLarge(figures.last_number, figures.large_state))
        elif was_large and not figures.large_state:
            self._report(StateShrank(figures.last_number, _megabytes(STATE_LIMIT_BYTES)))

    def _note_failure(self, reason: str, now: float) -> None:
        figures = self.figures
        if figures.failing_since is None:
            figures.failing_since = now
            self._report(CheckpointsFailed(self._number - 1, reason))
        figures.last_failure = reason
        if now - figures.failing_since > self._give_up_s:
            raise ComponentError(f"no checkpoint completed for {now - figures.failing_since:.0f} s: {reason}")


def checkpoint_of(plan: JobPlan, log: Log, sinks: SinkGroup, number: int, *, force: bool) -> Procedure[CheckpointEnd]:
    """The procedure of one checkpoint; `force`: also if nothing changed since the last one."""
    age_ms = KEEP_AGE_MS if plan.apart is None else plan.apart.log_age_ms
    wanted = CheckpointPlan(number, log.epoch, sinks.deciding is not None, plan.checkpoints_kept, force, age_ms)
    return checkpoint(wanted, log)
