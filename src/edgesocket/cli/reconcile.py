"""`edgesocket reconcile`: see that each job that is to run has its process in the Ray cluster.

Run it when the head of the Ray cluster was lost or upgraded, or all the time with --every. It leaves alone what is
there.
"""

from __future__ import annotations

import argparse
import sys
import time

from edgesocket.cli.cluster_options import add_cluster_arguments, address_of_ray, cluster_jobs, cluster_text
from edgesocket.cli.output import add_format_argument, show
from edgesocket.cluster.jobs_of import Jobs, JobView
from edgesocket.cluster.orders import Wanted
from edgesocket.cluster.ray_cluster import RayCluster
from edgesocket.cluster.reconcile import Reconciled, reconcile
from edgesocket.cluster.rest import is_rest, run_there
from edgesocket.errors import EdgeSocketError, ExitCode, UsageError

REST_S = 120.0
LEAST_EVERY_S = 1.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "reconcile",
        help="start again what the Ray cluster has forgotten",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 every job that is to run has its process; 69 Ray or the store cannot be reached.",
    )
    add_cluster_arguments(parser)
    parser.add_argument("--job", action="append", metavar="NAME", help="only this job (may be repeated)")
    add_format_argument(parser)
    parser.add_argument("--every", type=float, metavar="S", help="do it again and again, until stopped")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if args.every is not None and args.every < LEAST_EVERY_S:
        raise UsageError(f"--every is at least {LEAST_EVERY_S:g} s")
    jobs = cluster_jobs(args)
    while True:
        try:
            _once(args, jobs)
        except EdgeSocketError as error:
            if args.every is None:
                raise
            print(f"edgesocket: {error}", file=sys.stderr)
        if args.every is None:
            return ExitCode.OK
        time.sleep(args.every)


def _once(args: argparse.Namespace, jobs: Jobs) -> None:
    address = address_of_ray(args)
    if not is_rest(address):
        _tell(args, reconcile(jobs, RayCluster(jobs.root.text, address or "auto"), args.job))
        return
    # A command on the cluster leaves traces there, so it is asked only where something is amiss.
    names = jobs.registry.jobs() if args.job is None else args.job
    missing = [view.name for view in (jobs.view(name, time.time()) for name in names) if _is_missing(view)]
    if missing:
        options = [argument for name in missing for argument in ("--job", name)]
        run_there(address, ["reconcile", "--cluster", cluster_text(args), "--address", "auto", *options], REST_S)
    if args.every is None or missing:
        result = {"looked_at": len(names), "asked_for": missing}
        show(args, result, f"{len(names)} jobs looked at, {len(missing)} that are to run did not")


def _is_missing(view: JobView) -> bool:
    return view.order is not None and view.order.wanted is Wanted.RUNNING and view.state != "RUNNING"


def _tell(args: argparse.Namespace, result: Reconciled) -> None:
    for name, why in result.unreadable:
        print(f"edgesocket: job {name}: {why}", file=sys.stderr)
    if args.every is None or result.made:
        lines = [f"made the process {host}" for host in result.made]
        lines.append(f"{len(result.jobs)} jobs are to run, {len(result.made)} processes were missing")
        found = {"jobs": [order.job for order in result.jobs], "made": result.made, "unreadable": result.unreadable}
        show(args, found, lines)
