"""`edgesocket submit JOB...`: hand jobs to the cluster; Ray places each on a worker with the labels it asks for.

The order is written into the shared store first. From there everything goes on by itself: a worker that is lost costs
seconds, a job without a fitting worker waits for one, and `edgesocket reconcile` starts again what Ray has forgotten.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from edgesocket.cli.check import conflicts
from edgesocket.cli.cluster_options import (
    add_cluster_arguments,
    address_of_ray,
    cluster_jobs,
    cluster_text,
    open_ray,
    unix_ms,
    whoami,
)
from edgesocket.cli.job_files import JobFile, add_checking_arguments, add_job_arguments, expand_jobs
from edgesocket.cli.job_texts import add_env_argument, read_job_text
from edgesocket.cli.output import add_format_argument, show
from edgesocket.cluster.job_text import JobText
from edgesocket.cluster.jobs_of import Jobs, JobView, why_pending
from edgesocket.cluster.orders import Order, Wanted
from edgesocket.cluster.placement import Node, matches
from edgesocket.cluster.ray_cluster import RayCluster, RayUnavailableError
from edgesocket.cluster.reconcile import reconcile
from edgesocket.cluster.rest import run_there
from edgesocket.cluster.submitting import Cluster, Submission, pool_host, replace_order, submit
from edgesocket.errors import ConfigError, ExitCode, UsageError

WAIT_S = 20.0
LOOK_S = 0.1
REST_S = 120.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "submit",
        help="hand jobs to the cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 ordered, and running where it was waited for; 75 ordered and not running yet, or another "
        "order was there first; 78 a job cannot run in this cluster.",
    )
    add_job_arguments(parser, several=True)
    add_cluster_arguments(parser)
    add_checking_arguments(parser, place=False)
    add_env_argument(parser)
    add_format_argument(parser)
    parser.add_argument("--host", metavar="NAME", default="", help="run it in the process of this name, with others")
    parser.add_argument(
        "--jobs-per-host",
        type=int,
        metavar="N",
        help="share processes: up to N jobs with the same tag_filter in each (default: a process for each job)",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="make it so: submit what is not there, replace what has changed (with a last checkpoint), leave the rest",
    )
    parser.add_argument(
        "--wait", type=float, default=WAIT_S, metavar="S", help=f"wait so long until they run ({WAIT_S:g}); 0: do not"
    )


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if args.state_dir is not None:
        raise UsageError("--state-dir: in a cluster the state of every job lies below --cluster")
    if args.host and args.jobs_per_host is not None:
        raise UsageError("--host and --jobs-per-host do not go together: the one names a process, the other finds one")
    if args.jobs_per_host is not None and args.jobs_per_host < 1:
        raise UsageError("--jobs-per-host is at least 1")
    jobs = cluster_jobs(args)
    wanted = _read(args, jobs)
    ray = _open_ray(args, jobs)
    nodes = None if ray is None else ray.nodes()
    orders: list[Order] = []
    try:
        for text, file in wanted:
            order = _order(args, jobs, text, file, ray, nodes)
            if order is not None:
                orders.append(order)
    finally:
        _start(args, jobs, orders, ray)  # those before one that was refused, too
    ordered = {order.job for order in orders}
    return _wait(args, jobs, orders, [file.spec.name for _, file in wanted if file.spec.name not in ordered], ray)


def _read(args: argparse.Namespace, jobs: Jobs) -> list[tuple[JobText, JobFile]]:
    found = [read_job_text(args, path, jobs) for path in expand_jobs(args.job)]
    names = [problem for problem in conflicts([file for _, file in found]) if problem.path == "env.job.name"]
    if names:
        raise ConfigError(names)
    return found


def _open_ray(args: argparse.Namespace, jobs: Jobs) -> RayCluster | None:
    try:
        return open_ray(args, jobs)
    except (RayUnavailableError, ModuleNotFoundError) as error:
        print(f"edgesocket: {error}; the order is written, and edgesocket reconcile starts it", file=sys.stderr)
        return None


def _order(
    args: argparse.Namespace,
    jobs: Jobs,
    text: JobText,
    file: JobFile,
    ray: RayCluster | None,
    nodes: Sequence[Node] | None,
) -> Order | None:
    """Order one job. None where `--apply` finds that nothing is to be done."""
    spec = file.spec
    before = jobs.order(spec.name) if args.apply else None
    runs = before is not None and before.wanted is Wanted.RUNNING
    if before is not None and runs and before.text == text and args.host in ("", before.host):
        return None
    host = args.host
    if args.jobs_per_host is not None:
        host = pool_host(jobs, spec, args.jobs_per_host)
    if before is not None and runs and (host or spec.name) == before.host:
        host = f"{spec.name}~{before.n + 1}"  # one process lets go, another waits for that
    fitting = [node for node in nodes or () if matches(spec.env.tag_filter, node)]
    ranges = ray.port_ranges(fitting, jobs.registry) if ray is not None else []
    submission = Submission(spec=spec, text=text, host=host, by=whoami(), time_ms=unix_ms())
    cluster = Cluster(nodes, ranges)
    order = replace_order(jobs, submission, cluster, before) if runs else submit(jobs, submission, cluster)
    for note in file.notes:
        print(f"  note: {note}", file=sys.stderr)
    return order


def _start(args: argparse.Namespace, jobs: Jobs, orders: Sequence[Order], ray: RayCluster | None) -> None:
    """See that the hosts are there, and know."""
    if not orders:
        return
    address = address_of_ray(args)
    if ray is not None:
        ray.tell([(order.after, order.job) for order in orders if order.after])
        reconcile(jobs, ray, [order.job for order in orders])
    elif address.startswith("http"):
        names = [argument for order in orders for argument in ("--job", order.job)]
        run_there(address, ["reconcile", "--cluster", cluster_text(args), "--address", "auto", *names], REST_S)


def _wait(
    args: argparse.Namespace, jobs: Jobs, orders: Sequence[Order], unchanged: Sequence[str], ray: RayCluster | None
) -> int:
    """Wait until they run, and say where; or why not. Returns the exit code."""
    nodes = None if ray is None else ray.nodes()
    deadline = time.monotonic() + args.wait
    found = {order.job: jobs.view(order.job, time.time()) for order in orders}
    while True:
        waiting = [view.order for view in found.values() if view.order is not None and not _is_settled(view)]
        hopeless = nodes is not None and not any(_fits(order, nodes) for order in waiting)
        if not waiting or hopeless or time.monotonic() >= deadline:
            break
        time.sleep(LOOK_S)
        found |= {order.job: jobs.view(order.job, time.time()) for order in waiting}
    told = [_told(view, nodes) for view in found.values()]
    told += [
        {"job": name, "state": "UNCHANGED", "text": f"job {name} is submitted already, as it is"} for name in unchanged
    ]
    show(args, told, [one["text"] for one in told])
    states = {one["state"] for one in told}
    if "FAILED" in states:
        return ExitCode.CONFIG
    return ExitCode.OK if states <= {"RUNNING", "UNCHANGED"} or not args.wait else ExitCode.TRY_LATER


def _is_settled(view: JobView) -> bool:
    if view.order is None or view.order.wanted is not Wanted.RUNNING:
        return True
    return view.carried_out and view.state == "RUNNING"


def _told(view: JobView, nodes: Sequence[Node] | None) -> dict[str, str]:
    name, order, state = view.name, view.order, view.state
    worker = view.attempt.address if view.attempt is not None else ""
    found = {"job": name, "state": state, "worker": worker, "endpoint": view.endpoint}
    if order is None or order.wanted is not Wanted.RUNNING:
        reason = "" if order is None else order.reason
        return {**found, "text": f"job {name} is {state}: {reason}"}
    if _is_settled(view):
        return {**found, "text": f"job {name} runs on {worker}, collectors dial {view.endpoint}"}
    why = "it is starting" if view.carried_out else why_pending(order, nodes)
    return {**found, "text": f"job {name} is ordered and does not run yet: {why}"}


def _fits(order: Order, nodes: Sequence[Node]) -> bool:
    return any(matches(order.tag_filter, node, order.avoid) for node in nodes)
