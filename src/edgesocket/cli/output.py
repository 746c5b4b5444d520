"""What verbs print: for people, or as JSON for programs; and how long work shows that it goes on.

Results go to standard output, in one piece. Everything else (progress, questions of state, errors) goes to standard
error, so that `--format json` on a pipe is always one JSON document, or one a line where a verb says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TextIO

LINE_EVERY_S = 10.0
"""How often work that takes long says so where there is no terminal."""

REDRAW_S = 0.2
"""How often a progress line on a terminal changes."""

QUIET_S = 0.5
"""Work that is done sooner shows no progress."""

_CLEAR_LINE = "\r\x1b[K"


def add_format_argument(
    parser: argparse.ArgumentParser, *, old_flag: bool = False, help_text: str = "json: for programs (default: text)"
) -> None:
    """`--format text|json`. `old_flag`: `--json` means the same, as it did before there was --format."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help=help_text)
    if old_flag:
        parser.add_argument(
            "--json", action="store_const", const="json", dest="format", help="the same as --format json"
        )


def wants_json(args: argparse.Namespace) -> bool:
    """Whether the verb is to print JSON."""
    return getattr(args, "format", "text") == "json"


def show(args: argparse.Namespace, result: Any, text: str | Iterable[str]) -> None:
    """Print the result of a verb.

    Args:
        args: of `add_format_argument`.
        result: what JSON shows.
        text: what people see: a line, or several.
    """
    if wants_json(args):
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        print(text if isinstance(text, str) else "\n".join(text))


class Progress:
    """Shows on standard error that work goes on: a line drawn over and over on a terminal, else one now and then.

    A context manager: at the end the line on a terminal is taken away, so that only the result stays.

    Args:
        stream: where to; standard error by default.
        clock: a steady clock in seconds.
        terminal: whether the stream is one; found out by default.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        terminal: bool | None = None,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._terminal = self._stream.isatty() if terminal is None else terminal
        self._begun = clock()
        self._next = self._begun + (QUIET_S if self._terminal else LINE_EVERY_S)
        self._shown = False

    def __call__(self, text: str) -> None:
        """What is being done now. Cheap; call it as often as you like."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + (REDRAW_S if self._terminal else LINE_EVERY_S)
        try:
            if self._terminal:
                self._stream.write(f"{_CLEAR_LINE}{text} ({now - self._begun:.0f} s)")
            else:
                self._stream.write(f"{text} ({now - self._begun:.0f} s)\n")
            self._stream.flush()
            self._shown = True
        except (OSError, ValueError):
            self._next = float("inf")  # nobody looks

    def close(self) -> None:
        """Take the line away."""
        if self._terminal and self._shown:
            self._shown = False
            try:
                self._stream.write(_CLEAR_LINE)
                self._stream.flush()
            except (OSError, ValueError):
                pass

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
