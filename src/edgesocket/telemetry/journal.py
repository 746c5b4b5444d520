"""The journal of one job: its newest log lines, checkpoints and sessions, and how often each kind of event happened.

It lives as long as the process runs the job, over all of its incarnations. Everything in it is bounded: the lines by
`LOG_LINES` and `LINE_CHARACTERS`, checkpoints and sessions by rings, the counts by the number of kinds. Peers can make
some events happen as fast as they can connect, so lines of one kind have a budget: such a flood leaves the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from edgesocket.telemetry.event import NOTE, Level, describe, kind_of
from edgesocket.telemetry.events import CheckpointAborted, CheckpointCompleted
from edgesocket.telemetry.histogram import Histogram

LOG_LINES = 1000
"""Lines that are kept."""

LINE_CHARACTERS = 8192
"""A longer line is cut; only the trace of a bug is so long."""

LINES_A_WINDOW = 20
"""Lines of one kind of event within `WINDOW_MS`; more are counted, and said when the next one comes."""

WINDOW_MS = 10_000

CHECKPOINTS_KEPT = 64
SESSIONS_KEPT = 32


_LEVEL_NAMES = tuple(str(level) for level in Level)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log.

    Attributes:
        seq: its number, from 1, without gaps.
        time_ms: milliseconds since 1970 in UTC.
        level: `info`, `warning` or `error` (`debug` is not kept).
        text: what happened and what to do; secrets masked.
    """

    seq: int
    time_ms: int
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One checkpoint that ended.

    Attributes:
        number: counts up within a job, over restarts.
        started_ms: milliseconds since 1970 in UTC.
        duration_s: until it completed or was aborted.
        state_bytes: size of the state it wrote; 0 if nothing was new, or it was aborted.
        status: `completed` or `failed`.
        reason: why it failed, else empty.
    """

    number: int
    started_ms: int
    duration_s: float
    state_bytes: int
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One collector's conversation.

    Attributes:
        peer: its `address:port`.
        connected_ms: milliseconds since 1970 in UTC.
        ended_ms: None while it lasts.
        reason: why it ended, else empty.
        received_bytes: what it sent, known when it has ended; 0 while it lasts.
    """

    peer: str
    connected_ms: int
    ended_ms: int | None = None
    reason: str = ""
    received_bytes: int = 0


class Journal:
    """Called with each event; may be called and read from any thread.

    Args:
        lock: held for a moment by every call; a `threading.Lock`, from whoever may import that.
        wall_ms: the time of day, milliseconds since 1970 in UTC.
        mask: takes secrets out of a line (`masking.Mask`).
    """

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        wall_ms: Callable[[], int],
        mask: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._lock = lock
        self._wall_ms = wall_ms
        self._mask = mask
        self._lines: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._windows: dict[str, tuple[int, int]] = {}
        self._seq = 0
        self._checkpoints: deque[CheckpointRecord] = deque(maxlen=CHECKPOINTS_KEPT)
        self._sessions: deque[SessionRecord] = deque(maxlen=SESSIONS_KEPT)
        self._counts: Counter[str] = Counter()
        self._levels: Counter[str] = Counter()
        self._durations = Histogram()

    def __call__(self, event: object) -> None:
        """Take note of an event, or of a plain sentence. Never raises for what an event holds."""
        kind = kind_of(event)
        text = "" if kind.level is Level.DEBUG else self._mask(describe(event))[:LINE_CHARACTERS]
        now_ms = self._wall_ms()
        with self._lock:
            self._counts[kind.name] += 1
            self._levels[str(kind.level)] += 1
            if text and (left_out := self._left_out(kind.name, now_ms)) is not None:
                if left_out:
                    self._add_line(now_ms, Level.INFO, f"({left_out} more like the next line were left out)")
                self._add_line(now_ms, kind.level, text)
            if isinstance(event, CheckpointCompleted | CheckpointAborted):
                self._note_checkpoint(event, now_ms)
            elif kind.name == "collector_connected":
                self._sessions.append(SessionRecord(_text(event, "peer"), now_ms))
            elif kind.name == "collector_disconnected":
                self._end_session(event, now_ms)

    # ---- reading -------------------------------------------------------------------------------------------------

    def lines(self, after: int = 0, limit: int = 500) -> list[LogLine]:
        """The oldest `limit` lines that are kept and newer than number `after`."""
        with self._lock:
            newer = self._seq - after
            start = max(0, len(self._lines) - newer) if newer > 0 else len(self._lines)
            return [self._lines[at] for at in range(start, min(len(self._lines), start + limit))]

    @property
    def last_seq(self) -> int:
        """Number of the newest line, 0 before the first."""
        return self._seq

    @property
    def checkpoints(self) -> list[CheckpointRecord]:
        """The newest checkpoints, oldest first."""
        with self._lock:
            return list(self._checkpoints)

    @property
    def sessions(self) -> list[SessionRecord]:
        """The newest sessions, oldest first."""
        with self._lock:
            return list(self._sessions)

    def counts(self) -> dict[str, int]:
        """How often each kind of event happened, by the name of the kind; what never happened is not there."""
        with self._lock:
            return dict(self._counts)

    def level_counts(self) -> dict[str, int]:
        """How many events there were of each level, by its name; all levels are there."""
        with self._lock:
            return {name: self._levels[name] for name in _LEVEL_NAMES}

    def checkpoint_durations(self) -> dict[str, Any]:
        """How long completed checkpoints took, in seconds (see `Histogram.as_json`)."""
        with self._lock:
            return self._durations.as_json()

    # ---- writing, under the lock ---------------------------------------------------------------------------------

    def _add_line(self, now_ms: int, level: Level, text: str) -> None:
        self._seq += 1
        self._lines.append(LogLine(self._seq, now_ms, str(level), text))

    def _left_out(self, kind: str, now_ms: int) -> int | None:
        """None: there were enough lines of this kind. Else how many were left out in the window that has ended."""
        if kind == NOTE.name:  # no peer makes those
            return 0
        since_ms, seen = self._windows.get(kind, (now_ms, 0))
        if not 0 <= now_ms - since_ms < WINDOW_MS:  # below 0: the time of day was set back
            self._windows[kind] = (now_ms, 1)
            return max(0, seen - LINES_A_WINDOW)
        self._windows[kind] = (since_ms, seen + 1)
        return 0 if seen < LINES_A_WINDOW else None

    def _note_checkpoint(self, event: CheckpointCompleted | CheckpointAborted, now_ms: int) -> None:
        started_ms = now_ms - round(event.duration_s * 1000)
        if isinstance(event, CheckpointCompleted):
            self._durations.observe(event.duration_s)
            record = CheckpointRecord(event.number, started_ms, event.duration_s, event.state_bytes, "completed")
        else:
            reason = self._mask(event.reason)
            record = CheckpointRecord(event.number, started_ms, event.duration_s, 0, "failed", reason)
        self._checkpoints.append(record)

    def _end_session(self, event: object, now_ms: int) -> None:
        peer = _text(event, "peer")
        for at in range(len(self._sessions) - 1, -1, -1):
            session = self._sessions[at]
            if session.peer == peer and session.ended_ms is None:
                received = int(getattr(event, "received_bytes", 0))
                self._sessions[at] = replace(
                    session, ended_ms=now_ms, reason=_text(event, "reason"), received_bytes=received
                )
                return


def _text(event: object, field: str) -> str:
    return str(getattr(event, field, ""))
