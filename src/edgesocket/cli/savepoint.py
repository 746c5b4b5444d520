"""`edgesocket savepoint JOB`: stop a running job gracefully, with a last checkpoint, and wait for its end.

The next start goes on from there. The job may run in a process on any host that reaches its state.
"""

from __future__ import annotations

import argparse
from functools import partial

from edgesocket.cli import cluster_verbs
from edgesocket.cli.cluster_options import cluster_text
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.output import add_format_argument, show, wants_json
from edgesocket.cli.stopping import add_stop_arguments, end_as_json, stop_job
from edgesocket.cluster.orders import Wanted
from edgesocket.errors import ExitCode
from edgesocket.store.place import Place


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "savepoint",
        help="stop a job with a last checkpoint, and wait for it",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 stopped, everything received is confirmed; 69 the job does not run; "
        "75 it has not ended in time, or not everything is confirmed; else the code the job ended with.",
    )
    add_job_arguments(parser)
    add_stop_arguments(parser)
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if cluster_text(args):
        return cluster_verbs.end(args, Wanted.STOPPED, partial(savepoint, args=args))
    return savepoint(*find_state(args), args.wait, args)


def savepoint(name: str, place: Place, wait_s: float, args: argparse.Namespace | None = None) -> int:
    """Stop one job with a last checkpoint. `args`: how the end is shown. Returns the exit code."""
    end = stop_job(name, place, wait_s)
    args = args or argparse.Namespace()
    if end is None:
        if wants_json(args):
            show(args, end_as_json(name, place, end), "")
        return ExitCode.UNAVAILABLE
    text = f"job {name} has stopped; confirmed up to batch {end.confirmed}; its state is in {place.text}"
    show(args, end_as_json(name, place, end), text)
    return end.exit_code
