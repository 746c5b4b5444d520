"""`edgesocket top [JOB...]`: what jobs are doing, in a terminal, once a second: the view of the status page.

Jobs are those that have state here (--state-dir, $EDGESOCKET_STATE, .edgesocket), or those that are named. Running
processes are asked over their HTTP servers; without one, the states alone are read. A terminal is drawn on; where there
is none, or with --once, one picture is printed. NO_COLOR is honoured.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgesocket.cli.asking import Asking, add_token_arguments, token_of
from edgesocket.cli.job_files import JOB_ENDINGS, read_job, state_root
from edgesocket.cli.output import add_format_argument, wants_json
from edgesocket.cli.top_data import Answer, JobsReader
from edgesocket.cli.top_model import COLUMNS, Frame, Look, View, arrange, next_sort
from edgesocket.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from edgesocket.cli.keys import Keys
    from edgesocket.store.place import Place

ASK_TIMEOUT_S = 2.0
KEY_WAIT_S = 0.25
NAMES_EVERY_S = 5.0
"""How often it is looked which jobs there are."""

TWICE_S = 1.1
"""With --once figures are read twice, as rates need two moments, unless processes tell them."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "top",
        help="what jobs are doing, once a second",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Keys: q ends, ? has the others.",
    )
    parser.add_argument("job", nargs="*", metavar="JOB", help="job files or names of jobs (default: all)")
    parser.add_argument("--state-dir", metavar="DIR", help="where states lie: a directory, or s3://BUCKET/PREFIX")
    parser.add_argument(
        "--url", action="append", default=[], metavar="URL", help="ask this process too, such as http://127.0.0.1:8080"
    )
    parser.add_argument("--interval", type=_interval, default=1.0, metavar="S", help="how often to look (default: 1)")
    parser.add_argument("--once", action="store_true", help="print one picture, and end")
    parser.add_argument(
        "--sort", type=_column, default="JOB", metavar="COLUMN", help="order by a column, such as QUEUE"
    )
    parser.add_argument("--filter", default="", metavar="TEXT", help="only jobs with this in name, state or collector")
    parser.add_argument("--seatunnel-yaml", type=Path, metavar="FILE", help="SeaTunnel's engine file")
    parser.add_argument(
        "-i", "--variable", action="append", default=[], metavar="KEY=VALUE", help="a variable for ${KEY} in job files"
    )
    parser.set_defaults(name=None)
    add_token_arguments(parser)
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    token = token_of(args)
    reader = JobsReader(
        _places(args),
        lambda url: Asking(url, token, args.http_ca, timeout_s=ASK_TIMEOUT_S),
        [_bare(u) for u in args.url],
    )
    if wants_json(args):
        print(json.dumps({"jobs": _twice(reader).jobs}, indent=2, ensure_ascii=False))
        return ExitCode.OK
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    reverse = next(column.right for column in COLUMNS if column.name == args.sort)
    view = View(sort=args.sort, reverse=reverse, filter_text=args.filter, details=bool(args.job))
    if args.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print_once(console, reader, view)
        return ExitCode.OK
    Screen(console, reader, replace(view, details=True), args.interval).run()
    return ExitCode.OK


def _print_once(console: Console, reader: JobsReader, view: View) -> None:
    from edgesocket.cli.top_view import draw, draw_job

    answer = _twice(reader)
    shown = arrange(answer.jobs, view)
    look = Look(console.width, 0, ascii_only=_is_ascii(console))
    if view.details:  # jobs were named: each whole
        frame = _frame(answer)
        console.print(draw(frame, replace(view, details=False), look))
        for job in shown:
            console.print(draw_job(job, look))
        return
    console.print(draw(_frame(answer), view, look))


def _twice(reader: JobsReader) -> Answer:
    answer = reader.look()
    if any(job["state"] == "running" and not job["origin"] for job in answer.jobs):
        time.sleep(TWICE_S)
        answer = reader.look()
    return answer


