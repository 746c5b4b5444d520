"""`edgesocket spool info|verify|repair|dead-letters DIR`: look after the spool of an edge agent.

`info`, `verify` and `dead-letters` only read, and work while an agent uses the spool. `repair`, `--remove` and
`--resend` change it, and refuse then.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from edgesocket.cli.output import Progress, add_format_argument, show, wants_json
from edgesocket.collector.spool.inspection import SpoolReport, dead_letters, find_damage, look_at, segment_names
from edgesocket.collector.spool.letters import DeadLetter
from edgesocket.collector.spool.repair import repair, resend_dead_letters, take_dead_letters
from edgesocket.errors import ExitCode


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "spool",
        help="look after the spool of an edge agent",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action",
        choices=("info", "verify", "repair", "dead-letters"),
        help="info: what is in it; verify: whether all of it can be read; repair: take damaged parts out; "
        "dead-letters: what was refused for good",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of the spool")
    add_format_argument(parser, old_flag=True)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--remove", action="store_true", help="dead-letters: print and remove them")
    what.add_argument("--resend", action="store_true", help="dead-letters: append them again as new records")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    directory: Path = args.directory
    segment_names(directory)  # says so where there is no spool
    if args.action == "info":
        report = look_at(directory)
        show(args, report.to_json(), _describe(report))
        return ExitCode.OK
    if args.action == "verify":
        return _verify(args, directory)
    if args.action == "repair":
        return _repair(args, directory)
    if args.resend:
        count = resend_dead_letters(directory)
        show(args, {"appended": count}, f"{count} dead letters appended again")
        return ExitCode.OK
    tell = _print_json if wants_json(args) else _print_text
    if args.remove:
        take_dead_letters(directory, tell)
    else:
        for letter in dead_letters(directory):
            tell(letter)
    return ExitCode.OK


def _repair(args: argparse.Namespace, directory: Path) -> int:
    told: list[str] = []
    with Progress() as progress:

        def report(line: str) -> None:
            told.append(line)
            progress(f"repairing {directory}: {line}")
            if not wants_json(args):
                progress.close()
                print(line)

        done = repair(directory, time.time_ns() // 1000, report)
    text = f"{done.segments} segments written anew, {done.lost_records} records lost, {done.torn_bytes} bytes cut"
    counts = {"segments": done.segments, "lost_records": done.lost_records, "torn_bytes": done.torn_bytes}
    show(args, {**counts, "notes": told}, text)
    return ExitCode.OK


def _verify(args: argparse.Namespace, directory: Path) -> int:
    problems: list[str] = []
    for problem in find_damage(directory):
        problems.append(str(problem))
        if not wants_json(args):
            print(problem)
    report = look_at(directory)
    if wants_json(args):
        counts = {"segments": len(report.segments), "bytes": report.bytes}
        show(args, {"readable": not problems, "problems": problems, **counts}, "")
    elif problems:
        print(f"edgesocket spool repair {directory} takes the damaged parts out", file=sys.stderr)
    else:
        print(f"{len(report.segments)} segments, {report.bytes:,} bytes: all of it can be read")
    return ExitCode.BAD_DATA if problems else ExitCode.OK


def _describe(report: SpoolReport) -> str:
    first = next((one.first_id for one in report.segments if one.first_id is not None), None)
    newest = next((one for one in reversed(report.segments) if one.next_id is not None), None)
    ids = "none yet" if first is None else f"from {first}"
    if newest is not None and newest.next_id is not None:
        ids += f", below {newest.next_id}"
    lines = [
        f"spool         {report.directory}",
        f"used by       {report.used_by or 'nobody'}",
        f"segments      {len(report.segments)}, {report.bytes:,} bytes",
        f"records       {report.records:,}",
        f"ids           {ids}",
        f"dead letters  {report.dead_letters:,}",
        f"set aside     {len(report.damaged)} damaged parts, {sum(report.damaged.values()):,} bytes",
    ]
    lines += [f"mark          {ascii(name)[1:-1]} = {ascii(text)[1:-1]}" for name, text in sorted(report.marks.items())]
    return "\n".join(lines)


def _print_json(letter: DeadLetter) -> None:
    print(letter.to_line().decode("utf-8"), end="")


def _print_text(letter: DeadLetter) -> None:
    when = datetime.fromtimestamp(letter.time_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
    payload = letter.payload.decode("utf-8", "backslashreplace")
    print(f"{letter.batch_id}  {when}  {letter.reason}  {payload}")
