"""What the figures of a soak say: sentences for docs/soak.md, and what is wrong with them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

MOST_MB_PER_HOUR = 1.0
MOST_FILES_PER_HOUR = 1.0
SHORTEST_S = 1800.0
"""A slope of less time says more about the last minute than about an hour."""
_WIDTH = 130
MOST_MB_OF_CONNECTS = 4.0
MOST_FILES_OF_CONNECTS = 4


def problems(figures: Mapping[str, Any]) -> list[str]:
    """What must not be."""
    found = [f"{figures[key]} {key}" for key in ("lost", "doubled", "strange") if figures.get(key)]
    if "recovered_s" in figures and figures["recovered_s"] is None:
        found.append("not everything was confirmed in the end")
    if figures["part"] == "cycle" and figures["ended_by_itself"]:
        found.append(f"processes ended by themselves: {figures['ended_by_itself']}")
    if any(figures.get("stopped", ())):
        found.append(f"exit codes {figures['stopped']}")
    if figures["part"] == "cycle" and figures["seconds"] >= SHORTEST_S:
        for name, one in figures["processes"].items():
            if one["rss_mb_per_hour"] >= MOST_MB_PER_HOUR:
                found.append(f"{name} grows by {one['rss_mb_per_hour']} MB an hour")
            if one["files_per_hour"] >= MOST_FILES_PER_HOUR:
                found.append(f"{name} opens {one['files_per_hour']} descriptors more an hour")
    if figures["part"] == "connects":
        if figures["rss_mb_grown"] > MOST_MB_OF_CONNECTS:
            found.append(f"{figures['rss_mb_grown']} MB stayed behind")
        if figures["files_grown"] > MOST_FILES_OF_CONNECTS:
            found.append(f"{figures['files_grown']} descriptors stayed behind")
    return found


def _processes(figures: Mapping[str, Any]) -> str:
    head = (
        "| process | RSS after the warm-up | at the end | most | slope | descriptors | most | slope |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {name} | {one['rss_mb_first']} MB | {one['rss_mb_last']} MB | {one['rss_mb_most']} MB | "
        f"{one['rss_mb_per_hour']:+.2f} MB/h | {one['files_first']} | {one['files_most']} | "
        f"{one['files_per_hour']:+.2f}/h |\n"
        for name, one in figures["processes"].items()
        if one["samples"]
    )


def _cycle(figures: Mapping[str, Any]) -> str:
    return (
        f"On {figures['day']}: {figures['seconds'] / 60:.0f} minutes, of which the first "
        f"{figures['warm_up_s'] / 60:.0f} do not count for the slopes; {figures['faults']} faults, "
        f"{figures['written']:,} lines. Lost: {figures['lost']}. Doubled: {figures['doubled']}. "
        f"All confirmed {figures['recovered_s']} s after the last line.\n\n{_processes(figures)}"
    )


def _slow_sink(figures: Mapping[str, Any]) -> str:
    return (
        f"On {figures['day']}: {figures['seconds'] / 60:.0f} minutes with a sink that took some "
        f"{figures['rows_a_second']:,} rows a second of {figures['rate']:,}; {figures['written']:,} lines, the most "
        f"that waited: {figures['most_waiting']:,}. Then the disk was quick again, and all was confirmed after "
        f"{figures['recovered_s']} s. Lost: {figures['lost']}. Doubled: {figures['doubled']}.\n\n{_processes(figures)}"
    )


def _many_sources(figures: Mapping[str, Any]) -> str:
    return (
        f"On {figures['day']}: {figures['sources']} jobs in one process were listening after {figures['ready_s']} s. "
        f"Idle: {figures['idle_rss_mb']} MB, {figures['idle_threads']} threads, {figures['idle_cpu_percent']} % of a "
        f"core. Then {figures['seconds']:.0f} s with a collector for each: {figures['written']:,} records, "
        f"{figures['busy_rss_mb']} MB, all confirmed {figures['recovered_s']} s after the last. "
        f"Lost: {figures['lost']}. Doubled: {figures['doubled']}.\n"
    )


def _connects(figures: Mapping[str, Any]) -> str:
    return (
        f"On {figures['day']}: {figures['connects']:,} connections from {figures['addresses']} addresses in "
        f"{figures['seconds']} s ({figures['connects_a_second']:,} a second), each closed with RST. A collector came "
        f"{figures['visits']} times in between, and {figures['written']:,} records were confirmed. Memory before "
        f"{figures['rss_mb_before']} MB, after {figures['rss_mb_after']} MB; descriptors before "
        f"{figures['files_before']}, after {figures['files_after']}.\n"
    )


def text_of(figures: Mapping[str, Any]) -> str:
    """What docs/soak.md says of a run."""
    sentences, _, table = _TEXTS[figures["part"]](figures).partition("\n")
    return textwrap.fill(sentences, _WIDTH) + "\n" + table


_TEXTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "cycle": _cycle,
    "slow-sink": _slow_sink,
    "many-sources": _many_sources,
    "connects": _connects,
}
