"""`edgesocket move JOB`: put a job on another worker, with a last checkpoint.

The process that runs it lets it go, the new one goes on from there. Use it to empty a machine, or to leave a shared
process.
"""

from __future__ import annotations

import argparse
import time

from edgesocket.cli.cluster_options import (
    add_cluster_arguments,
    address_of_ray,
    cluster_jobs,
    cluster_text,
    unix_ms,
    whoami,
)
from edgesocket.cli.output import add_format_argument, show, wants_json
from edgesocket.cluster.jobs_of import Jobs, JobView
from edgesocket.cluster.moving import moved
from edgesocket.cluster.orders import Order
from edgesocket.cluster.ray_cluster import RayCluster
from edgesocket.cluster.rest import is_rest, run_there
from edgesocket.errors import ComponentError, ExitCode, UsageError

WAIT_S = 60.0
LOOK_S = 0.1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "move",
        help="put a job of the cluster on another worker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 it runs elsewhere; 75 no other worker fits, or it has not begun there in time.",
    )
    parser.add_argument("job", metavar="JOB", help="name of the job")
    add_cluster_arguments(parser)
    add_format_argument(parser)
    parser.add_argument("--same-worker", action="store_true", help="another process, but any worker that fits")
    parser.add_argument("--force", action="store_true", help="also when no other worker fits now: it waits for one")
    parser.add_argument("--wait", type=float, default=WAIT_S, metavar="S", help=f"wait so long ({WAIT_S:g})")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    jobs = cluster_jobs(args)
    address = address_of_ray(args)
    if is_rest(address):
        flags = [flag for flag, given in (("--same-worker", args.same_worker), ("--force", args.force)) if given]
        flags += ["--format", "json"] if wants_json(args) else []
        more = ["--cluster", cluster_text(args), "--address", "auto", "--wait", str(args.wait), *flags]
        print(run_there(address, ["move", args.job, *more], args.wait + WAIT_S), end="")
        return ExitCode.OK
    view = jobs.view(args.job, time.time())
    if view.order is None:
        raise UsageError(f"there is no job {args.job} in {jobs.root.text}; edgesocket jobs --cluster lists them")
    ray = RayCluster(jobs.root.text, address or "auto")
    away_from = view.attempt.node if view.attempt is not None and not args.same_worker else ""
    order = moved(view.order, away_from, ray.nodes(), by=whoami(), time_ms=unix_ms(), force=args.force)
    jobs.append(order)
    try:
        ray.ensure_host(order)
    except Exception as error:
        raise ComponentError(
            f"job {order.job} is ordered to move, but Ray gives no host for it: {error}; edgesocket reconcile does "
            "when Ray answers again"
        ) from error
    ray.tell([(order.after, order.job)])
    return _wait(args, jobs, order)


def _wait(args: argparse.Namespace, jobs: Jobs, order: Order) -> int:
    deadline = time.monotonic() + args.wait
    while time.monotonic() < deadline:
        view = jobs.view(order.job, time.time())
        if view.carried_out and view.state == "RUNNING":
            place = view.attempt.address if view.attempt is not None else ""
            show(args, _as_json(view), f"job {order.job} runs on {place}, collectors dial {view.endpoint}")
            return ExitCode.OK
        time.sleep(LOOK_S)
    view = jobs.view(order.job, time.time())
    show(args, _as_json(view), f"job {order.job} is ordered to move, and does not run yet: {view.state}")
    return ExitCode.TRY_LATER


def _as_json(view: JobView) -> dict[str, str]:
    worker = view.attempt.address if view.attempt is not None else ""
    return {"job": view.name, "state": view.state, "worker": worker, "endpoint": view.endpoint}
