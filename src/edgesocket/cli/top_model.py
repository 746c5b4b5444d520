"""What `edgesocket top` shows: jobs as /api/jobs has them, what is to be seen of them, and the columns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgesocket.cli.verdict import Trouble, size, span, troubles

Job = Mapping[str, Any]
"""One job as /api/jobs has it."""

BAR_CELLS = 10
STATES = {
    "running": "green",
    "starting": "cyan",
    "stopping": "cyan",
    "restarting": "yellow",
    "ended": "dim",
    "failed": "bold red",
    "fenced": "bold red",
    "unknown": "bold red",
}
"""Every state, and how it is coloured. What is red or yellow comes first when jobs are sorted by state."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is known at one moment.

    Attributes:
        jobs: every job, as /api/jobs has it.
        host: where this is.
        clock: the time of day, for people.
        problems: why some jobs could not be asked.
        log: the newest lines of the chosen job's log.
    """

    jobs: Sequence[Job]
    host: str = ""
    clock: str = ""
    problems: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What is to be seen: what keys change.

    Attributes:
        chosen: name of the chosen job.
        sort: name of the column that orders the jobs.
        reverse: in the other order.
        filter_text: only jobs with this in name, state or collector.
        typing: the filter is being typed.
        details, log, help: what is shown besides the table.
        paused: the figures stand still.
    """

    chosen: str = ""
    sort: str = "JOB"
    reverse: bool = False
    filter_text: str = ""
    typing: bool = False
    details: bool = True
    log: bool = False
    help: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """How it is drawn: width and height in cells (height 0: as long as it gets), and whether only in ASCII."""

    width: int = 100
    height: int = 0
    ascii_only: bool = False

    @property
    def arrow(self) -> str:
        """Between the parts of a pipeline."""
        return "->" if self.ascii_only else "→"

    def bar(self, part: float) -> str:
        """A part of one as a bar."""
        full = min(BAR_CELLS, max(0, round(part * BAR_CELLS)))
        filled, empty = ("#", ".") if self.ascii_only else ("█", "░")
        return filled * full + empty * (BAR_CELLS - full)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what its cell says, what orders it, and how dear it is (0 is never left out)."""

    name: str
    cell: Callable[[Job, Look], str]
    order: Callable[[Job], Any]
    rank: int
    right: bool = False
    style: Callable[[Job], str] = field(default=lambda _: "")


def arrange(jobs: Sequence[Job], view: View) -> list[Job]:
    """The jobs that are shown, in order."""
    wanted = view.filter_text.casefold()
    shown = [job for job in jobs if wanted in _searched(job)]
    column = next((one for one in COLUMNS if one.name == view.sort), COLUMNS[0])
    return sorted(sorted(shown, key=lambda job: str(job["name"])), key=column.order, reverse=view.reverse)


def next_sort(view: View) -> View:
    """Sorted by the next column; figures with the largest first."""
    names = [column.name for column in COLUMNS]
    column = COLUMNS[(names.index(view.sort) + 1) % len(names)]
    return replace(view, sort=column.name, reverse=column.right)


def job_troubles(job: Job) -> list[Trouble]:
    """What is wrong with a job, also with one that does not run."""
    name, state = str(job["name"]), str(job["state"])
    if state in ("failed", "fenced", "unknown"):
        return [Trouble(str(job.get("last_error") or "its process ended without a word"), f"edgesocket status {name}")]
    if state == "ended":
        return []
    found = troubles(name, {**(job.get("status") or {}), "state": state})
    holds = job.get("holds")
    if holds and holds.get("what_to_do") and holds["state"] in ("held", "lost", "gap"):
        found = [
            replace(one, to_do=str(holds["what_to_do"])) if one.what.startswith(f"batch {holds['id']} (") else one
            for one in found
        ]
    return found


# ---- cells ---------------------------------------------------------------------------------------------------------


def _searched(job: Job) -> str:
    collector = ((job.get("status") or {}).get("source") or {}).get("collector") or ""
    return f"{job['name']} {job['state']} {collector}".casefold()


def _source(job: Job) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (job.get("status") or {}).get("source") or {}
    return found


def _rate(job: Job, name: str) -> float:
    return float((job.get("rates") or {}).get(name) or 0.0)


def short(number: float) -> str:
    """A figure in few letters: 12.3k."""
    for limit, divisor, unit in ((1e4, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if number < limit:
            return f"{number:.0f}" if not unit else f"{number / divisor:.3g}{unit}"
    return f"{number:.1e}"


def _queue_part(job: Job) -> float:
    queue = _source(job).get("queue") or {}
    mark = queue.get("high_water_mark") or 0
    return queue.get("records", 0) / mark if mark else 0.0


def queue_text(job: Job, look: Look) -> str:
    """How full the queue is: a bar, the records, and the mark."""
    queue = _source(job).get("queue") or {}
    if not queue:
        return ""
    return f"{look.bar(_queue_part(job))} {short(queue.get('records', 0))}/{short(queue.get('high_water_mark', 0))}"


def behind(job: Job) -> int:
    """How many batches have been offered above the confirmed watermark."""
    source = _source(job)
    return max(0, int(source.get("highest_offered") or 0) - int(source.get("watermark") or 0))


def _oldest_s(job: Job) -> float:
    """How long the watermark has waited: for the oldest record, or for a batch that is not here."""
    source = _source(job)
    holder = source.get("holder") or {}
    return float(max((source.get("oldest_unconfirmed") or {}).get("age_s") or 0.0, holder.get("since_s") or 0.0))


def _checkpoint_text(job: Job, _: Look) -> str:
    figures = (job.get("status") or {}).get("checkpoints") or {}
    ago = figures.get("last_completed_ago_s")
    return "" if ago is None else f"#{figures.get('last_number', 0)} {span(ago)}"


def _checkpoint_age(job: Job) -> float:
    return float(((job.get("status") or {}).get("checkpoints") or {}).get("last_completed_ago_s") or 0.0)


def _state_order(job: Job) -> int:
    return list(STATES).index(str(job["state"])) if job["state"] in STATES else len(STATES)


def _queue_style(job: Job) -> str:
    part = _queue_part(job)
    return "bold red" if part >= 1 else "yellow" if part >= 0.5 else ""


COLUMNS = (
    Column("JOB", lambda job, _: str(job["name"]), lambda job: str(job["name"]), 0),
    Column(
        "STATE",
        lambda job, _: str(job["state"]),
        _state_order,
        1,
        style=lambda job: STATES.get(str(job["state"]), ""),
    ),
    Column(
        "IN/S",
        lambda job, _: short(_rate(job, "received_records_per_s")),
        lambda job: _rate(job, "received_records_per_s"),
        2,
        right=True,
    ),
    Column(
        "BYTES/S",
        lambda job, _: size(_rate(job, "received_bytes_per_s")),
        lambda job: _rate(job, "received_bytes_per_s"),
        7,
        right=True,
    ),
    Column("QUEUE", queue_text, _queue_part, 3, style=_queue_style),
    Column("BEHIND", lambda job, _: short(behind(job)), behind, 4, right=True),
    Column(
        "OLDEST",
        lambda job, _: span(_oldest_s(job)) if _oldest_s(job) else "",
        _oldest_s,
        6,
        right=True,
    ),
    Column("CHECKPOINT", _checkpoint_text, _checkpoint_age, 5),
    Column(
        "OUT/S",
        lambda job, _: short(_rate(job, "written_rows_per_s")),
        lambda job: _rate(job, "written_rows_per_s"),
        8,
        right=True,
    ),
    Column(
        "REFUSED",
        lambda job, _: short(((job.get("status") or {}).get("sinks") or {}).get("dead_letters") or 0),
        lambda job: ((job.get("status") or {}).get("sinks") or {}).get("dead_letters") or 0,
        10,
        right=True,
    ),
    Column(
        "COLLECTOR",
        lambda job, _: str(_source(job).get("collector") or "-"),
        lambda job: str(_source(job).get("collector") or ""),
        9,
    ),
)
"""The columns, in the order they stand."""
