"""The picture of `edgesocket top`: from the JSON of /api/jobs to what is drawn. Pure: no terminal, no clock, no file.

A job is one line; the chosen one is shown whole below. Narrow terminals lose the columns that matter least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from edgesocket.cli.top_details import job_lines
from edgesocket.cli.top_model import COLUMNS, Frame, Job, Look, View, arrange, job_troubles

LOG_LINES = 8

KEYS = "q quit  up/down choose  enter details  s sort  r reverse  / filter  p pause  l log  ? help"

HELP = (
    "q, Ctrl-C    end",
    "up, down     choose a job (k, j too; Home, End)",
    "Enter        show or hide the chosen job below",
    "s            sort by the next column; r turns the order round",
    "/            filter by a part of name, state or collector; Enter keeps it, Esc drops it",
    "p            pause, and go on",
    "l            show or hide the newest lines of the job's log",
    "?            this help",
    "",
    "QUEUE        records that wait, of those that fit before collectors are answered QUEUE_FULL",
    "BEHIND       batches offered and not confirmed by a checkpoint yet",
    "OLDEST       for how long the oldest of them has waited",
    "CHECKPOINT   number of the last one, and how long ago it completed",
    "!            something holds records up: choose the job, and read what to do",
)


def draw(frame: Frame, view: View, look: Look) -> RenderableType:
    """The whole picture."""
    shown = arrange(frame.jobs, view)
    head = [_title(frame, view), *(Text(f"! {problem}", style="yellow") for problem in frame.problems)]
    if view.help:
        return Group(*head, Text(), *(Text(line) for line in HELP))
    chosen = next((job for job in shown if job["name"] == view.chosen), None)
    details: list[Text] = []
    if chosen is not None and view.details:
        details = [Text(), *job_lines(chosen, look)]
    if view.log:
        details += [Text(), *(Text(line, style="dim") for line in frame.log[-LOG_LINES:])]
    foot = [Text(KEYS, style="dim")] if look.height else []
    table = list(table_lines(shown, view, look))
    if look.height:
        table = _around(table, view, shown, max(2, look.height - len(head) - len(details) - len(foot) - 1))
    if not shown:
        table.append(Text("no job fits the filter" if frame.jobs else "no job has state here", style="dim"))
    return Group(*(_cut(line, look) for line in (*head, *table, *details, *foot)))


def draw_job(job: Job, look: Look) -> RenderableType:
    """One job, whole."""
    return Group(Text(), *(_cut(line, look) for line in job_lines(job, look)))


def table_lines(jobs: Sequence[Job], view: View, look: Look) -> Iterator[Text]:
    """The table: head, and a line a job."""
    cells = [[column.cell(job, look) for column in COLUMNS] for job in jobs]
    widths = [max([len(column.name), *(len(row[at]) for row in cells)]) for at, column in enumerate(COLUMNS)]
    kept = _columns_that_fit(widths, look.width)
    yield Text("  " + "  ".join(_padded(COLUMNS[at].name, widths[at], COLUMNS[at].right) for at in kept), style="bold")
    for job, row in zip(jobs, cells, strict=True):
        grave = any(one.grave for one in job_troubles(job))
        line = Text("! " if grave else "  ", style="bold red" if grave else "")
        for number, at in enumerate(kept):
            column = COLUMNS[at]
            line.append("  " if number else "")
            line.append(_padded(row[at], widths[at], column.right), style=column.style(job))
        if job["name"] == view.chosen:
            line.stylize("reverse")
        yield line


def _title(frame: Frame, view: View) -> Text:
    states: dict[str, int] = {}
    for job in frame.jobs:
        states[str(job["state"])] = states.get(str(job["state"]), 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    title = Text.assemble(
        ("edgesocket", "bold"), f"  {frame.host}  {frame.clock}  {len(frame.jobs)} job{'s' * (len(frame.jobs) != 1)}"
    )
    title.append(f": {counted}" if counted else "")
    title.append(f"  by {view.sort}{' (turned round)' if view.reverse else ''}", style="dim")
    if view.typing or view.filter_text:
        title.append(f"  / {view.filter_text}{'_' if view.typing else ''}", style="bold cyan")
    if view.paused:
        title.append("  PAUSED", style="bold yellow")
    return title


def _columns_that_fit(widths: Sequence[int], width: int) -> list[int]:
    """Which columns are shown: the dearest, as many as fit."""
    kept: list[int] = []
    left = width - 2
    for at in sorted(range(len(COLUMNS)), key=lambda at: COLUMNS[at].rank):
        needed = widths[at] + 2
        if kept and needed > left:
            break
        kept.append(at)
        left -= needed
    return sorted(kept)


def _around(lines: list[Text], view: View, jobs: Sequence[Job], room: int) -> list[Text]:
    """As many lines of the table as there is room for, the chosen job among them."""
    if len(lines) <= room:
        return lines
    rows = room - 1
    at = next((number for number, job in enumerate(jobs) if job["name"] == view.chosen), 0)
    start = min(max(0, at - rows // 2), len(jobs) - rows)
    return [lines[0], *lines[1 + start : 1 + start + rows]]


def _padded(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _cut(line: Text, look: Look) -> Text:
    line.no_wrap = True
    line.truncate(max(1, look.width), overflow="crop" if look.ascii_only else "ellipsis")
    return line
