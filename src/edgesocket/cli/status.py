"""`edgesocket status JOB`: what a job is doing, read from its state; works on a running and on a stopped job.

What is wrong comes first, marked `!` where records are held up and `-` where it is only worth knowing, each with what
to do about it. Then where things stand.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from typing import Any

from edgesocket.checkpoint.commit_log import read_log
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.entries import Claim, Commit, Ended
from edgesocket.checkpoint.log_view import Log
from edgesocket.cli import cluster_verbs
from edgesocket.cli.cluster_options import cluster_jobs, cluster_text
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.output import add_format_argument
from edgesocket.cli.status_text import report_lines, report_troubles
from edgesocket.errors import ExitCode
from edgesocket.store.ownership import Beat
from edgesocket.store.place import Place

FRESH_S = 5.0
"""A beat or status older than this is not of a live process."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "status",
        help="what a job is doing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 it could be looked at. With --check: 0 it runs and all is well; 69 it does not run; 75 "
        "it runs, and something holds it up.",
    )
    add_job_arguments(parser)
    parser.add_argument("--check", action="store_true", help="say by the exit code how the job fares")
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if cluster_text(args):
        return _show_of_cluster(args)
    return show(*find_state(args), as_json=args.format == "json", check=args.check, job_file=_named_file(args))


def _show_of_cluster(args: argparse.Namespace) -> int:
    """Print what a job of a cluster is doing; it may never have run."""
    jobs, name, now = cluster_jobs(args), cluster_verbs.job_name(args), time.time()
    found = cluster_verbs.describe(jobs, name, now, lambda: cluster_verbs.known_nodes(args, jobs))
    place = jobs.place(name)
    report = report_on(name, place, now) if place.exists() else {"job": name, "state_dir": place.text, "running": False}
    if args.format == "json":
        print(json.dumps({**report, "cluster": found}, indent=2))
        return ExitCode.OK
    shown = report_lines({"live": None, **report}, str(args.job))
    print("\n".join([f"job {name}: {found['state']}", *cluster_verbs.lines(found), *shown[1:]]))
    return ExitCode.OK


def show(job: str, place: Place, *, as_json: bool, check: bool = False, job_file: str = "JOB_FILE") -> int:
    """Print what one job is doing.

    Args:
        job, place: the job, and its state.
        as_json: for programs.
        check: the exit code says how the job fares.
        job_file: its file, for the commands that are shown.

    Returns:
        The exit code.
    """
    report = report_on(job, place, time.time())
    found = report_troubles(report, job_file)
    if as_json:
        print(json.dumps({**report, "troubles": [one.to_json() for one in found]}, indent=2))
    else:
        print("\n".join(report_lines(report, job_file)))
    if not check:
        return ExitCode.OK
    if not report["running"]:
        return ExitCode.UNAVAILABLE
    return ExitCode.TRY_LATER if any(one.grave for one in found) else ExitCode.OK


def _named_file(args: argparse.Namespace) -> str:
    return str(args.job) if args.job.is_file() else "JOB_FILE"


def report_on(job: str, place: Place, now: float) -> dict[str, Any]:
    """Read what there is at a place, and describe it."""
    log: Log = drive(read_log(), place.open_store().perform)
    return describe(job, place.text, log, place.read_beat(), place.read_status(), now)


def describe(
    job: str, state_dir: str, log: Log, beat: Beat | None, status: dict[str, Any] | None, now: float
) -> dict[str, Any]:
    """Everything known of the job, as JSON.

    `running` tells whether a process shows signs of life; `live` is what it last said of itself, None where it does
    not live. The rest is as of the last completed checkpoint.
    """
    fresh = status is not None and now - status["time"] < FRESH_S and beat is not None and not beat.closed
    report: dict[str, Any] = {"job": job, "state_dir": state_dir, "running": fresh}
    commit, claim, ended = log.last(Commit), log.last(Claim), log.last(Ended)
    if claim is not None:
        report["epoch"] = claim[1].epoch
        report["claimed_by"] = {"host": claim[1].host, "pid": claim[1].pid, "since": _iso(claim[1].time_ms)}
    if commit is not None:
        report["checkpoint"] = {
            "number": commit[1].n,
            "time": _iso(commit[1].time_ms),
            "age_s": round(now - commit[1].time_ms / 1000, 1),
            **describe_source(commit[1].record["source"]),
        }
    if ended is not None and claim is not None and ended[1].epoch == claim[1].epoch:
        report["ended"] = {"time": _iso(ended[1].time_ms), "reason": ended[1].reason, "batch_id": ended[1].batch_id}
    elif status is not None and claim is not None and status.get("end") and status.get("epoch") == claim[1].epoch:
        # The log could not take the end, or it is none that goes there (a sink that was down, a port that was taken).
        report["ended"] = {"time": _iso(int(status["time"] * 1000)), "reason": status["end"]["reason"], "batch_id": 0}
    if log.damaged:
        report["damaged"] = [{"file": damage.name, "reason": damage.reason} for damage in log.damaged]
    report["live"] = status if fresh else None
    return report


def describe_source(source: dict[str, Any]) -> dict[str, Any]:
    """What a commit record says of the source: of a listening one, or of a replay of dead letters."""
    if "replay" in source:
        return {"replayed": source["replay"]["replayed"], "refused_again": len(source["replay"]["failed"])}
    ledger = source["ledger"]
    return {
        "watermark": ledger["watermark"],
        "queued_records": sum(last - first + 1 for first, last in source["queue"]["runs"]),
        "held": ledger["held"],
        "lost": ledger["lost"],
        "unclean_floor": ledger["unclean_floor"],
    }


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
