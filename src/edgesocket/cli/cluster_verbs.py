"""What `status`, `jobs`, `cancel` and `savepoint` do for a job of a cluster. All of it works with Ray down."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgesocket.cli.cluster_options import address_of_ray, cluster_jobs, open_ray, unix_ms, whoami
from edgesocket.cli.job_files import JOB_ENDINGS, read_job
from edgesocket.cluster.jobs_of import Jobs, JobView, why_pending
from edgesocket.cluster.orders import Order, Wanted
from edgesocket.cluster.placement import Node
from edgesocket.errors import EdgeSocketError, ExitCode, UsageError
from edgesocket.store.place import Place

COLUMNS = ("Job", "State", "Worker", "Endpoint", "Epoch", "Watermark", "Process", "Why")
_WAITING = ("PENDING", "LOST", "STARTING")


def job_name(args: argparse.Namespace) -> str:
    """The job that the arguments name: by its file, or by its name."""
    path: Path = args.job
    if path.is_file() or path.parent != Path() or path.suffix.lower() in JOB_ENDINGS:
        return read_job(args, path, lenient=True).spec.name
    return str(path)


def end(args: argparse.Namespace, wanted: Wanted, stop: Callable[[str, Place, float], int]) -> int:
    """Order that a job ends, and wait until it has.

    Args:
        args: of the verb.
        wanted: STOPPED or CANCELLED.
        stop: asks whoever runs it, and waits; returns the exit code.
    """
    jobs, name = cluster_jobs(args), job_name(args)
    order = _order(jobs, name)
    if order.wanted is Wanted.RUNNING:
        jobs.append(order.followed_by(wanted, by=whoami(), time_ms=unix_ms(), reason="it was asked for"))
    else:
        print(f"job {name} is {order.wanted} since {order.since}, by {order.by}", file=sys.stderr)
    place = jobs.place(name)
    if not place.exists():
        print(f"job {name} will not run; it has never run")
        return ExitCode.OK
    return stop(name, place, args.wait)


def describe(jobs: Jobs, name: str, now: float, nodes: Callable[[], Sequence[Node] | None]) -> dict[str, Any]:
    """What the cluster knows of a job, as JSON. `nodes` is asked only where the job waits."""
    view = jobs.view(name, now)
    order = view.order or _order(jobs, name)
    return {
        "state": view.state,
        "wanted": str(order.wanted),
        "by": order.by,
        "since": order.since,
        "reason": order.reason,
        "order": order.n,
        "tag_filter": dict(order.tag_filter),
        "host": order.host,
        "worker": view.attempt.address if view.attempt is not None else "",
        "node": view.attempt.node if view.attempt is not None else "",
        "endpoint": view.endpoint,
        "address": view.address,
        "http": view.attempt.http if view.attempt is not None else "",
        "pending": why_pending(order, nodes()) if view.state in _WAITING else "",
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    told = [f"  {found['wanted']} ordered by {found['by']} at {found['since']}, process {found['host']}"]
    if found["reason"]:
        told.append(f"  because {found['reason']}")
    if found["state"] == "RUNNING":
        told.append(f"  on worker {found['worker']}, collectors dial {found['endpoint']}")
    elif found["pending"]:
        told.append(f"  {found['state']}: {found['pending']}")
    return told


def known_nodes(args: argparse.Namespace, jobs: Jobs) -> Sequence[Node] | None:
    """The workers, where it was said how to ask for them; None where not, or where Ray does not answer."""
    if not address_of_ray(args):
        return None
    try:
        ray = open_ray(args, jobs)
        return None if ray is None else ray.nodes()
    except (EdgeSocketError, ModuleNotFoundError) as error:
        print(f"edgesocket: {error}", file=sys.stderr)
        return None


def show_jobs(args: argparse.Namespace) -> int:
    """Print the jobs of a cluster. Returns the exit code."""
    jobs = cluster_jobs(args)
    now = time.time()
    found: list[tuple[str, JobView | str]] = []
    for name in jobs.registry.jobs():
        try:
            found.append((name, jobs.view(name, now)))
        except EdgeSocketError as error:
            found.append((name, str(error)))
    waits = any(isinstance(view, JobView) and view.state in _WAITING for _, view in found)
    nodes = known_nodes(args, jobs) if waits else None
    if args.format == "json":
        print(json.dumps([_as_json(jobs, name, view, now, nodes) for name, view in found], indent=2))
        return ExitCode.OK
    if not found:
        print(f"no job was submitted to {jobs.root.text}")
        return ExitCode.OK
    rows = [COLUMNS, *(_row(name, view, nodes) for name, view in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return ExitCode.OK


def _as_json(jobs: Jobs, name: str, view: JobView | str, now: float, nodes: Sequence[Node] | None) -> dict[str, Any]:
    if isinstance(view, str):
        return {"job": name, "state": "UNKNOWN", "reason": view}
    return {"job": name, "epoch": view.epoch, "watermark": _watermark(view), **describe(jobs, name, now, lambda: nodes)}


def _row(name: str, view: JobView | str, nodes: Sequence[Node] | None) -> tuple[str, ...]:
    if isinstance(view, str) or view.order is None:
        return name, "UNKNOWN", "", "", "", "", "", view if isinstance(view, str) else "it was never submitted"
    why = why_pending(view.order, nodes) if view.state in _WAITING else view.order.reason
    worker = view.attempt.address if view.attempt is not None and view.lives else ""
    endpoint = view.endpoint if view.lives else ""
    return name, view.state, worker, endpoint, str(view.epoch), str(_watermark(view)), view.order.host, why


def _watermark(view: JobView) -> int:
    return int((view.status or {}).get("source", {}).get("watermark", 0))


def _order(jobs: Jobs, name: str) -> Order:
    order = jobs.order(name)
    if order is None:
        raise UsageError(f"there is no job {name} in {jobs.root.text}; edgesocket jobs --cluster lists those there are")
    return order
