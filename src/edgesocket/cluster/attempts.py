"""How long a job waits before it is started again. Kept in the store, so that no crash forgets it.

A job that ends by something a restart can heal is started again at once the first times, then after 1, 2, 4 ... 60 s.
An hour ago does not count any more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgesocket.checkpoint.effects import Create, List, Read, Remove
from edgesocket.components.state import StateStore

FREE_STARTS = 4
"""Starts within `WINDOW_S` before any wait: the first one, and some for nodes that are lost or replaced."""

WINDOW_S = 600.0
LONGEST_WAIT_S = 60.0
KEPT = 32
_DIGITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a job.

    Attributes:
        time_ms: Unix time in ms.
        host, start: the host process, and the number of its start.
        node, address: the Ray node.
        pid: the process.
        order: number of the order that it carried out.
        http: where the host answers about health, or "".
    """

    time_ms: int
    host: str
    start: int
    node: str
    address: str
    pid: int
    order: int
    http: str = ""


def wait_s(starts_ms: Sequence[int], now_ms: int) -> float:
    """Seconds from now until the next start is allowed.

    Args:
        starts_ms: times of earlier starts, in any order. Clocks of several machines made them, so one that lies ahead
            counts as now.
        now_ms: the time of day.
    """
    recent = sorted(min(time, now_ms) for time in starts_ms if now_ms - time < WINDOW_S * 1000)
    over = len(recent) - FREE_STARTS
    if over < 0:
        return 0.0
    pause_s = min(LONGEST_WAIT_S, 2.0 ** min(over, 10))
    return max(0.0, pause_s - (now_ms - recent[-1]) / 1000)


class Attempts:
    """The starts of one job, the newest `KEPT` of them.

    Args:
        store: of the job's place. Everything raises StoreError when it fails.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def newest(self) -> Attempt | None:
        """The last start, or None. Of two of one host the one of its later process, which replaced the other."""
        found = [attempt for name in self._names()[-2:] if (attempt := self._read(name)) is not None]
        if len(found) == 2 and found[0].host == found[1].host and found[0].order == found[1].order:
            return max(reversed(found), key=lambda attempt: attempt.start)
        return found[-1] if found else None

    def wait_s(self, now_ms: int) -> float:
        """Seconds from now until the next start is allowed."""
        found = [self._read(name) for name in self._names()[-2 * FREE_STARTS - 8 :]]
        return wait_s([one.time_ms for one in found if one is not None], now_ms)

    def note(self, attempt: Attempt) -> None:
        """Say that the job is being started. One of two processes that do so at once leaves no trace."""
        names = self._names()
        number = 1 + (int(names[-1].rpartition("/")[2].removesuffix(".json")) if names else 0)
        self._store.perform(Create(f"attempts/{number:0{_DIGITS}}.json", json.dumps(asdict(attempt)).encode()))
        for old in names[: max(0, len(names) + 1 - KEPT)]:
            self._store.perform(Remove(old))

    def _names(self) -> list[str]:
        names: list[str] = self._store.perform(List("attempts"))
        return [name for name in names if name.rpartition("/")[2].removesuffix(".json").isdecimal()]

    def _read(self, name: str) -> Attempt | None:
        data = self._store.perform(Read(name))
        try:
            content: dict[str, Any] = json.loads(data or b"")
            return Attempt(**content)
        except (ValueError, TypeError):
            return None
