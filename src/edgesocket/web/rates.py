"""Rates from counters that are looked at now and then. Pure: time comes in as an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW_S = 4.0
"""A rate is the mean over about this time."""

MIN_STEP_S = 0.5
"""Looks closer together than this count as one."""

STALE_S = 10.0
"""Counters that were last seen so long ago give no rate."""

_MAX_SAMPLES = 16


class RateMeter:
    """Counters of one thing that only grow, until it starts anew and they begin at 0 again."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=_MAX_SAMPLES)

    def add(self, at: float, counters: Mapping[str, float]) -> None:
        """Take counters as of `at`, seconds of a steady clock that does not go back."""
        samples = self._samples
        if samples and any(counters.get(name, 0) < value for name, value in samples[-1][1].items()):
            samples.clear()  # they began anew
        if len(samples) > 1 and at - samples[-2][0] < MIN_STEP_S:
            samples.pop()
        samples.append((at, counters))
        while len(samples) > 2 and at - samples[1][0] >= WINDOW_S:
            samples.popleft()

    def rate(self, name: str, now: float) -> float:
        """By how much a counter grew, per second; 0 while that is not known."""
        samples = self._samples
        if len(samples) < 2 or now - samples[-1][0] > STALE_S:
            return 0.0
        (then, before), (at, after) = samples[0], samples[-1]
        return round((after.get(name, 0) - before.get(name, 0)) / (at - then), 1) if at > then else 0.0
