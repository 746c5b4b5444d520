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

from edgesocket.checkpoint.commit_log import append, read_log
from edgesocket.checkpoint.effects import List, Procedure
from edgesocket.checkpoint.entries import Accept, Commit
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import acceptable
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.errors import ExitCode, UsageError
from edgesocket.store.local import LocalStore
from edgesocket.store.ownership import Owner


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


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    job, state_dir = find_state(args)
    store = LocalStore(state_dir)
    log = store.run(read_log())
    found = store.run(_candidates(log))
    if args.accept is None:
        for damage in log.damaged:
            print(f"damaged: {damage.name}: {damage.reason}")
        for number in sorted(found, reverse=True):
            print(_describe(found[number]))
        return ExitCode.OK
    if args.accept not in found:
        known = ", ".join(str(number) for number in sorted(found, reverse=True)) or "none"
        raise UsageError(f"checkpoint {args.accept} cannot be read; those that can: {known}")
    owner = Owner(state_dir, job)
    owner.watch()  # a job that runs needs no such word, and must not get it
    try:
        entry = Accept(epoch=0, time_ms=time.time_ns() // 1_000_000, n=args.accept, by=getpass.getuser())
        index = store.run(append(log, entry))
    finally:
        owner.close()
    print(f"the next start goes on from {_describe(found[args.accept])} (log entry {index})")
    return ExitCode.OK


def _candidates(log: Log) -> Procedure[dict[int, Commit]]:
    names: list[str] = yield List("state")
    return (yield from acceptable(log, names))


def _describe(commit: Commit) -> str:
    when = datetime.fromtimestamp(commit.time_ms / 1000, UTC).isoformat(timespec="seconds")
    source = commit.record["source"]
    queued = sum(last - first + 1 for first, last in source["queue"]["runs"])
    return f"checkpoint {commit.n} of {when}: watermark {source['ledger']['watermark']}, {queued} records queued"
