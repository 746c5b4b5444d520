"""The log of `edgesocket run` and `collect`: one line an event, to standard error, as text or as JSON.

Peers can make some events happen as fast as they can connect, so each kind of event has a budget, and each peer a part
of it; what is left out is counted and said. No event ever holds a token, a key or a payload, and a mask takes out what
a library may have put into a message.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from edgesocket.telemetry.event import Level, advice, describe, fields_of, kind_of, sentence

LINES_A_WINDOW = 20
"""Lines of one kind of event within `WINDOW_S`."""

LINES_A_PEER = 10
"""Lines of one kind of event about one peer's host within `WINDOW_S`: one that floods leaves room for the others."""

WINDOW_S = 10.0

MOST_WINDOWS = 1024
"""Peers that are counted at a time; beyond that, the longest known one is forgotten."""

LEFT_OUT = "lines_left_out"
"""The `event` of a JSON line that says how many like the next one were left out."""

FORMATS = ("text", "json")

LEVELS = tuple(str(level) for level in Level)

describe_event = describe
"""An event as a line of text."""


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how a verb logs; `log_options` reads them."""
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="one line an event as text, or a JSON object (text)"
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default=str(Level.INFO),
        help="the least that is logged: debug (every checkpoint), info, warning (look soon) or error (act now) (info)",
    )


def log_options(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_log_arguments` read, as keywords of `LogLines`; the defaults where a verb has no such arguments."""
    return {
        "form": getattr(args, "log_format", "text"),
        "level": Level[getattr(args, "log_level", str(Level.INFO)).upper()],
    }


class LogLines:
    """Writes events as lines. Thread-safe; never raises.

    Args:
        stream: where the lines go.
        clock: seconds of a steady clock, for the budget.
        wall: text of the time of day.
        prefix: stands before each line's text, where several jobs write to one stream.
        form: `text` or `json`.
        level: less than that is not written.
        job: its name, for JSON.
        mask: takes secrets out of a text.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], str] = lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        prefix: str = "",
        *,
        form: str = "text",
        level: Level = Level.INFO,
        job: str = "",
        mask: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._wall = wall
        self._prefix = prefix
        self._as_json = form == "json"
        self._level = level
        self._job = job
        self._mask = mask
        self._lock = threading.Lock()
        self._of_kinds: dict[tuple[type, str], tuple[float, int]] = {}
        self._of_peers: dict[tuple[type, str], tuple[float, int]] = {}

    def __call__(self, event: object) -> None:
        """Report one event."""
        if kind_of(event).level < self._level:
            return
        with self._lock:
            left_out = self._left_out(event)
            if left_out is None:
                return
            if left_out:
                self._write(self._left_out_line(left_out))
            self._write(self._line(event))

    # ---- what a line says ----------------------------------------------------------------------------------------

    def _line(self, event: object) -> str:
        kind = kind_of(event)
        if not self._as_json:
            level = f"{kind.level.name} " if kind.level >= Level.WARNING else ""
            return f"{self._wall()} {level}{self._prefix}{self._mask(describe(event))}"
        shown: dict[str, Any] = {"event": kind.name, "text": self._mask(sentence(event))}
        if what_to_do := advice(event):
            shown["what_to_do"] = self._mask(what_to_do)
        if fields := fields_of(event):
            shown["fields"] = {name: self._plain(value) for name, value in fields.items()}
        return self._json(kind.level, shown)

    def _left_out_line(self, count: int) -> str:
        text = f"({count} more like the next line were left out)"
        if not self._as_json:
            return f"{self._wall()} {self._prefix}{text}"
        return self._json(Level.INFO, {"event": LEFT_OUT, "text": text, "fields": {"lines": count}})

    def _json(self, level: Level, shown: dict[str, Any]) -> str:
        job = {"job": self._job} if self._job else {}
        return json.dumps({"time": self._wall(), "level": str(level), **job, **shown}, ensure_ascii=False)

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._mask(str(value))

    # ---- how many ------------------------------------------------------------------------------------------------

    def _left_out(self, event: object) -> int | None:
        """None: leave this one out. Else how many like it were left out since the window began."""
        left_out = 0
        host = _host_of(event)
        if host:
            of_peer = self._count(self._of_peers, (type(event), host), LINES_A_PEER)
            if of_peer is None:
                return None
            left_out = of_peer
        of_kind = self._count(self._of_kinds, (type(event), ""), LINES_A_WINDOW)
        return None if of_kind is None else of_kind + left_out

    def _count(
        self, windows: dict[tuple[type, str], tuple[float, int]], key: tuple[type, str], budget: int
    ) -> int | None:
        now = self._clock()
        since, seen = windows.get(key, (now, 0))
        if now - since >= WINDOW_S:
            windows[key] = (now, 1)
            return max(0, seen - budget)
        if key not in windows and len(windows) >= MOST_WINDOWS:
            del windows[next(iter(windows))]
        windows[key] = (since, seen + 1)
        return 0 if seen < budget else None

    def _write(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # a log that cannot be written must not stop the job


_PORT = re.compile(r":\d+$")


def _host_of(event: object) -> str:
    """The host of the peer that an event is about; empty where it is about none."""
    peer = getattr(event, "peer", "")
    return _PORT.sub("", peer) if isinstance(peer, str) else ""
