"""`edgesocket restore JOB [--accept N]`: go on from a checkpoint that can be read when something newer is damaged.

Without --accept it lists what can be gone on from. Accepting a checkpoint that is not the newest means: rows that went
to the sinks after it may come twice, and batches that were accepted after it are not known any more. Their ids count as
lost, so collectors that poll are told to send them again.
"""

from __future__ import annotations

import argparse
import getpass
import time
from datetime import UTC, datetime
from typing import Any

from edgesocket.checkpoint.commit_log import append, read_log
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.effects import List, Procedure
from edgesocket.checkpoint.entries import Accept, Commit
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import acceptable
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.output import Progress, add_format_argument, show
from edgesocket.cli.status import describe_source
from edgesocket.errors import ExitCode, UsageError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "restore",
        help="go on from an older checkpoint when the newest is damaged",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_job_arguments(parser)
    parser.add_argument("--accept", type=int, metavar="N", help="go on from checkpoint N")
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    job, place = find_state(args)
    store = place.open_store()
    with Progress() as progress:

        def perform(effect: Any) -> Any:
            progress(f"reading the state of job {job}: {getattr(effect, 'name', 'the list of files')}")
            return store.perform(effect)

        log = drive(read_log(), perform)
        found = drive(_candidates(log), perform)
    newest_first = [found[number] for number in sorted(found, reverse=True)]
    if args.accept is None:
        damaged = [{"file": damage.name, "reason": damage.reason} for damage in log.damaged]
        lines = [f"damaged: {one['file']}: {one['reason']}" for one in damaged]
        lines += [_describe(commit) for commit in newest_first] or ["no checkpoint can be gone on from"]
        if damaged and newest_first:
            lines.append(f"to go on from one of them: edgesocket restore {args.job} --accept {newest_first[0].n}")
        checkpoints = [_as_json(commit) for commit in newest_first]
        show(args, {"job": job, "damaged": damaged, "checkpoints": checkpoints}, lines)
        return ExitCode.OK
    if args.accept not in found:
        known = ", ".join(str(commit.n) for commit in newest_first) or "none"
        raise UsageError(f"checkpoint {args.accept} cannot be read; those that can: {known}")
    owner = place.owner(job)
    owner.watch()  # a job that runs needs no such word, and must not get it
    try:
        entry = Accept(epoch=0, time_ms=time.time_ns() // 1_000_000, n=args.accept, by=getpass.getuser())
        index = drive(append(log, entry), store.perform)
    finally:
        owner.close()
    accepted = found[args.accept]
    text = f"the next start goes on from {_describe(accepted)} (log entry {index})"
    show(args, {"job": job, "accepted": _as_json(accepted), "log_entry": index}, text)
    return ExitCode.OK


def _candidates(log: Log) -> Procedure[dict[int, Commit]]:
    names: list[str] = yield List("state")
    return (yield from acceptable(log, names))


def _as_json(commit: Commit) -> dict[str, Any]:
    when = datetime.fromtimestamp(commit.time_ms / 1000, UTC).isoformat(timespec="seconds")
    return {"number": commit.n, "time": when, **describe_source(commit.record["source"])}


def _describe(commit: Commit) -> str:
    shown = _as_json(commit)
    if "replayed" in shown:
        return f"checkpoint {commit.n} of {shown['time']}: {shown['replayed']} dead letters replayed"
    return (
        f"checkpoint {commit.n} of {shown['time']}: watermark {shown['watermark']}, "
        f"{shown['queued_records']} records queued"
    )
