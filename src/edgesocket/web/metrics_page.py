"""The tables of docs/metrics.md, made from the catalogue of metrics and the kinds of events.

A table stands between two markers, `<!-- metrics -->` and `<!-- /metrics -->`, or `events` in their place. After a
change of a metric or an event write them anew with `python -m edgesocket.web.metrics_page`; with `--check` nothing is
written, and a stale page makes it exit with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import edgesocket.net.events
import edgesocket.telemetry.events  # noqa: F401 - both define kinds
from edgesocket.telemetry.event import EventKind, kinds
from edgesocket.telemetry.metrics import BUILD_INFO, METRICS, Metric

PAGE = Path("docs/metrics.md")


def metrics_table() -> Iterator[str]:
    """Every metric, in the order of the catalogue."""
    yield "| metric | kind | labels | what it is | read from |"
    yield "|---|---|---|---|---|"
    for metric in (*METRICS, BUILD_INFO):
        yield _row(metric)


def events_table() -> Iterator[str]:
    """Every kind of event, those first that want the most."""
    yield "| event | level | what happened | what to do |"
    yield "|---|---|---|---|"
    for kind in sorted(kinds(), key=lambda kind: (-kind.level, kind.name)):
        yield _event_row(kind)


TABLES: dict[str, Callable[[], Iterator[str]]] = {"metrics": metrics_table, "events": events_table}


def fill_page(page: str) -> str:
    """The page with its tables made anew."""
    for name, table in TABLES.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = "\n".join(table())
        page = block.sub(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)  # type: ignore[misc]
    return page


def main(arguments: Sequence[str]) -> int:
    """Write the page anew, or check it. Returns the exit code."""
    old = PAGE.read_text(encoding="utf-8")
    new = fill_page(old)
    if "--check" in arguments:
        if old != new:
            print(f"{PAGE} is stale: python -m edgesocket.web.metrics_page", file=sys.stderr)  # noqa: T201
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.help} | {metric.origin} |"


def _event_row(kind: EventKind) -> str:
    return f"| `{kind.name}` | {kind.level} | {_escaped(kind.meaning)} | {_escaped(kind.what_to_do)} |"


def _escaped(text: str) -> str:
    # Braces hold a field of the event, which the log fills in.
    return re.sub(r"\{(\w+)[^}]*\}", r"<\1>", text).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
