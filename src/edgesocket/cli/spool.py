"""`edgesocket spool info|verify|repair|dead-letters DIR`: look after the spool of an edge agent.

`info`, `verify` and `dead-letters` only read, and work while an agent uses the spool. `repair`, `--remove` and
`--resend` change it, and refuse then.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

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
    parser.add_argument("--json", action="store_true", help="info, dead-letters: as JSON")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--remove", action="store_true", help="dead-letters: print and remove them")
    what.add_argument("--resend", action="store_true", help="dead-letters: append them again as new records")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    directory: Path = args.directory
    segment_names(directory)  # says so where there is no spool
    if args.action == "info":
        report = look_at(directory)
        print(json.dumps(report.to_json(), indent=2) if args.json else _describe(report))
        return ExitCode.OK
    if args.action == "verify":
        return _verify(directory)
    if args.action == "repair":
        done = repair(directory, time.time_ns() // 1000, print)
        print(f"{done.segments} segments written anew, {done.lost_records} records lost, {done.torn_bytes} bytes cut")
        return ExitCode.OK
    if args.resend:
        print(f"{resend_dead_letters(directory)} dead letters appended again")
        return ExitCode.OK
    show = _print_json if args.json else _print_text
    if args.remove:
        take_dead_letters(directory, show)
    else:
        for letter in dead_letters(directory):
            show(letter)
    return ExitCode.OK


def _verify(directory: Path) -> int:
    found = False
    for problem in find_damage(directory):
        found = True
        print(problem)
    if found:
        return ExitCode.BAD_DATA
    report = look_at(directory)
    print(f"{len(report.segments)} segments, {report.bytes:,} bytes: all of it can be read")
    return ExitCode.OK


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
