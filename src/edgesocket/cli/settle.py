"""`edgesocket settle JOB ID[-ID]`: give up batches for good, so that they no longer hold the watermark.

What was queued under these ids is dropped; what a collector still has of them may be sent again and is then a new
record. The word goes through the commit log: a running job takes it within a second or two, a stopped one at its next
start. Nothing that is confirmed is touched.
"""

from __future__ import annotations

import argparse
import getpass
import time
from typing import Any

from edgesocket.checkpoint.commit_log import append, read_log
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.entries import Settle
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.output import add_format_argument, show
from edgesocket.errors import ExitCode, UsageError
from edgesocket.ids import MAX_BATCH_ID, IdRange


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "settle",
        help="give up batches that hold the watermark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_job_arguments(parser)
    parser.add_argument("ids", nargs="*", type=_id_range, metavar="ID[-ID]", help="a batch id or an inclusive range")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; it is kept in the log")
    parser.add_argument(
        "--nothing-missing",
        action="store_true",
        help="after the loss of a host: every batch that a collector has not sent again is not missing either",
    )
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if not args.ids and not args.nothing_missing:
        raise UsageError(
            "name at least one batch id, or --nothing-missing; edgesocket status says which batch holds the watermark"
        )
    job, place = find_state(args)
    perform = place.open_store().perform
    log = drive(read_log(), perform)
    if not log.head:
        raise UsageError(f"job {job} has not run yet: there is nothing to settle")
    done: dict[str, Any] = {"job": job, "settled": [], "nothing_missing": False, "log_entries": []}
    lines = []
    if args.ids:
        index = drive(append(log, _entry(tuple(args.ids), args.reason)), perform)
        shown = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in args.ids)
        lines.append(f"settled {shown} (log entry {index})")
        done["settled"] = [list(ids) for ids in args.ids]
        done["log_entries"].append(index)
    if args.nothing_missing:
        index = drive(append(log, _entry((), args.reason)), perform)
        lines.append(f"nothing is missing after the last unclean end (log entry {index})")
        done["nothing_missing"] = True
        done["log_entries"].append(index)
    show(args, done, lines)
    return ExitCode.OK


def _entry(ids: tuple[IdRange, ...], reason: str) -> Settle:
    return Settle(epoch=0, time_ms=time.time_ns() // 1_000_000, ids=ids, reason=reason, by=getpass.getuser())


def _id_range(text: str) -> IdRange:
    first, dash, last = text.partition("-")
    numbers = [first, last if dash else first]
    if not all(n.isascii() and n.isdigit() and len(n) <= 19 and 1 <= int(n) <= MAX_BATCH_ID for n in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a batch id or a range of them (1-{MAX_BATCH_ID})")
    low, high = int(numbers[0]), int(numbers[1])
    if low > high:
        raise argparse.ArgumentTypeError(f"{text!r}: the first id is above the last")
    return low, high
