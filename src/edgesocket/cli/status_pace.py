"""When the status of a job is written to its place: at once when something happened, seldom while nothing does.

A host may run a hundred jobs that wait for their collectors; a file a second for each would be most of what they cost.
"""

from __future__ import annotations

from typing import Any

QUIET_S = 1.5
"""The longest time without a written status; one that is older than 5 s counts as one of a dead process."""

_BUCKETS = "buckets"
"""Of a histogram: when they change, so does its count."""


class StatusPace:
    """Decides. Not thread-safe: the statuses of one job come one after the other."""

    def __init__(self) -> None:
        self._last: list[object] | None = None
        self._written_at = 0.0

    def due(self, status: dict[str, Any], now: float) -> bool:
        """Whether this status is to be written. `now`: steady seconds."""
        told: list[object] = []
        _collect(status, told)
        if told == self._last and now - self._written_at < QUIET_S:
            return False
        self._last, self._written_at = told, now
        return True


def _collect(value: Any, told: list[object]) -> None:
    """Everything in a status that changes only when something happens: all but fractions, which are ages."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name != _BUCKETS:
                _collect(one, told)
    elif isinstance(value, list | tuple):
        for one in value:
            _collect(one, told)
    elif not isinstance(value, float):
        told.append(value)
