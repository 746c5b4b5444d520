"""When a failed job may try again. Pure: time comes in as an argument."""

from __future__ import annotations


class RestartBudget:
    """A number of restarts that refills after a healthy time.

    Args:
        times: `job.retry.times`: restarts allowed until the budget refills.
        reset_s: `job.retry.reset.seconds`: with checkpoints completing for this long the budget is full again;
            0 means never, as SeaTunnel has it.
    """

    def __init__(self, times: int, reset_s: float) -> None:
        self._times = times
        self._reset_s = reset_s
        self._used = 0
        self._healthy_since: float | None = None

    @property
    def left(self) -> int:
        """Restarts still allowed."""
        return max(0, self._times - self._used)

    def checkpoint_completed(self, now: float) -> None:
        """A checkpoint completed at `now` (seconds of any steady clock)."""
        if self._healthy_since is None:
            self._healthy_since = now
        elif self._reset_s and now - self._healthy_since >= self._reset_s:
            self._used = 0

    def failed(self) -> bool:
        """The job failed. Returns whether it may start again; if so, one restart is used up."""
        self._healthy_since = None
        if self._used >= self._times:
            return False
        self._used += 1
        return True
