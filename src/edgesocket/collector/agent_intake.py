"""The intake thread: from the inputs into the spool, as `intake.contract` says.

Theory. A round discovers, reads, appends, syncs once, and then tells the inputs what is stored. Three things hold it
up, and none of them loses a record or stops discovery:

- the spool is full: nothing is read, so what the inputs have stays where it is (a file, a pipe, a sender's buffer);
- an append fails (the disk is full): what was read is kept and tried again, nothing else is read meanwhile;
- a sync fails: it is tried again, and nobody is told that anything is stored.

So at most one intake an input is in memory, and it has a bound.
"""

from __future__ import annotations

import math
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from edgesocket.collector.agent_wake import Wake
from edgesocket.collector.agent_writer import (
    FULL_ROUND_S,
    READ_BYTES,
    Feed,
    IntakeSpool,
    IntakeWriter,
    WriterOptions,
)
from edgesocket.collector.intake.contract import Intake
from edgesocket.errors import CollectorError
from edgesocket.protocol.ended_lines import payload_bytes

GROUP_BYTES = 2 * 1024 * 1024
GROUP_S = 0.05
"""While inputs have more, a sync comes after so many bytes or so much time."""

PACE_S = 0.02
"""How long files that have more wait for a sender that is behind, after each sync."""

REOPEN_S = 5.0
"""How often an input that cannot be opened is tried again."""

QUIET_S = 2.0
"""Without an end that could be known, an input from which nothing came for so long counts as read."""

MOST_DRAIN_BYTES = 4 * 1024 * 1024
"""At a stop, what a pipe or a socket may hold is read; of a stream without an end no more than that."""

LOOK_S = 1.0
"""How often the inputs' counts are taken down for other threads."""

_LONGEST_WAIT_S = 10.0
_SHORTEST_WAIT_S = 0.001


