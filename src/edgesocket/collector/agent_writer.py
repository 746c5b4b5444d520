"""The intake thread's way into the spool: appended at once, synced together, told to the inputs when durable.

What cannot be written is held and tried again: one intake, as nothing else is read meanwhile. What is appended and not
yet durable is known by its marks, so that an input that is opened anew goes on behind it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from edgesocket.collector.intake.contract import Input, Intake
from edgesocket.errors import SpoolFullError
from edgesocket.protocol.ended_lines import payload_bytes

READ_BYTES = 256 * 1024
"""What one input gives a round, before the others have their turn."""

LEAST_ROOM_BYTES = READ_BYTES
"""With less room nothing is read: a read may bring as much."""

FULL_ROUND_S = 0.2
"""How often it is looked whether there is room again. Discovery goes round as often."""

MOST_RECORD_BYTES = 32 * 1024 * 1024
"""What a spool takes at most. Inputs bound their records far below; an envelope can make one several times larger."""

TRY_AGAIN_S = 1.0
"""How often a failed write is tried again."""


@dataclass(eq=False, slots=True)
class Feed:
    """One input with what is known of it.

    Attributes:
        input: the input.
        type: what it is, for the metrics.
        rereadable: what it has not given can be read again after a restart, so a stop need not wait for it.
        records, bytes: taken into the spool.
        counts: what the input counts, as of a moment ago; for other threads.
        left_out: records that were too large for the spool.
        problem: why it does not work; "" if it does.
    """

    input: Input
    type: str = ""
    rereadable: bool = False
    records: int = 0
    bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    problem: str = ""
    is_open: bool = False
    next_open: float = 0.0
    taken_at: float = -math.inf
    settings: object = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Of the input."""
        return self.input.name


class IntakeSpool(Protocol):
    """What the intake thread needs of a spool."""

    @property
    def marks(self) -> dict[str, str]:
        """The newest durable marks, when it was opened."""
        ...

    def room_bytes(self) -> int:
        """How much may be appended."""
        ...

    def append(self, lines: Sequence[bytes], marks: dict[str, str]) -> object:
        """Take records and marks as one step. Raises SpoolFullError, OSError; then it is as it was."""
        ...

    def sync(self, now: float) -> object:
        """What was appended is durable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How the spool is written.

    Attributes:
        blocks_when_full: reading stops while there is no room; otherwise the spool drops.
        sync_every_s: sync so often also when nothing is appended, where a policy of the spool asks for it.
        most_record_bytes: a larger record is left out and counted, as it would never find room.
    """

    blocks_when_full: bool = True
    sync_every_s: float | None = None
    most_record_bytes: int = MOST_RECORD_BYTES


