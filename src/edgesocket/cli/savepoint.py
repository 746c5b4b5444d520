"""`edgesocket savepoint JOB`: stop a running job gracefully, with a last checkpoint, and wait for its end.

The next start goes on from there. The job may run in this directory's process on any host that shares it.
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
        "savepoint",
        help="stop a job with a last checkpoint, and wait for it",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 stopped, everything received is confirmed; 69 the job does not run; "
        "75 it has not ended in time, or not everything is confirmed; else the code the job ended with.",
    )
    add_job_arguments(parser)
    add_stop_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return savepoint(*find_state(args), args.wait)


def savepoint(name: str, state_dir: Path, wait_s: float) -> int:
    """Stop one job with a last checkpoint. Returns the exit code."""
    end = stop_job(name, state_dir, wait_s)
    if end is None:
        return ExitCode.UNAVAILABLE
    print(f"job {name} has stopped; confirmed up to batch {end.confirmed}; its state is in {state_dir}")
    return end.exit_code
