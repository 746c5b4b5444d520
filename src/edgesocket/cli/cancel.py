"""`edgesocket cancel JOB`: stop a job. Its state stays, and the next start goes on from it.

SeaTunnel deletes the checkpoints of a job that is cancelled; here batches that a collector was told are received
would be lost with them. To forget a job for good, delete its state directory after it has stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.stopping import add_stop_arguments, stop_job
from edgesocket.errors import ExitCode


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


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return cancel(*find_state(args), args.wait)


def cancel(name: str, state_dir: Path, wait_s: float) -> int:
    """Stop one job; one that does not run is fine. Returns the exit code."""
    end = stop_job(name, state_dir, wait_s)
    if end is not None:
        print(f"job {name} has stopped; its state stays in {state_dir}, and the next start goes on from it")
    return ExitCode.OK
