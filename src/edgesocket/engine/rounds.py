"""What many jobs of one process do once a second, on few threads.

A thread for each of it costs little by itself; but a hundred jobs would wake two hundred threads a second, and waking
them costs more than what they do. Here one thread goes from one piece of work to the next. A second one
looks on: work that is overdue, because a disk does not answer or there is too much of it, gets a thread of its own. So
nothing waits for anything else for longer than half a second, and each piece is done by one thread at a time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial

from edgesocket.engine.helpers import BEAT_S, HOUSEKEEPING_S

LATE_S = 0.4
"""Work that is overdue for so long is done by a thread of its own."""

SLOT_S = 0.1
"""Work that is due about the same time is done at the same time: waking a thread costs more than what it then does."""

LOOK_S = 0.2
"""How often it is looked for such."""

PUBLISH_S = 2.0
"""How often the status of a job is made where nothing asks for it sooner: with many jobs it is most of what they do."""

STOP_WAIT_S = 1.0
"""How long it is waited for work that is being done when it is stopped."""


class Round:
    """One piece of work that comes again and again; see `Rounds.every`. Its attributes belong to `Rounds`."""

    def __init__(self, rounds: Rounds, period_s: float, work: Callable[[], None]) -> None:
        self._rounds = rounds
        self.period_s = period_s
        self.work = work
        self.entry = 0
        """Which of its places in the queue counts; 0 while it is being done."""
        self.once_more = False
        self.ended = False
        self.idle = threading.Event()
        self.idle.set()

    def soon(self) -> None:
        """Do it now, or once more if it is being done. Waits for nothing."""
        self._rounds.hurry(self)

    def stop(self) -> None:
        """Do it no more, and wait a moment while it is being done."""
        self._rounds.end(self)
        self.idle.wait(STOP_WAIT_S)


class Rounds:
    """One a process, for all its jobs. Its two threads end only with the process.

    Args:
        now: a steady clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._turn = threading.Condition()
        self._queue: list[tuple[float, int, Round]] = []
        self._entries = itertools.count(1)
        self._started = False
        self.helped = 0
        """How often work was overdue, and another thread took it."""

    def every(self, period_s: float, work: Callable[[], None]) -> Round:
        """Do `work` once in `period_s` seconds from now on, never twice at a time. It must not raise."""
        found = Round(self, period_s, work)
        with self._turn:
            self._place(found, self._now() + period_s)
            if not self._started:
                self._started = True
                for target in (self._go_round, self._look_on):
                    threading.Thread(target=target, name="edgesocket-rounds", daemon=True).start()
        return found

    def hurry(self, one: Round) -> None:
        """See Round.soon."""
        with self._turn:
            if one.entry and not one.ended:
                self._place(one, self._now())
            one.once_more = True

    def end(self, one: Round) -> None:
        """It is done no more from here on."""
        with self._turn:
            one.ended = True

    # ---- with the lock held --------------------------------------------------------------------------------------

    def _place(self, one: Round, at: float) -> None:
        if at > self._now() + SLOT_S:  # what is due sooner is not put off
            at = round(at / SLOT_S) * SLOT_S
        one.entry = next(self._entries)
        heapq.heappush(self._queue, (at, one.entry, one))
        if self._queue[0][2] is one:
            self._turn.notify()  # the thread that waits, waits for a later one

    def _take(self, late_s: float) -> Round | None:
        """The first piece that has been due for `late_s`, or None."""
        while self._queue:
            at, entry, one = self._queue[0]
            if one.entry == entry and not one.ended:
                if at + late_s > self._now():
                    return None
                heapq.heappop(self._queue)
                one.entry, one.once_more = 0, False
                one.idle.clear()
                return one
            heapq.heappop(self._queue)  # placed anew since, or ended
        return None

    # ---- the threads ---------------------------------------------------------------------------------------------

    def _go_round(self) -> None:
        while True:
            with self._turn:
                one = self._take(0.0)
                while one is None:
                    self._turn.wait(max(0.0, self._queue[0][0] - self._now()) if self._queue else None)
                    one = self._take(0.0)
            self._do(one)

    def _look_on(self) -> None:
        """Give work that is overdue to threads of its own: the one that goes round is held up, or has too much."""
        pause = threading.Event()
        while True:
            pause.wait(LOOK_S)
            with self._turn:
                overdue = []
                while (one := self._take(LATE_S)) is not None:
                    overdue.append(one)
            for one in overdue:
                self.helped += 1
                threading.Thread(target=self._do, args=(one,), name="edgesocket-rounds", daemon=True).start()

    def _do(self, one: Round) -> None:
        one.work()
        with self._turn:
            one.idle.set()
            if not one.ended:
                self._place(one, self._now() + (0.0 if one.once_more else one.period_s))


class SharedHelpers:
    """`helpers.Helpers` on the threads of `Rounds`. Arguments and methods as there.

    Args:
        rounds: of the process.
        beat, tick, publish, failed, now, beat_s: see `helpers.Helpers`.
    """

    def __init__(
        self,
        rounds: Rounds,
        beat: Callable[[], None],
        tick: Callable[[], None],
        publish: Callable[[], None],
        failed: Callable[[BaseException], None],
        now: Callable[[], float],
        beat_s: float = BEAT_S,
    ) -> None:
        self._rounds = rounds
        self._beat_s = beat_s
        self._beat = beat
        self._tick = tick
        self._publish = publish
        self._failed = failed
        self._now = now
        self._next_tick = self._next_publish = 0.0
        self._soon = False
        self._placed: list[Round] = []

    def start(self) -> None:
        """See Helpers."""
        self._next_tick = self._now() + HOUSEKEEPING_S
        for period_s, work in ((self._beat_s, self._beat), (HOUSEKEEPING_S, self._keep_house)):
            self._placed.append(self._rounds.every(period_s, partial(self._guarded, work)))

    def publish_soon(self) -> None:
        """See Helpers."""
        self._soon = True
        for one in self._placed[1:]:
            one.soon()

    def stop(self) -> None:
        """See Helpers."""
        for one in self._placed:
            one.stop()

    def _keep_house(self) -> None:
        if self._now() >= self._next_tick:
            self._tick()
            self._next_tick = self._now() + HOUSEKEEPING_S
        if self._soon or self._now() >= self._next_publish:
            self._soon = False
            self._next_publish = self._now() + PUBLISH_S - HOUSEKEEPING_S / 2  # not one round later by a hair
            self._publish()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # anything that ends one of them must end the job
            for one in self._placed:
                self._rounds.end(one)
            self._failed(error)