class IntakeLoop:
    """See the module's text. `run` is the thread; the methods whose text says so may be called by others."""

    def __init__(
        self,
        spool: IntakeSpool,
        feeds: Sequence[Feed],
        *,
        on_durable: Callable[[], object],
        report: Callable[[str], object],
        writing: WriterOptions | None = None,
        pace: Callable[[float], object] | None = None,
        once: bool = False,
        drain_timeout_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Get ready.

        Args:
            spool: where records go.
            feeds: the inputs, not yet open.
            on_durable: called when there are new durable records.
            report: takes a line for the log.
            writing: how the spool is written; None: as by default.
            pace: waits for the sender, at most so many seconds, where that makes delivery cheaper. Only called where
                what was read could as well be read later.
            once: end when all that is there was read.
            drain_timeout_s: how long a stop may take.
            clock: seconds of a steady clock.
        """
        self.feeds = list(feeds)
        self._report = report
        self._pace = pace
        self._next_look = 0.0
        self._once = once
        self.drain_timeout_s = drain_timeout_s
        """How long a stop may take."""
        self._clock = clock
        self._wake = Wake()
        self._posted: deque[Callable[[], object]] = deque()
        self._stopping = False
        self._began = clock()
        self.last_round = self._began
        """When the last round began, for a look from outside whether the thread lives."""
        self.writer = IntakeWriter(spool, writing or WriterOptions(), on_durable=on_durable, report=report, clock=clock)
        """The way into the spool; for a look at how it is."""

    def open(self) -> None:
        """Open all inputs. Before `run`, by any thread.

        Raises:
            CollectorError: one of them cannot; the others are closed again.
        """
        try:
            for feed in self.feeds:
                self._open(feed)
        except CollectorError:
            self._close_inputs()
            raise

    def stop(self) -> None:
        """Ask the thread to drain and end. Any thread."""
        self._stopping = True
        self._wake.set()

    def replace(self, gone: Iterable[Feed], added: Iterable[Feed]) -> None:
        """Ask the thread to close inputs and open others in their place. Any thread."""
        going, coming = list(gone), list(added)
        self._posted.append(lambda: self._replace(going, coming))
        self._wake.set()

    def run(self) -> None:
        """Go round until stopped, or until everything was read where that is wanted. Inputs are closed at the end."""
        try:
            while not self._stopping:
                took = self.round()
                if not took and (self._all_ended() or (self._once and self._all_read())):
                    break
                if not took:
                    self._wait()
        finally:
            self._drain()

    def close(self) -> None:
        """Let go of everything. After the thread has ended, or where it never began."""
        self._close_inputs()
        self._wake.close()

    # --- one round -------------------------------------------------------------------------------

    def round(self) -> bool:
        """One round of the thread. Whether anything was taken."""
        now = self.last_round = self._clock()
        while self._posted:
            self._posted.popleft()()
        for feed in self.feeds:
            if feed.is_open:
                feed.input.discover(now)
            elif now >= feed.next_open:
                self._try_open(feed)
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._look()
        self.writer.tick(now)
        if not self.writer.may_read(now):
            return False
        began, took = now, False
        while self._read_all(self._clock()):
            took = True
            if self.writer.holds or self.writer.appended_bytes >= GROUP_BYTES or self._clock() - began >= GROUP_S:
                break
        self.writer.sync(self._clock())
        if took and self._pace is not None and all(feed.rereadable for feed in self.feeds):
            self._pace(PACE_S)
        return took

    @staticmethod
    def _look_at(feed: Feed) -> None:
        feed.counts = {**feed.input.counts, "records_left_out": feed.left_out}

    def _look(self) -> None:
        for feed in self.feeds:
            self._look_at(feed)

    def _read_all(self, now: float) -> bool:
        """Give every input its turn. Whether one of them had something."""
        took = False
        for feed in self.feeds:
            room = self.writer.room(now)
            if not room or self.writer.holds:
                break
            if not feed.is_open:
                continue
            intake = feed.input.read(min(READ_BYTES, room), now)
            if intake is not None:
                took = True
                feed.taken_at = now
                self.writer.append(feed, intake, now)
        return took

    def _wait(self) -> None:
        now = self._clock()
        times = [feed.input.next_time(now) if feed.is_open else feed.next_open for feed in self.feeds]
        until = min((at for at in times if at is not None), default=math.inf)
        wait_s = min(max(until - now, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)
        poller = select.poll()
        poller.register(self._wake.fileno(), select.POLLIN)
        if self.writer.blocked:  # what makes descriptors readable is not taken now: they would wake at once
            wait_s = FULL_ROUND_S
        else:
            for feed in self.feeds:
                if feed.is_open:
                    for descriptor in feed.input.descriptors():
                        poller.register(descriptor, select.POLLIN)
        if self._once:
            wait_s = min(wait_s, FULL_ROUND_S)
        if self.writer.next_sync is not None:
            wait_s = min(wait_s, max(self.writer.next_sync - now, _SHORTEST_WAIT_S))
        if any(descriptor == self._wake.fileno() for descriptor, _ in poller.poll(math.ceil(wait_s * 1000))):
            self._wake.clear()

    # --- inputs come and go ----------------------------------------------------------------------

    def _open(self, feed: Feed) -> None:
        feed.input.open(self.writer.marks_of(feed.name), self._clock())
        feed.is_open = True

    def _try_open(self, feed: Feed) -> None:
        try:
            self._open(feed)
        except CollectorError as problem:
            if str(problem) != feed.problem:
                feed.problem = str(problem)
                self._report(f"{problem}; trying again every {REOPEN_S:g} s")
            feed.next_open = self._clock() + REOPEN_S
            return
        if feed.problem:
            self._report(f"input {feed.name} works")
            feed.problem = ""

    def _replace(self, gone: Sequence[Feed], added: Sequence[Feed]) -> None:
        """Close inputs, what they had in hand goes to the spool first; then open the new ones."""
        for feed in gone:
            if feed.is_open:
                self._close_feed(feed, self._clock() + self.drain_timeout_s)
            self.writer.let_go(feed)
            self.feeds.remove(feed)
        for feed in added:
            self.feeds.append(feed)
            self._try_open(feed)

    # --- the end ---------------------------------------------------------------------------------

    def _all_ended(self) -> bool:
        """Whether no input will ever bring anything more, and all it brought is durable."""
        if self.writer.pending or not self.feeds:
            return False
        return all(feed.is_open and feed.input.ended for feed in self.feeds)

    def _all_read(self) -> bool:
        """Whether everything that is there now has been read, as far as that can be told."""
        now = self._clock()
        if self.writer.blocked:
            return False
        for feed in self.feeds:
            if feed.input.ended:
                continue
            caught_up = getattr(feed.input, "caught_up", None)
            if caught_up is None or not hasattr(feed.input, "finish"):
                caught_up = now - max(feed.taken_at, self._began) >= QUIET_S
            if not caught_up:
                return False
        return True

    def _drain(self) -> None:
        """Read what cannot be read again, within bounds, and close every input."""
        deadline = self._clock() + self.drain_timeout_s
        for feed in list(self.feeds):
            if feed.is_open:
                self._close_feed(feed, deadline)
        self.writer.settle(deadline)
        self.writer.lose_rest()

    def _close_feed(self, feed: Feed, deadline: float) -> None:
        left = 0 if feed.rereadable else MOST_DRAIN_BYTES
        while left > 0 and self.writer.settle(deadline) and (room := self.writer.room(self._clock())):
            now = self._clock()
            feed.input.discover(now)
            intake = feed.input.read(min(READ_BYTES, room), now)
            if intake is None:
                break
            left -= max(1, payload_bytes(intake.lines))
            self.writer.append(feed, intake, now)
        finish = getattr(feed.input, "finish", None)
        if self._once and not self._stopping and finish is not None:
            self._append_last(feed, finish(self._clock()), deadline)
        self.writer.settle(deadline)
        intake = feed.input.close(self._clock())
        feed.is_open = False
        self._look_at(feed)
        self._append_last(feed, intake, deadline)

    def _append_last(self, feed: Feed, intake: Intake | None, deadline: float) -> None:
        if intake is None:
            return
        if not self.writer.settle(deadline):
            self.writer.lose(feed, intake)
            return
        self.writer.append(feed, intake, self._clock())

    def _close_inputs(self) -> None:
        for feed in self.feeds:
            if feed.is_open:
                feed.input.close(self._clock())
                feed.is_open = False
