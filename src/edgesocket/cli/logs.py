"""`edgesocket logs JOB`: the log of a job of the cluster, from wherever it runs or ran."""

from __future__ import annotations

import argparse
import sys
import time

from edgesocket.cli.cluster_options import add_cluster_argument, cluster_jobs
from edgesocket.cluster.job_log import read_log
from edgesocket.errors import ExitCode, UsageError

LINES = 100
FOLLOW_S = 0.5


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "logs", help="the log of a job of the cluster", description=__doc__, epilog="Exit codes: 0; 69 there is none."
    )
    parser.add_argument("job", metavar="JOB", help="name of the job")
    add_cluster_argument(parser)
    parser.add_argument("-n", "--lines", type=int, default=LINES, metavar="N", help=f"the last N lines ({LINES})")
    parser.add_argument("-f", "--follow", action="store_true", help="and those that come")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    jobs = cluster_jobs(args)
    if args.lines < 0:
        raise UsageError("--lines is at least 0")
    directory = jobs.place(args.job).scratch
    lines = read_log(directory, max(1, args.lines))
    if lines is None:
        view = jobs.view(args.job, time.time())
        where = f"; it ran on {view.attempt.address}" if view.attempt is not None else ""
        print(f"edgesocket: there is no log of job {args.job} in {directory}{where}", file=sys.stderr)
        return ExitCode.UNAVAILABLE
    shown = lines[-args.lines :] if args.lines else []
    for line in shown:
        print(line)
    last = lines[-1] if lines else ""
    while args.follow:
        sys.stdout.flush()
        time.sleep(FOLLOW_S)
        lines = read_log(directory, 1 << 20) or []
        position = len(lines) - 1 - lines[::-1].index(last) if last in lines else -1
        for line in lines[position + 1 :]:
            print(line)
            last = line
    return ExitCode.OK
