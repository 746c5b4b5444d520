"""Everything about one job, as lines below the table of `edgesocket top`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from edgesocket.cli.top_model import STATES, Job, Look, behind, job_troubles, queue_text
from edgesocket.cli.verdict import counted, size, span

DEAD_LETTER = "dead_letter"
"""Id of the sink that takes what was refused."""


def job_lines(job: Job, look: Look) -> Iterator[Text]:
    """Everything about one job."""
    status = job.get("status") or {}
    yield Text.assemble((str(job["name"]), "bold"), "  ", (str(job["state"]), STATES.get(str(job["state"]), "")))
    for trouble in job_troubles(job):
        yield Text(f"  {'!' if trouble.grave else '-'} {trouble.what}", style="bold red" if trouble.grave else "yellow")
        if trouble.to_do:
            yield Text(f"      {trouble.to_do}", style="yellow")
    for path in pipeline_lines(job, look):
        yield Text(f"  {path}")
    source = status.get("source") or {}
    if source.get("queue"):
        yield Text(
            "  queue        " + queue_text(job, look) + f"  {size(source['queue'].get('bytes', 0))}, most "
            f"{source['queue'].get('most_records', 0):,}"
        )
        yield Text(
            f"  watermark    {source.get('watermark', 0):,} of {source.get('highest_offered', 0):,} offered"
            + (f", {behind(job):,} behind" if behind(job) else "")
        )
        replies = source.get("replies") or {}
        if replies:
            yield Text("  replies      " + ", ".join(f"{word} {count:,}" for word, count in sorted(replies.items())))
    yield from _checkpoint_lines(job, look)
    yield from _sink_lines(status)
    yield from _session_lines(job)


def pipeline_lines(job: Job, look: Look) -> Iterator[str]:
    """The way of rows, one line a sink."""
    pipeline = job.get("pipeline") or {}
    labels = {node["id"]: node["label"] for node in pipeline.get("nodes", ())}
    ends = [node["id"] for node in pipeline.get("nodes", ()) if node["kind"] == "sink"]
    into: dict[str, list[str]] = {}
    for before, after in pipeline.get("edges", ()):
        into.setdefault(after, []).append(before)
    first = ""
    for end in ends:
        for path in _paths_to(end, into, 0):
            line = f" {look.arrow} ".join(labels.get(one, one) for one in path)
            shared = _shared(first, line, look.arrow)
            yield " " * shared + line[shared:]
            first = first or line


def _checkpoint_lines(job: Job, look: Look) -> Iterator[Text]:
    figures = (job.get("status") or {}).get("checkpoints") or {}
    if not figures:
        return
    ago = figures.get("last_completed_ago_s")
    text = f"  checkpoints  {figures.get('completed', 0):,} completed, {figures.get('failed', 0):,} failed"
    if ago is not None:
        text += (
            f"; number {figures['last_number']}, {span(ago)} ago, took {figures['last_duration_s']:g} s for "
            f"{size(figures['last_state_bytes'])}"
        )
    yield Text(text)
    history = job.get("checkpoints") or ()
    if history:
        yield Text(
            "               " + sparkline(history, look) + "  how long each took, x is one that failed", style="dim"
        )


def sparkline(history: Sequence[Mapping[str, Any]], look: Look) -> str:
    """How long checkpoints took, the newest last."""
    steps = ".:|" if look.ascii_only else "▁▂▃▄▅▆▇█"
    longest = max((float(one["duration_s"]) for one in history if one["status"] == "completed"), default=0.0)
    shown = ""
    for one in history:
        part = float(one["duration_s"]) / longest if longest else 0.0
        shown += "x" if one["status"] != "completed" else steps[min(len(steps) - 1, int(part * len(steps)))]
    return shown


def _sink_lines(status: Mapping[str, Any]) -> Iterator[Text]:
    sinks = status.get("sinks") or {}
    for name, figures in (sinks.get("each") or {}).items():
        if name == DEAD_LETTER:
            continue  # told below
        text = f"{figures.get('rows', 0):,} rows"
        if figures.get("failures"):
            text += f", {figures['failures']:,} failures"
        yield Text(f"  sink         {name}: {text}")
    if sinks.get("dead_letters"):
        yield Text(f"  refused      {counted(sinks['dead_letters'], 'record', 'records')} went to the dead letters")


def _session_lines(job: Job) -> Iterator[Text]:
    source = (job.get("status") or {}).get("source") or {}
    if source.get("collector"):
        since = source.get("collector_for_s")
        yield Text(f"  collector    {source['collector']}" + (f" for {span(since)}" if since is not None else ""))
    elif "port" in source:
        ended = [one for one in job.get("sessions") or () if one.get("ended_ms")]
        last = f"; the last, {ended[-1]['peer']}, ended: {ended[-1]['reason'] or 'no reason known'}" if ended else ""
        yield Text(f"  collector    none on port {source['port']}{last}")


def _paths_to(end: str, into: Mapping[str, list[str]], depth: int) -> Iterator[list[str]]:
    """Every way that leads to a node; a picture has no circles, and a wrong one ends."""
    before = into.get(end, [])
    if not before or depth > 50:
        yield [end]
        return
    for one in before:
        for path in _paths_to(one, into, depth + 1):
            yield [*path, end]


def _shared(first: str, line: str, arrow: str) -> int:
    """Where the second line leaves the first: at an arrow."""
    same = next((at for at, pair in enumerate(zip(first, line, strict=False)) if pair[0] != pair[1]), 0)
    return max(0, line.rfind(arrow, 0, same + 1)) if first else 0
