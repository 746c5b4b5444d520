"""The two threads beside the pump: the keeper beats and waits for nothing else, the housekeeper looks after the rest.

The housekeeper also writes the status, which may take as long as a disk likes: the pump only says that it is due.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

BEAT_S = 1.0
"""How often an owner shows that it lives, where its lease is long enough for that."""

BEATS_A_LEASE = 4
"""So often it does in a shorter one."""

_LONG_LEASE_S = 3.0

HOUSEKEEPING_S = 1.0
"""How often the source looks after itself and the status is published."""


def beat_s_of(lease_ms: int) -> float:
    """Seconds between two signs of life of an owner with this lease."""
    lease_s = lease_ms / 1000
    return BEAT_S if lease_s >= _LONG_LEASE_S else lease_s / BEATS_A_LEASE


class Helpers:
    """Both threads of one incarnation. What ends one of them ends the job.

    Args:
        beat: shows a sign of life; called every `beat_s`.
        tick: lets the source look after itself; called about once a second.
        publish: writes the status; called about once a second, and soon after `publish_soon`.
        failed: told of what ended a thread.
        now: a steady clock in seconds.
        beat_s: seconds between two signs of life.
    """

    def __init__(
        self,
        beat: Callable[[], None],
        tick: Callable[[], None],
        publish: Callable[[], None],
        failed: Callable[[BaseException], None],
        now: Callable[[], float],
        beat_s: float = BEAT_S,
    ) -> None:
        self._beat_s = beat_s
        self._beat = beat
        self._tick = tick
        self._publish = publish
        self._failed = failed
        self._now = now
        self._ended = threading.Event()
        self._status_due = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start both."""
        for name, target in (("keeper", self._keep), ("housekeeper", self._keep_house)):
            self._threads.append(threading.Thread(target=target, name=f"edgesocket-{name}", daemon=True))
            self._threads[-1].start()

    def publish_soon(self) -> None:
        """Have the status written now. Waits for nothing."""
        self._status_due.set()

    def stop(self) -> None:
        """End both, and wait for them a moment. May be called again."""
        self._ended.set()
        self._status_due.set()
        for thread in self._threads:
            thread.join(BEAT_S)

    def _keep(self) -> None:
        while not self._ended.wait(self._beat_s):
            try:
                self._beat()
            except BaseException as error:  # anything that ends the keeper must end the job
                self._failed(error)
                return

    def _keep_house(self) -> None:
        next_tick = self._now() + HOUSEKEEPING_S
        while True:
            self._status_due.wait(max(0.0, next_tick - self._now()))
            self._status_due.clear()
            if self._ended.is_set():
                return
            try:
                if self._now() >= next_tick:
                    self._tick()
                    next_tick = self._now() + HOUSEKEEPING_S
                self._publish()
            except BaseException as error:
                self._failed(error)
                return
