"""`edgesocket status JOB`: what a job is doing, from its state directory; works on a running and on a stopped job."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgesocket.checkpoint.commit_log import read_log
from edgesocket.checkpoint.entries import Claim, Commit, Ended
from edgesocket.checkpoint.log_view import Log
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.status_file import read_status
from edgesocket.errors import ExitCode
from edgesocket.store.local import LocalStore
from edgesocket.store.ownership import Beat, read_beat

FRESH_S = 5.0
"""A beat or status older than this is not of a live process."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser("status", help="what a job is doing", description=__doc__)
    add_job_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return show(*find_state(args), as_json=args.format == "json")


def show(job: str, state_dir: Path, *, as_json: bool) -> int:
    """Print what one job is doing. Returns the exit code."""
    report = report_on(job, state_dir, time.time())
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(_lines(report)))
    return ExitCode.OK


def report_on(job: str, state_dir: Path, now: float) -> dict[str, Any]:
    """Read what there is in a state directory, and describe it."""
    log: Log = LocalStore(state_dir).run(read_log())
    return describe(job, state_dir, log, read_beat(state_dir), read_status(state_dir), now)


def describe(
    job: str, state_dir: Path, log: Log, beat: Beat | None, status: dict[str, Any] | None, now: float
) -> dict[str, Any]:
    """Everything known of the job, as JSON.

    `running` tells whether a process shows signs of life; `live` is what it last said of itself, None where it does
    not live. The rest is as of the last completed checkpoint.
    """
    fresh = status is not None and now - status["time"] < FRESH_S and beat is not None and not beat.closed
    report: dict[str, Any] = {"job": job, "state_dir": str(state_dir), "running": fresh}
    commit, claim, ended = log.last(Commit), log.last(Claim), log.last(Ended)
    if claim is not None:
        report["epoch"] = claim[1].epoch
        report["claimed_by"] = {"host": claim[1].host, "pid": claim[1].pid, "since": _iso(claim[1].time_ms)}
    if commit is not None:
        ledger = commit[1].record["source"]["ledger"]
        queue = commit[1].record["source"]["queue"]
        report["checkpoint"] = {
            "number": commit[1].n,
            "time": _iso(commit[1].time_ms),
            "age_s": round(now - commit[1].time_ms / 1000, 1),
            "watermark": ledger["watermark"],
            "queued_records": sum(last - first + 1 for first, last in queue["runs"]),
            "held": ledger["held"],
            "lost": ledger["lost"],
            "unclean_floor": ledger["unclean_floor"],
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


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def _lines(report: dict[str, Any]) -> list[str]:
    live = report["live"]
    lines = [f"job {report['job']}: {live['state'] if live else 'not running'}", f"  state in {report['state_dir']}"]
    if "claimed_by" in report:
        by = report["claimed_by"]
        lines.append(f"  epoch {report['epoch']}, claimed by pid {by['pid']} on {by['host']} at {by['since']}")
    if "ended" in report:
        ended = report["ended"]
        batch = f" (batch {ended['batch_id']})" if ended["batch_id"] else ""
        why = f": {ended['reason']}{batch}" if ended["reason"] else ", cleanly"
        lines.append(f"  ended at {ended['time']}{why}")
    if "checkpoint" in report:
        last = report["checkpoint"]
        lines.append(
            f"  checkpoint {last['number']} completed {last['age_s']:.0f} s ago, confirmed up to batch "
            f"{last['watermark']}, {last['queued_records']} records queued"
        )
    else:
        lines.append("  no checkpoint has completed yet")
    lines += [f"  DAMAGED {damage['file']}: {damage['reason']}" for damage in report.get("damaged", ())]
    if live is not None:
        lines += _live_lines(live)
    return lines


def _live_lines(live: dict[str, Any]) -> list[str]:
    source = live.get("source")
    if source is None:
        return []
    queue = source["queue"]
    lines = [
        f"  port {source['port']}, collector {source['collector'] or 'not connected'}",
        f"  queue {queue['records']} of {queue['high_water_mark']} records (most {queue['most_records']}), "
        f"{queue['bytes']} bytes",
        f"  watermark {source['watermark']}, highest batch offered {source['highest_offered']}, "
        f"{live['rows_written']} rows written",
    ]
    if source["replies"]:
        lines.append("  replies " + ", ".join(f"{word} {count}" for word, count in sorted(source["replies"].items())))
    arrivals = source["arrival_log"]
    if arrivals["failing_for_s"] is not None:
        lines.append(f"  ARRIVAL LOG FAILS since {arrivals['failing_for_s']:.0f} s: {arrivals['last_failure']}")
    holder = source["holder"]
    if holder is not None and holder["state"] in ("held", "lost", "gap"):
        lines.append(f"  batch {holder['id']} ({holder['state']}) holds the watermark since {holder['since_s']:.0f} s")
    sinks = live["sinks"]
    if sinks["failing_for_s"] is not None:
        lines.append(f"  A SINK FAILS since {sinks['failing_for_s']:.0f} s: {sinks['last_failure']}")
    checkpoints = live.get("checkpoints", {})
    if checkpoints.get("large_state"):
        lines.append(f"  LARGE CHECKPOINTS: {checkpoints['large_state']}")
    if checkpoints.get("failing_for_s") is not None:
        lines.append(f"  CHECKPOINTS FAIL since {checkpoints['failing_for_s']:.0f} s: {checkpoints['last_failure']}")
    return lines
