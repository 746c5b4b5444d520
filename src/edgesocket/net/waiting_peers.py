"""Who may wait in the lobby, without sockets or clocks.

Everyone gets the same time, so the order of arrival is the order of the deadlines too. When there is no room, the one
that has waited longest has to go: among those of the newcomer's address when that address has its fill, else among
all. So whoever opens connections and stays silent only ever pushes out their own kind, and a collector that speaks at
once is never the oldest for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

P = TypeVar("P")


class WaitingPeers(Generic[P]):
    """Peers in order of arrival, each with an address and a deadline. Every call is O(1) amortised."""

    def __init__(self, capacity: int, capacity_per_address: int, patience_s: float) -> None:
        self._capacity = capacity
        self._capacity_per_address = capacity_per_address
        self._patience_s = patience_s
        self._all: dict[P, tuple[str, float]] = {}
        self._by_address: dict[str, dict[P, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[P]:
        return iter(self._all)

    def add(self, peer: P, address: str, now: float) -> None:
        """Let a peer wait until `now` plus the patience."""
        self._all[peer] = (address, now + self._patience_s)
        self._by_address.setdefault(address, {})[peer] = None

    def remove(self, peer: P) -> None:
        """Forget a peer; one that is not here is no error."""
        address, _ = self._all.pop(peer, ("", 0.0))
        same = self._by_address.get(address)
        if same is not None:
            same.pop(peer, None)
            if not same:
                del self._by_address[address]

    def too_many(self, address: str) -> P | None:
        """Who has to go after one from `address` was added; None when there was room."""
        same = self._by_address.get(address, {})
        if len(same) > self._capacity_per_address:
            return next(iter(same))
        if len(self._all) > self._capacity:
            return next(iter(self._all))
        return None

    def overdue(self, now: float) -> list[P]:
        """Those whose deadline has passed, longest waiting first."""
        late: list[P] = []
        for peer, (_, deadline) in self._all.items():
            if deadline > now:
                break
            late.append(peer)
        return late

    @property
    def next_deadline(self) -> float | None:
        """When the next peer is overdue, or None when nobody waits."""
        for _, deadline in self._all.values():
            return deadline
        return None
