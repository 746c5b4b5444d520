"""The two threads beside the pump: the keeper beats and waits for nothing else, the housekeeper looks after the rest.

The housekeeper also writes the status, which may take as long as a disk likes: the pump only says that it is due.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

BEAT_S = 1.0
"""How often an owner shows that it lives."""

HOUSEKEEPING_S = 1.0
"""How often the source looks after itself and the status is published."""


class Helpers:
    """Both threads of one incarnation. What ends one of them ends the job.

    Args:
        beat: shows a sign of life; called once a second.
        tick: lets the source look after itself; called about once a second.
        publish: writes the status; called about once a second, and soon after `publish_soon`.
        failed: told of what ended a thread.
        now: a steady clock in seconds.
    """

    def __init__(
        self,
        beat: Callable[[], None],
        tick: Callable[[], None],
        publish: Callable[[], None],
        failed: Callable[[BaseException], None],
        now: Callable[[], float],
    ) -> None:
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
        while not self._ended.wait(BEAT_S):
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
