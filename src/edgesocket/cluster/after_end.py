"""What becomes of a job that has ended in its host. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from edgesocket.errors import ComponentError, ExitCode, ListenerError

MOVE_AFTER = 2
"""A worker on which the port is taken is left after so many tries."""

BUGS = 3
"""A job that ends by a bug is started again fewer times than this."""

_HEALS = frozenset({ExitCode.UNAVAILABLE, ExitCode.TRY_LATER})


class Next(enum.Enum):
    """What comes next."""

    STOPPED = enum.auto()
    """Somebody asked it to stop."""
    FAILED = enum.auto()
    """A restart cannot heal it."""
    AGAIN = enum.auto()
    """It is started again here, after a pause that grows."""
    MOVE = enum.auto()
    """Another worker may do better."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: its exit code, and the error that ended it, if one did."""

    code: int
    error: BaseException | None = None


def next_step(outcome: Outcome, failures: int) -> Next:
    """What comes next.

    Args:
        outcome: how the job ended.
        failures: how often it has ended on this host, this time included.
    """
    if outcome.error is None:
        return Next.STOPPED
    if isinstance(outcome.error, ListenerError):
        return Next.MOVE if failures >= MOVE_AFTER else Next.AGAIN
    if isinstance(outcome.error, ComponentError) and not outcome.error.retryable:
        return Next.FAILED
    if outcome.code == ExitCode.BUG:
        return Next.AGAIN if failures < BUGS else Next.FAILED
    return Next.AGAIN if outcome.code in _HEALS else Next.FAILED
