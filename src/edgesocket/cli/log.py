"""The log of `edgesocket run`: one line an event, to standard error.

Peers can make some events happen as fast as they can connect, so each kind of event has a budget; what is left out is
counted and said. No event and no message ever holds a token, a key or a payload.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable
from typing import TextIO

LINES_A_WINDOW = 20
"""Lines of one kind of event within `WINDOW_S`."""

WINDOW_S = 10.0

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def describe_event(event: object) -> str:
    """A past-tense event as a line: `collector connected: peer=127.0.0.1:5000`."""
    if not dataclasses.is_dataclass(event):
        return str(event)
    name = _WORDS.sub(" ", type(event).__name__).lower()
    fields = ((field.name, getattr(event, field.name)) for field in dataclasses.fields(event))
    shown = " ".join(f"{key}={value}" for key, value in fields if value not in ("", None))
    return f"{name}: {shown}" if shown else name


class LogLines:
    """Writes events as lines. Thread-safe; never raises.

    Args:
        stream: where the lines go.
        clock: seconds of a steady clock, for the budget.
        wall: text of the time of day.
        prefix: stands before each line's text, where several jobs write to one stream.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], str] = lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        prefix: str = "",
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._wall = wall
        self._prefix = prefix
        self._lock = threading.Lock()
        self._windows: dict[type, tuple[float, int]] = {}

    def __call__(self, event: object) -> None:
        """Report one event."""
        with self._lock:
            left_out = self._count(type(event))
            if left_out is None:
                return
            if left_out:
                self._write(f"({left_out} more like the next line were left out)")
            self._write(describe_event(event))

    def _count(self, kind: type) -> int | None:
        """None: leave this one out. Else how many were left out since the window began."""
        now = self._clock()
        since, seen = self._windows.get(kind, (now, 0))
        if now - since >= WINDOW_S:
            self._windows[kind] = (now, 1)
            return max(0, seen - LINES_A_WINDOW)
        self._windows[kind] = (since, seen + 1)
        return 0 if seen < LINES_A_WINDOW else None

    def _write(self, text: str) -> None:
        try:
            self._stream.write(f"{self._wall()} {self._prefix}{text}\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # a log that cannot be written must not stop the job
