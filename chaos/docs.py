"""docs/chaos.md: the table, made from the results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chaos.rows import ROWS, Row

RUNS = 20
"""So many runs make a row complete."""
PAGE = Path(__file__).parents[1] / "docs" / "chaos.md"
_HEAD = (
    "| row | fault | sink | runs | faults | lines | lost | promises broken | doubled | back after: half, all |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)


def write_table(results: Path, page: Path = PAGE) -> None:
    """Put the table of all results between the two comments of the page."""
    put_between(page, "table", table({row.name: _read(results / f"{row.name}.jsonl") for row in ROWS}))


def put_between(page: Path, name: str, text: str) -> None:
    """Replace what is between `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError where one is missing."""
    before, begin, rest = page.read_text().partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not (begin and end):
        raise ValueError(f"{page} has no part {name}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """The table; a row without runs says so, one with fewer than 20 says how many."""
    return _HEAD + "".join(_line(row, results.get(row.name, [])) for row in ROWS)


def seeds(results: Path, row: Row) -> list[int]:
    """Seeds of a row that have been run."""
    return [run["seed"] for run in _read(results / f"{row.name}.jsonl")]


def _line(row: Row, runs: list[dict[str, Any]]) -> str:
    said = [f"`{row.name}`", row.fault, row.sink]
    if not runs:
        return "| " + " | ".join([*said, "not run yet", *[""] * 6]) + " |\n"
    count = str(len(runs)) if len(runs) >= RUNS else f"only {len(runs)}"
    sums = [sum(run[key] for run in runs) for key in ("strikes", "written", "lost", "broken", "doubled")]
    cells = [*said, count, *(f"{one:,}" for one in sums), _times(run["recover_s"] for run in runs)]
    return "| " + " | ".join(cells) + " |\n"


def _times(found: Iterable[float | None]) -> str:
    times = list(found)
    known = [one for one in times if one is not None]
    if not known:
        return "never"
    text = f"{statistics.median(known):.1f} s, {max(known):.1f} s"
    return text if len(known) == len(times) else f"{text}; {len(times) - len(known)} never"


def _read(path: Path) -> list[dict[str, Any]]:
    """One run a seed: the newest."""
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines() if line]
    return list({run["seed"]: run for run in found}.values())
