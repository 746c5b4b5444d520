"""`edgesocket cancel JOB`: stop a job. Its state stays, and the next start goes on from it.

SeaTunnel deletes the checkpoints of a job that is cancelled; here batches that a collector was told are received
would be lost with them. To forget a job for good, delete its state directory after it has stopped.
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
        "cancel",
        help="stop a job",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 the job does not run any more; 75 it has not ended in time.",
    )
    add_job_arguments(parser)
    add_stop_arguments(parser)
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if cluster_text(args):
        return cluster_verbs.end(args, Wanted.CANCELLED, partial(cancel, args=args))
    return cancel(*find_state(args), args.wait, args)


def cancel(name: str, place: Place, wait_s: float, args: argparse.Namespace | None = None) -> int:
    """Stop one job; one that does not run is fine. `args`: how the end is shown. Returns the exit code."""
    end = stop_job(name, place, wait_s)
    args = args or argparse.Namespace()
    if end is not None or wants_json(args):
        text = f"job {name} has stopped; its state stays in {place.text}, and the next start goes on from it"
        show(args, end_as_json(name, place, end), text)
    return ExitCode.OK
