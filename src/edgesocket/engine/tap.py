"""A look at rows in flight: whoever listens gets samples of what the source gives, without slowing the job.

Nobody listens: the pump reads one flag a block. Somebody does: the pump hands over one block at a time, at most
`SAMPLE_ROWS` of it, and only when the listener has taken the one before. It never waits, never makes a row for a
listener alone but the few of the sample, and holds at most one sample a listener. So these are samples, not all rows.
"""

from __future__ import annotations

import threading
from types import TracebackType

from edgesocket.rows import Rows

SAMPLE_ROWS = 1_000
"""Most rows of one sample."""

MAX_LISTENERS = 8
"""More listeners are refused."""


class TooManyListeners(Exception):  # noqa: N818 - it is an answer, not a failure
    """The tap has as many listeners as it may."""


class Tap:
    """Where listeners are hung up. One a job; `offer` is called by the pump, the rest on any thread.

    Attributes:
        listening: whether anybody listens: what the pump looks at.
    """

    def __init__(self) -> None:
        self.listening = False
        self._lock = threading.Lock()
        self._listeners: tuple[TapListener, ...] = ()

    def offer(self, rows: Rows) -> None:
        """Give a sample of the rows to every listener that waits for one. Waits for nobody."""
        waiting = [one for one in self._listeners if one.is_waiting]
        if waiting:
            sample = rows.part(0, min(rows.count, SAMPLE_ROWS))
            # Made here, on the only thread that makes rows: another thread must not meet one half made.
            sample = Rows.of_batch(sample.batch, sample.first_id, sample.ids)
            for one in waiting:
                one.give(sample)

    def listen(self) -> TapListener:
        """Begin to listen; close the listener at the end. Raises TooManyListeners."""
        with self._lock:
            if len(self._listeners) >= MAX_LISTENERS:
                raise TooManyListeners(f"{MAX_LISTENERS} listeners look at the rows of this job already")
            listener = TapListener(self)
            self._listeners = (*self._listeners, listener)
            self.listening = True
        return listener

    def remove(self, listener: TapListener) -> None:
        """End listening. May be called again."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
            self.listening = bool(self._listeners)


class TapListener:
    """One who listens, on one thread. A context manager that ends listening."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._given = threading.Condition()
        self._sample: Rows | None = None
        self.is_waiting = True

    def give(self, sample: Rows) -> None:
        """For the tap."""
        with self._given:
            self._sample = sample
            self.is_waiting = False
            self._given.notify()

    def take(self, timeout_s: float) -> Rows | None:
        """The next sample; None where none came in time."""
        with self._given:
            if self._sample is None:
                self._given.wait(timeout_s)
            sample, self._sample = self._sample, None
            self.is_waiting = True
        return sample

    def close(self) -> None:
        """End listening."""
        self._tap.remove(self)

    def __enter__(self) -> TapListener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
