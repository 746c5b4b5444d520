"""The report of `edgesocket status` as lines for people: what is wrong first, then where things stand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from edgesocket.cli.verdict import Trouble, in_state, size, span, troubles


def report_lines(report: dict[str, Any], job_file: str = "JOB_FILE") -> list[str]:
    """Everything, line by line."""
    live = report.get("live")
    lines = [f"job {report['job']}: {live['state'] if live else 'not running'}"]
    for one in report_troubles(report, job_file):
        lines.append(f"  {'!' if one.grave else '-'} {one.what}")
        if one.to_do:
            lines.append(f"      {one.to_do}")
    lines.append(f"  state in {report['state_dir']}")
    lines += _process_lines(report)
    lines += _checkpoint_lines(report)
    if live is not None:
        lines += _live_lines(live)
    return lines


def report_troubles(report: dict[str, Any], job_file: str = "JOB_FILE") -> list[Trouble]:
    """What is wrong, also with a job that does not run."""
    restore = f"edgesocket restore {shlex.quote(report['job'])}{in_state(report['state_dir'])}"
    found = [Trouble(f"DAMAGED {damage['file']}: {damage['reason']}", restore) for damage in report.get("damaged", ())]
    live, ended = report.get("live"), report.get("ended")
    if live is not None:
        return found + troubles(report["job"], live, job_file, report["state_dir"])
    if ended is not None and ended["reason"]:
        batch = f" (batch {ended['batch_id']})" if ended["batch_id"] else ""
        found.append(Trouble(f"it failed: {ended['reason']}{batch}", f"edgesocket run {job_file} goes on from there"))
    elif ended is None and "claimed_by" in report:
        found.append(
            Trouble("its process ended without a word", f"edgesocket run {job_file} goes on from its last checkpoint")
        )
    return found


def _process_lines(report: dict[str, Any]) -> Iterator[str]:
    live, by, ended = report.get("live"), report.get("claimed_by"), report.get("ended")
    if by is not None:
        yield f"  epoch {report['epoch']}, claimed by pid {by['pid']} on {by['host']} at {by['since']}"
    if ended is not None:
        yield f"  ended at {ended['time']}" + ("" if ended["reason"] else ", cleanly")
    if live is not None and live.get("http"):
        yield f"  page, API and metrics at {live['http']}"


def _checkpoint_lines(report: dict[str, Any]) -> Iterator[str]:
    last = report.get("checkpoint")
    if last is None:
        yield "  no checkpoint has completed yet"
        return
    line = f"  checkpoint {last['number']} completed {span(last['age_s'])} ago"
    if "watermark" in last:
        line += f", confirmed up to batch {last['watermark']}, {last['queued_records']} records queued"
    if "replayed" in last:
        line += f", {last['replayed']:,} dead letters replayed, {last['refused_again']:,} refused again"
    yield line


def _live_lines(live: dict[str, Any]) -> Iterator[str]:
    source = live.get("source")
    if source is None or "queue" not in source:
        return
    queue = source["queue"]
    since = source.get("collector_for_s")
    collector = source["collector"] or "not connected"
    yield f"  port {source['port']}, collector {collector}" + (f" for {span(since)}" if since is not None else "")
    yield (
        f"  queue {queue['records']} of {queue['high_water_mark']} records (most {queue['most_records']}), "
        f"{size(queue['bytes'])}"
    )
    oldest = source.get("oldest_unconfirmed")
    waits = f", the oldest that is not confirmed waits {span(oldest['age_s'])}" if oldest else ""
    yield f"  watermark {source['watermark']}, highest batch offered {source['highest_offered']}{waits}"
    each = (live.get("sinks") or {}).get("each") or {}
    rows = ", ".join(f"{sink} {figures['rows']:,}" for sink, figures in each.items() if "rows" in figures)
    yield f"  {live['rows_written']} rows written" + (f" ({rows})" if rows else "")
    figures = live.get("checkpoints") or {}
    if figures.get("completed"):
        yield (
            f"  {figures['completed']:,} checkpoints, {figures['failed']:,} failed, the last took "
            f"{figures['last_duration_s']:g} s for {size(figures['last_state_bytes'])}"
        )
    if source["replies"]:
        yield "  replies " + ", ".join(f"{word} {count}" for word, count in sorted(source["replies"].items()))