class Screen:
    """Draws again and again, and does what keys say. The only part that needs a terminal."""

    def __init__(self, console: Console, reader: JobsReader, view: View, interval_s: float) -> None:
        self._console = console
        self._reader = reader
        self._interval_s = interval_s
        self._ended = False
        self._answer = Answer([])
        self._clock = ""
        self._log: tuple[str, ...] = ()
        self.view = view

    def run(self) -> None:
        """Until q."""
        from rich.live import Live

        from edgesocket.cli.keys import Keys

        try:
            self._draw_until_ended(Keys, Live)
        except KeyboardInterrupt:
            return

    def _draw_until_ended(self, keys_of: type[Keys], live_of: type[Live]) -> None:
        with keys_of() as keys, live_of(console=self._console, screen=True, auto_refresh=False) as live:
            next_look = 0.0
            while not self._ended:
                now = time.monotonic()
                if now >= next_look and not self.view.paused:
                    self._look()
                    next_look = time.monotonic() + self._interval_s
                live.update(self._picture(), refresh=True)
                key = keys.next(min(self._interval_s, KEY_WAIT_S))
                if key:
                    self.press(key)

    def press(self, key: str) -> None:
        """A key was pressed."""
        view = self.view
        if view.typing:
            self.view = typed(view, key)
        elif key == "q":
            self._ended = True
        elif key in _MOVES:
            names = [str(job["name"]) for job in arrange(self._answer.jobs, view)]
            self.view = replace(view, chosen=moved(names, view.chosen, key))
        elif key in _TOGGLES:
            self.view = _TOGGLES[key](view)
        if key == "l":
            self._read_log()

    def _look(self) -> None:
        self._answer = self._reader.look()
        self._clock = time.strftime("%H:%M:%S")
        names = [str(job["name"]) for job in arrange(self._answer.jobs, self.view)]
        if self.view.chosen not in names and names:
            self.view = replace(self.view, chosen=names[0])
        self._read_log()

    def _read_log(self) -> None:
        from edgesocket.cli.top_view import LOG_LINES

        job = next((job for job in self._answer.jobs if job["name"] == self.view.chosen), None)
        self._log = self._reader.log(job, LOG_LINES) if self.view.log and job is not None else ()

    def _picture(self) -> RenderableType:
        from edgesocket.cli.top_view import draw

        size = self._console.size
        frame = replace(_frame(self._answer), clock=self._clock, log=self._log)
        return draw(frame, self.view, Look(size.width, size.height, ascii_only=_is_ascii(self._console)))


_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "home": -(1 << 31), "end": 1 << 31}
_TOGGLES: dict[str, Callable[[View], View]] = {
    "enter": lambda view: replace(view, details=not view.details),
    "s": next_sort,
    "r": lambda view: replace(view, reverse=not view.reverse),
    "/": lambda view: replace(view, typing=True),
    "p": lambda view: replace(view, paused=not view.paused),
    "l": lambda view: replace(view, log=not view.log),
    "?": lambda view: replace(view, help=not view.help),
    "escape": lambda view: replace(view, help=False, filter_text=""),
}


def moved(names: Sequence[str], chosen: str, key: str) -> str:
    """The job that is chosen after a key."""
    if not names:
        return ""
    at = names.index(chosen) if chosen in names else 0
    return names[min(len(names) - 1, max(0, at + _MOVES[key]))]


def typed(view: View, key: str) -> View:
    """What a key does while the filter is typed."""
    if key == "enter":
        return replace(view, typing=False)
    if key == "escape":
        return replace(view, typing=False, filter_text="")
    if key == "backspace":
        return replace(view, filter_text=view.filter_text[:-1])
    return replace(view, filter_text=view.filter_text + key) if len(key) == 1 else view


# ---- arguments -------------------------------------------------------------------------------------------------------


def _places(args: argparse.Namespace) -> Callable[[], list[tuple[str, Place]]]:
    """The jobs that the arguments name, or all that have state here."""
    root = state_root(args, Path())
    if not args.job:
        return _seldom(lambda: [(name, root.place(name)) for name in root.names()])
    found: list[tuple[str, Place]] = []
    for text in args.job:
        path = Path(text)
        if path.is_file() or path.parent != Path() or path.suffix.lower() in JOB_ENDINGS:
            file = read_job(args, path, lenient=True, several=args.state_dir is not None)
            found.append((file.spec.name, file.state))
        else:
            found.append((text, root.place(text)))
    missing = [name for name, place in found if not place.exists()]
    if missing:
        raise UsageError(
            f"{', '.join(missing)}: no state in {root.text}, so it has not run, or --state-dir is needed; "
            "edgesocket jobs lists those there are"
        )
    return lambda: found


def _seldom(
    places: Callable[[], list[tuple[str, Place]]], now: Callable[[], float] = time.monotonic
) -> Callable[[], list[tuple[str, Place]]]:
    """The same, asked every few seconds: listing a bucket, or a shared directory, is not for every picture."""
    asked: tuple[float, list[tuple[str, Place]]] | None = None

    def known() -> list[tuple[str, Place]]:
        nonlocal asked
        if asked is None or now() - asked[0] >= NAMES_EVERY_S:
            asked = now(), places()
        return asked[1]

    return known


def _frame(answer: Answer) -> Frame:
    return Frame(answer.jobs, socket.gethostname(), time.strftime("%H:%M:%S"), answer.problems)


def _is_ascii(console: Console) -> bool:
    return not (console.encoding or "").lower().startswith("utf") or os.environ.get("TERM") == "dumb"


def _bare(url: str) -> str:
    return url if "://" in url else f"http://{url}"


def _interval(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 3600")
    return value


def _column(text: str) -> str:
    names = [column.name for column in COLUMNS]
    if text.upper() not in names:
        raise argparse.ArgumentTypeError(f"{text!r} is no column; those are {', '.join(names)}")
    return text.upper()
