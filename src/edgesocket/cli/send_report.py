"""What `edgesocket send` says on the error stream: lines, a progress line, and reasons that do not flood."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

_CLEAR_LINE = "\r\x1b[K"


class Reporter:
    """Writes whole lines, and on a terminal one line in between that is written over and over."""

    def __init__(self, stream: TextIO, prefix: str, interval_s: float = 0.5) -> None:
        """Args: where to, what each line begins with, and how often the progress line changes."""
        self._stream = stream
        self._prefix = prefix
        self._interval_s = interval_s
        self._terminal = stream.isatty()
        self._next_show = 0.0
        self._shown = False

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self._stream.write(f"{self._cleared()}{self._prefix}{text}\n")
        self._stream.flush()

    def progress(self, text: Callable[[], str], now: float) -> None:
        """Show where things stand; on a terminal only, and not too often."""
        if self._terminal and now >= self._next_show:
            self._next_show = now + self._interval_s
            self._stream.write(f"{_CLEAR_LINE}{text()}")
            self._stream.flush()
            self._shown = True

    def _cleared(self) -> str:
        shown, self._shown = self._shown, False
        return _CLEAR_LINE if shown else ""


class RareLines:
    """Passes the first few lines on, then one an interval, and says how many it kept."""

    def __init__(
        self,
        write: Callable[[str], object],
        first: int = 5,
        interval_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: who gets the lines, how many pass at once, how often one passes after that, and the time."""
        self._write = write
        self._first = first
        self._interval_s = interval_s
        self._clock = clock
        self._kept = 0
        self._next = 0.0

    def line(self, text: str) -> None:
        """Pass the line on, or keep it."""
        now = self._clock()
        if self._first > 0:
            self._first -= 1
        elif now < self._next:
            self._kept += 1
            return
        self._next = now + self._interval_s
        self.close()
        self._write(text)

    def close(self) -> None:
        """Say how many lines were kept since the last one that passed."""
        if self._kept:
            self._write(f"... and {self._kept} more like that")
            self._kept = 0
