"""`edgesocket dead-letters list|show|replay JOB`: the records that a job refused for good, and giving them another try.

The job file says where the dead letters are: files of the sink DeadLetter, or of LocalFile with file_format_type =
json. A position such as 1-4-0:17 names a letter for as long as its file is there.

replay runs a small job of its own, JOB.replay, with its state beside the job's: letters are read with the job's present
schema, go through its transforms and into its sinks; a row that a sink refused goes to that sink alone. Each letter is
replayed once, exactly so where the sinks are; what is refused again stays and is said. It works while the job runs and
while it does not, and after a crash the same command goes on.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgesocket.cli.job_files import JobFile, add_job_arguments, read_job
from edgesocket.cli.log import LogLines
from edgesocket.cli.output import Progress, add_format_argument, show
from edgesocket.errors import ExitCode, UsageError
from edgesocket.telemetry.event import Level, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgesocket.hosting.replay import Replay, ReplayEnd
    from edgesocket.sources.letter_files import Position

DEFAULT_LIMIT = 100
MAX_LIMIT = 100_000
_SHOWN_CHARACTERS = 60
_LOOK_S = 0.2


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "dead-letters",
        help="list, show and replay the records a job refused",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 done, everything replayed; 65 letters were refused again; 66 a letter is not there; "
        "75 interrupted, or another replay of the job runs; 64 and 78 as ever.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the letters there are, oldest first")
    add_job_arguments(listing, short_name=False)
    listing.add_argument("--after", metavar="POSITION", help="only letters behind this one")
    listing.add_argument(
        "-n", "--limit", type=_limit, default=DEFAULT_LIMIT, metavar="N", help="most letters (default: 100)"
    )
    listing.add_argument("--new", action="store_true", help="only letters that were not replayed")
    add_format_argument(listing)
    showing = actions.add_parser("show", help="letters, whole")
    add_job_arguments(showing)
    showing.add_argument("positions", nargs="+", metavar="POSITION", help="such as 1-4-0:17")
    add_format_argument(showing)
    replaying = actions.add_parser("replay", help="give letters to the sinks once more")
    add_job_arguments(replaying)
    replaying.add_argument("positions", nargs="*", metavar="POSITION", help="such as 1-4-0:17")
    replaying.add_argument("--all", action="store_true", help="all that were not replayed yet")
    replaying.add_argument(
        "--drop-sink-state",
        action="append",
        default=[],
        metavar="NAME",
        help="forget what an earlier replay left unpublished in a sink that is not in the job any more",
    )
    add_format_argument(replaying)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    action: Callable[[argparse.Namespace, JobFile], int] = {"list": _list, "show": _show, "replay": _replay}[
        args.action
    ]
    return action(args, _job_file(args))


def _job_file(args: argparse.Namespace) -> JobFile:
    path: Path = args.job
    if not path.is_file():
        raise UsageError(
            f"{path}: there is no such job file. Dead letters are found through the file of their job: it says where "
            "they are, and how they are read"
        )
    return read_job(args, path, lenient=True)


# ---- list and show ---------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, file: JobFile) -> int:
    from edgesocket.hosting.dead_letters import letter_files, page_of_letters
    from edgesocket.hosting.replay import replay_memory

    files = letter_files(file.spec)
    memory = replay_memory(file.state)
    page = page_of_letters(files, memory, _position(args.after), args.limit, only_new=args.new)
    page = {"job": file.spec.name, "directory": str(files.directory), **page}
    show(args, page, _page_lines(page, args.job))
    return ExitCode.OK


def _page_lines(page: dict[str, Any], job: Path) -> list[str]:
    letters = page["letters"]
    if not letters:
        return [f"no dead letters in {page['directory']}"]
    rows = [("POSITION", "TIME", "BATCH", "FROM", "", "REASON", "PAYLOAD")]
    for one in letters:
        mark = "replayed" if one["replayed"] else "refused again" if one["failed_again"] is not None else ""
        reason = one["failed_again"] or one["reason"]
        rows.append(
            (
                one["position"],
                _time(one["time_ms"]),
                str(one["batch_id"] or ""),
                one["stage"],
                mark,
                _short(reason, 2 * _SHOWN_CHARACTERS),
                _short(one["payload"]),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if page["next"] is not None:
        lines.append(f"there are more: edgesocket dead-letters list {job} --after {page['next']}")
    return lines


def _show(args: argparse.Namespace, file: JobFile) -> int:
    from edgesocket.hosting.dead_letters import letter_files
    from edgesocket.hosting.replay import replay_memory

    files, memory = letter_files(file.spec), replay_memory(file.state)
    shown: list[dict[str, Any]] = []
    missing: list[str] = []
    for text in args.positions:
        position = _needed_position(text)
        letter = files.letter(position)
        if letter is None:
            missing.append(text)
            continue
        failed = memory.failed.get(position)
        more = {"replayed": memory.is_done(position), "failed_again": None if failed is None else failed.reason}
        shown.append({**letter.to_json(), **more})
    show(args, {"letters": shown, "missing": missing}, (line for one in shown for line in _letter_lines(one)))
    if missing:
        raise NotThereError(f"no dead letter at {', '.join(missing)} in {files.directory}: list shows those there are")
    return ExitCode.OK


def _letter_lines(one: dict[str, Any]) -> list[str]:
    lines = [
        f"letter {one['position']}",
        f"  batch    {one['batch_id']}",
        f"  refused  {_time(one['time_ms'])} by {one['stage'] or 'unknown'}",
        f"  reason   {one['reason']}",
    ]
    if one["replayed"]:
        lines.append("  replayed")
    if one["failed_again"] is not None:
        lines.append(f"  refused again: {one['failed_again']}")
    note = " (not UTF-8; --format json has it byte for byte)" if "payload_base64" in one else ""
    return [*lines, f"  payload, {one['payload_bytes']:,} bytes{note}:", one["payload"]]


# ---- replay ----------------------------------------------------------------------------------------------------------


def _replay(args: argparse.Namespace, file: JobFile) -> int:
    if args.all == bool(args.positions):
        raise UsageError("say which letters: positions as list shows them, or --all")
    from edgesocket.cli.jobs import make_plan, this_host
    from edgesocket.hosting.replay import Replay

    wanted = None if args.all else frozenset(_needed_position(text) for text in args.positions)
    lines = LogLines(sys.stderr)

    def report(event: object) -> None:
        if kind_of(event).level >= Level.WARNING:
            lines(event)

    plan = make_plan(file.spec, file.state, drop_sink_state=frozenset(args.drop_sink_state))
    one = Replay(file.spec, plan, file.state, this_host(), wanted=wanted, report=report)
    with Progress() as progress, _interruptible(one):
        end = _watched(one, progress)
    show(args, end.to_json(), _end_lines(end, args.job))
    if end.missing:
        return NotThereError.exit_code
    if end.failed:
        return ExitCode.BAD_DATA
    return ExitCode.OK if end.complete else ExitCode.TRY_LATER


def _watched(one: Replay, progress: Progress) -> ReplayEnd:
    """Run a replay on this thread, and show how far it is."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_S):
            replayed, failed = one.progress
            again = f", {failed:,} refused again" if failed else ""
            progress(f"{one.name}: {replayed:,} replayed{again}")

    watcher = threading.Thread(target=watch, name="edgesocket-progress", daemon=True)
    watcher.start()
    try:
        return one.run()
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _interruptible(one: Replay) -> Iterator[None]:
    """SIGINT and SIGTERM end the replay early and in good order; a second one ends the process."""

    def end(_number: int, _frame: object) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_DFL)
        # Not here: it takes locks that this thread may hold.
        threading.Thread(target=one.stop, name="edgesocket-stop", daemon=True).start()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_lines(end: ReplayEnd, job: Path) -> list[str]:
    lines = [f"{end.replayed:,} dead letters replayed by {end.job}"]
    if end.passed_over:
        lines.append(f"{end.passed_over:,} had been replayed before")
    if end.failed:
        lines.append(f"{end.failed:,} were refused again, and stay:")
        lines += [f"  {position}  {reason}" for position, reason in end.failures]
        if end.failed > len(end.failures):
            lines.append(f"  ... and {end.failed - len(end.failures):,} more")
        lines.append(f"to see one whole: edgesocket dead-letters show {job} {end.failures[0][0]}")
    if end.missing:
        shown = ", ".join(str(position) for position in end.missing[:20])
        lines.append(f"not there: {shown}{', ...' if len(end.missing) > 20 else ''}")
    if not end.complete:
        lines.append("it was ended early; the same command goes on")
    return lines


# ---- arguments -------------------------------------------------------------------------------------------------------


class NotThereError(UsageError):
    """A letter is asked for that is not there."""

    exit_code = 66


def _position(text: str | None) -> Position | None:
    return None if text is None else _needed_position(text)


def _needed_position(text: str) -> Position:
    from edgesocket.sources.letter_files import Position

    try:
        return Position.parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= MAX_LIMIT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of letters from 1 to {MAX_LIMIT}")
    return int(text)


def _short(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= most else text[: most - 3] + "..."


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds") if time_ms else ""