class IntakeWriter:
    """See the module's text. Of the intake thread; others may look at the public attributes."""

    def __init__(
        self,
        spool: IntakeSpool,
        options: WriterOptions,
        *,
        on_durable: Callable[[], object],
        report: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        """Args: the spool, how to write it, what is called when records became durable, the log, a steady clock."""
        self._spool = spool
        self._options = options
        self._on_durable = on_durable
        self._report = report
        self._clock = clock
        self._marks = dict(spool.marks)
        self._held: tuple[Feed, Intake] | None = None
        self._appended: list[tuple[Feed, Intake]] = []
        self.appended_bytes = 0
        """Bytes of records that are appended and not yet durable."""
        self._next_try = 0.0
        self._next_sync = 0.0
        self.full_since: float | None = None
        """Since when the spool has had no room."""
        self.failing_since: float | None = None
        """Since when nothing can be written."""
        self.failure = ""
        self.lost_at_stop = 0
        """Records that were read, cannot be read again, and could not be written before the end."""

    @property
    def holds(self) -> bool:
        """Whether something that was read found no way into the spool yet: nothing more may be read."""
        return self._held is not None

    @property
    def pending(self) -> bool:
        """Whether something that was read is not durable."""
        return self._held is not None or bool(self._appended)

    @property
    def blocked(self) -> bool:
        """Whether nothing may be read now."""
        return self.pending or self.full_since is not None

    @property
    def next_sync(self) -> float | None:
        """When `tick` has to sync although nothing is appended; None: it has not."""
        return None if self._options.sync_every_s is None else self._next_sync

    def marks_of(self, name: str) -> dict[str, str]:
        """The marks of one input: how far it is in the spool."""
        marks = dict(self._marks)
        for _, intake in self._appended:
            _take_over(marks, intake.marks)
        beginning = f"{name}/"
        return {key: mark for key, mark in marks.items() if key.startswith(beginning)}

    def let_go(self, feed: Feed) -> None:
        """An input is closed: what is held of it is dropped where it can be read again, as another will do that."""
        if self._held is not None and self._held[0] is feed and feed.rereadable:
            self._held = None

    def tick(self, now: float) -> None:
        """Sync by time, where a policy asks for it."""
        every_s = self._options.sync_every_s
        if every_s is not None and now >= self._next_sync and self.failing_since is None:
            self._next_sync = now + every_s
            self._sync_now(now)

    def may_read(self, now: float) -> bool:
        """Whether there is room. What was held up before is tried again first."""
        if (self._held or self._appended) and self.failing_since is not None and now < self._next_try:
            return False
        if self._held is not None:
            feed, intake = self._held
            self._held = None
            if not self.append(feed, intake, now):
                return False
        if self._appended and not self.sync(now):
            return False
        return self.room(now) > 0

    def room(self, now: float) -> int:
        """How much may be read now; 0: nothing. Says so when that changes."""
        if not self._options.blocks_when_full:
            return READ_BYTES
        room = self._spool.room_bytes()
        if room >= LEAST_ROOM_BYTES:
            if self.full_since is not None:
                self._report(f"the spool has room again after {now - self.full_since:.0f} s: the inputs are read")
                self.full_since = None
            return room
        self._full(now)
        return 0

    def _full(self, now: float) -> None:
        if self.full_since is None:
            self.full_since = now
            self._report("the spool is full: the inputs are not read until records are confirmed")

    def append(self, feed: Feed, intake: Intake, now: float) -> bool:
        """Append an intake, or hold it."""
        try:
            self._spool.append(intake.lines, intake.marks)
        except (SpoolFullError, ValueError, OSError) as problem:
            fitting = self._without_what_never_fits(feed, intake)
            if fitting is not None:
                return self.append(feed, fitting, now)
            if isinstance(problem, ValueError):
                raise
            if isinstance(problem, OSError):
                self._failed(problem, now)
            else:
                self._full(now)
            self._held = (feed, intake)
            return False
        size = payload_bytes(intake.lines)
        self._appended.append((feed, intake))
        self.appended_bytes += size
        feed.records += len(intake.lines)
        feed.bytes += size
        return True

    def _without_what_never_fits(self, feed: Feed, intake: Intake) -> Intake | None:
        """The intake without records that no append would ever take; None: there are none."""
        most = self._options.most_record_bytes
        lines = [line for line in intake.lines if len(line) <= most and b"\n" not in line]
        left_out = len(intake.lines) - len(lines)
        if not left_out:
            return None
        feed.left_out += left_out
        self._report(f"input {feed.name}: {left_out} records larger than {most} bytes were left out")
        return replace(intake, lines=lines)

    def sync(self, now: float) -> bool:
        """Make what was appended durable, and say so to whoever waits for it."""
        if not self._appended:
            return True
        if not self._sync_now(now):
            return False
        stored, self._appended, self.appended_bytes = self._appended, [], 0
        now = self._clock()
        for feed, intake in stored:
            _take_over(self._marks, intake.marks)
            feed.input.stored(intake, now)
        self._on_durable()
        return True

    def _sync_now(self, now: float) -> bool:
        try:
            self._spool.sync(now)
        except OSError as problem:
            self._failed(problem, now)
            return False
        if self.failing_since is not None and self._held is None:
            self._report(f"the spool can be written again after {now - self.failing_since:.0f} s")
            self.failing_since, self.failure = None, ""
        return True

    def _failed(self, problem: OSError, now: float) -> None:
        text = problem.strerror or str(problem)
        if self.failing_since is None:
            self.failing_since = now
        if text != self.failure:
            self.failure = text
            self._report(f"the spool cannot be written ({text}): trying again every {TRY_AGAIN_S:g} s")
        self._next_try = now + TRY_AGAIN_S

    def settle(self, deadline: float) -> bool:
        """Write what is held up, trying until the deadline. Whether all is durable."""
        while True:
            now = self._clock()
            done = True
            if self._held is not None:
                feed, intake = self._held
                self._held = None
                done = self.append(feed, intake, now)
            if done and self.sync(now):
                return True
            if now >= deadline:
                return False
            time.sleep(min(FULL_ROUND_S, max(0.0, deadline - now)))

    def lose(self, feed: Feed, intake: Intake) -> None:
        if not feed.rereadable and intake.lines:
            self.lost_at_stop += len(intake.lines)
            self._report(f"input {feed.name}: {len(intake.lines)} records were read and could not be written: lost")

    def lose_rest(self) -> None:
        """The end has come: what is not written by now is lost, unless it can be read again."""
        if self._held is not None:
            self.lose(*self._held)
        for feed, intake in self._appended:
            self.lose(feed, intake)


def _take_over(marks: dict[str, str], news: Mapping[str, str]) -> None:
    for name, mark in news.items():
        if mark:
            marks[name] = mark
        else:
            marks.pop(name, None)
