"""`edgesocket jobs [DIR]`: the jobs that have state in a directory, and how they fare.

The names of the states are SeaTunnel's: RUNNING; SAVEPOINT_DONE, it was stopped; FAILED; UNKNOWABLE, its process ended
without a word, and the next start goes on from the last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from edgesocket.checkpoint.commit_log import read_log
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.entries import Claim
from edgesocket.cli import cluster_verbs
from edgesocket.cli.cluster_options import add_cluster_arguments, cluster_text
from edgesocket.cli.job_files import STATE_DIRECTORY, state_root
from edgesocket.cli.status import describe
from edgesocket.errors import EdgeSocketError, ExitCode
from edgesocket.store.place import Place, Root

COLUMNS = ("Job ID", "Job Name", "Job Status", "Submit Time", "Finished Time")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "jobs",
        help="the jobs that have state here, and how they fare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "state_dir",
        nargs="?",
        metavar="DIR",
        help=f"where states lie: a directory, or s3://BUCKET/PREFIX (default: $EDGESOCKET_STATE, or {STATE_DIRECTORY} "
        "in this directory)",
    )
    add_cluster_arguments(parser)
    parser.add_argument("--seatunnel-yaml", type=Path, metavar="FILE", help="SeaTunnel's engine file")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if cluster_text(args):
        return cluster_verbs.show_jobs(args)
    return show(state_root(args, Path()), as_json=args.format == "json")


def show(root: Root, *, as_json: bool = False) -> int:
    """Print the jobs in a directory of states. Returns the exit code."""
    found = [_row(name, root.place(name)) for name in root.names()]
    if as_json:
        print(json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in found], indent=2))
        return ExitCode.OK
    if not found:
        print(f"no job has state in {root.text}")
        return ExitCode.OK
    widths = [max(len(row[column]) for row in (COLUMNS, *found)) for column in range(len(COLUMNS))]
    for row in (COLUMNS, *found):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return ExitCode.OK


def _row(name: str, place: Place) -> tuple[str, ...]:
    try:
        log = drive(read_log(), place.open_store().perform)
        claim = log.last(Claim)
        report = describe(name, place.text, log, place.read_beat(), place.read_status(), time.time())
    except EdgeSocketError as error:
        return name, name, "UNKNOWABLE", "", str(error)
    job = claim[1].job if claim else name
    finished = report.get("ended")
    if report["running"]:
        state = "RUNNING"
    elif finished is None:
        state = "UNKNOWABLE"
    else:
        state = "FAILED" if finished["reason"] else "SAVEPOINT_DONE"
    submitted = report["claimed_by"]["since"] if claim else ""
    return job, job, state, submitted, finished["time"] if finished and not report["running"] else ""
