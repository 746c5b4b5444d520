"""How the agent shows what it does: one line that is drawn again and again on a terminal, else a line now and then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TextIO

from edgesocket.cli.log import LogLines
from edgesocket.collector.agent_status import AgentView

LOG_EVERY_S = 60.0
"""How often the figures are logged where there is no terminal, if they have changed."""

INPUT_PREFIX = "input "
"""Lines about one input begin so."""

_CLEAR = "\r\x1b[K"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class _InputLine(str):
    """A line about one input. The log's budget is one a kind of event: a chatty input does not crowd out the rest."""

    __slots__ = ()


class CollectView:
    """Draws pictures of the agent and log lines on the same terminal. Thread-safe as far as the log is."""

    def __init__(
        self, out: TextIO, log: TextIO, clock: Callable[[], float] = time.monotonic, live: bool | None = None
    ) -> None:
        """Args: where the line is drawn, where the log goes, a steady clock; `live`: draw (default: on a terminal)."""
        self._out = out
        self._clock = clock
        self._live = out.isatty() if live is None else live
        self._shared = self._live and log.isatty()
        self._lines = LogLines(log)
        self._seen = (clock(), 0)
        self._next_log = clock() + LOG_EVERY_S
        self._logged = ""

    def report(self, text: str) -> None:
        """A line for the log."""
        if self._shared:
            self._draw("")
        self._lines(_InputLine(text) if text.startswith(INPUT_PREFIX) else text)

    def tick(self, view: AgentView) -> None:
        """A picture of the moment."""
        now = self._clock()
        if self._live:
            before, records_before = self._seen
            records = sum(one.records for one in view.inputs)
            rate = (records - records_before) / (now - before) if now > before else 0.0
            self._seen = (now, records)
            shown = f"{figures(view)} | {rate:.0f}/s"
            # A narrow terminal cuts the end off: what is wrong comes first.
            self._draw(_fitting(f"{state(view)} | {shown}" if view.problems else f"{shown} | {state(view)}"))
        elif now >= self._next_log:
            self._next_log = now + LOG_EVERY_S
            text = figures(view)
            if text != self._logged:
                self._logged = text
                self._lines(f"{text} | {state(view)}")

    def close(self) -> None:
        """End the line that is drawn."""
        if self._live:
            self._draw("")

    def _draw(self, text: str) -> None:
        try:
            self._out.write(_CLEAR + text)
            self._out.flush()
        except (OSError, ValueError):
            self._live = self._shared = False


def figures(view: AgentView) -> str:
    """What came in, what waits, what is confirmed."""
    records = sum(one.records for one in view.inputs)
    text = f"in {records:,} | spool {view.spool.records:,} ({size(view.spool.bytes)})"
    text += f" | confirmed {view.sender.counts.confirmed:,}"
    dropped = view.spool.dropped_oldest_records + view.spool.dropped_newest_records
    if view.spool.dead_letters:
        text += f" | dead letters {view.spool.dead_letters:,}"
    if dropped:
        text += f" | DROPPED {dropped:,}"
    return text


def state(view: AgentView) -> str:
    """Whether all is well, else the first thing that is not."""
    return view.problems[0] if view.problems else f"delivering to {view.to}"


def size(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if value >= 10 or not unit else f"{value:.1f} {_UNITS[unit]}"


def _fitting(text: str) -> str:
    """As much of it as one line of the terminal holds."""
    try:
        columns = os.get_terminal_size().columns
    except OSError:
        columns = 80
    return text[: columns - 1]
