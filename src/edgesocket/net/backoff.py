"""Who failed to authenticate has to wait longer each time: the rule, without sockets or clocks.

It goes by address. The first failures cost nothing: they are a typo, or a token being changed. From then on whoever
failed is told so late: twice as late after each further failure, up to a limit. Everybody is heard at once all the
same, and a right token counts at once, whoever else is behind its address, and makes the address a good one again.
Nobody is locked out.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

FREE_FAILURES = 5
"""So many failures in a row of one address cost nothing."""

LEAST_WAIT_S = 0.25
"""The wait after the first one beyond that."""

FORGOTTEN_AFTER_S = 600.0
"""An address without a failure for so long begins anew."""

ADDRESSES = 1024
"""So many addresses are remembered; those that failed longest ago are forgotten first."""

_MOST_DOUBLINGS = 32


@dataclass(slots=True)
class _Record:
    failures: int
    last: float


class Backoff:
    """Remembers failures. Not thread-safe; every call is O(1) amortised.

    Args:
        most_s: the longest wait; 0 switches it off.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def failed(self, address: str, now: float) -> float:
        """Note a failure. Returns for how many seconds the answer has to wait."""
        if not self._most_s:
            return 0.0
        self._forget(now)
        record = self._records.pop(address, None) or _Record(0, now)
        record.failures += 1
        record.last = now
        beyond = record.failures - FREE_FAILURES
        wait_s = min(self._most_s, LEAST_WAIT_S * 2.0 ** min(beyond - 1, _MOST_DOUBLINGS)) if beyond > 0 else 0.0
        self._records[address] = record
        if len(self._records) > ADDRESSES:
            self._records.popitem(last=False)
        return wait_s

    def succeeded(self, address: str) -> None:
        """A right token came from there."""
        self._records.pop(address, None)

    def _forget(self, now: float) -> None:
        while self._records:
            oldest = next(iter(self._records.values()))
            if now - oldest.last < FORGOTTEN_AFTER_S:
                return
            self._records.popitem(last=False)
