"""`edgesocket serve`: run the jobs that are submitted over HTTP, until SIGTERM or SIGINT.

It begins without a job, and does not end when one ends. Each job keeps its state below one root under its name, as
with `run`. What was submitted is not remembered: after a new start submit again, and each job goes on from its state.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from edgesocket.cli.job_files import STATE_DIRECTORY, STATE_VARIABLE, add_checking_arguments
from edgesocket.cli.log import add_log_arguments
from edgesocket.cli.run import run_jobs
from edgesocket.cli.web_flags import add_web_arguments


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "serve",
        help="run the jobs that are submitted over HTTP",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 stopped, everything confirmed; 64 no token; 69 no port; else as with run.",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="where the jobs keep their states, each below its name: a directory, or s3://BUCKET/PREFIX (default: "
        f"${STATE_VARIABLE}, or {STATE_DIRECTORY} in this directory)",
    )
    parser.add_argument(
        "-i", "--variable", action="append", default=[], metavar="KEY=VALUE", help="a variable for ${KEY} in the jobs"
    )
    parser.add_argument("--seatunnel-yaml", type=Path, metavar="FILE", help="SeaTunnel's engine file")
    add_checking_arguments(parser)
    add_log_arguments(parser)
    add_web_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    values = {**vars(args), "name": None, "take_over": False, "drop_sink_state": [], "job": ()}
    return run_jobs([], argparse.Namespace(**values), endless=True)
