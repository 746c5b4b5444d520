"""Tables and verdicts, as Markdown that also reads well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured.

    Attributes:
        target: the rule in words.
        measured: the figure, or None when it was not measured in this run.
        limit: what the figure is compared with.
        at_least: True if the figure must reach the limit, False if it must not pass it.
        where: which cell decided.
    """

    target: str
    measured: float | None
    limit: float
    at_least: bool = True
    where: str = ""

    @property
    def word(self) -> str:
        """PASS, MISS, or that there is nothing to judge."""
        if self.measured is None:
            return "not measured"
        met = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "PASS" if met else "MISS"

    def cells(self) -> list[str]:
        """As a row."""
        measured = "" if self.measured is None else f"{self.measured:.2f}"
        return [self.word, self.target, f"{'>=' if self.at_least else '<='} {self.limit:g}", measured, self.where]


@dataclass(frozen=True)
class Table:
    """A table with a heading; the columns `text` are aligned to the left, figures to the right."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Sequence[int] = (0,)
    notes: Sequence[str] = ()

    def render(self) -> str:
        """As Markdown, its columns padded to line up."""
        rows = [list(self.head), *map(list, self.rows)]
        widths = [max(len(row[n]) for row in rows) for n in range(len(self.head))]
        rule = ["-" * w if n in self.text else "-" * (w - 1) + ":" for n, w in enumerate(widths)]

        def line(cells: Sequence[str]) -> str:
            padded = [
                c.ljust(w) if n in self.text else c.rjust(w) for n, (c, w) in enumerate(zip(cells, widths, strict=True))
            ]
            return f"| {' | '.join(padded)} |"

        body = "\n".join([line(rows[0]), line(rule), *map(line, rows[1:])])
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"### {self.title}\n{notes}\n{body}\n"


@dataclass
class PartResult:
    """What a part hands back: tables for people, verdicts, and raw figures for the JSON file."""

    tables: list[Table] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: list[dict[str, object]] = field(default_factory=list)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """All targets with their word."""
    head = ["", "target", "wanted", "measured", "where"]
    return Table("Targets", head, [verdict.cells() for verdict in verdicts], text=(0, 1, 4))


def worst(found: Sequence[tuple[float | None, str]], *, at_least: bool) -> tuple[float | None, str]:
    """The figure of several cells that is furthest from its target, and where it was found."""
    known = [(figure, where) for figure, where in found if figure is not None]
    if not known:
        return None, ""
    return (min if at_least else max)(known, key=lambda pair: pair[0])


def count(value: float | None) -> str:
    """1_234_567 as 1.23 M, 12_345 as 12.3 k."""
    if value is None:
        return ""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            scaled = value / size
            return (
                f"{scaled:.2f} {unit}"
                if scaled < 10
                else f"{scaled:.1f} {unit}"
                if scaled < 100
                else f"{scaled:.0f} {unit}"
            )
    return f"{value:.0f}"


def figure(value: float | None, digits: int = 0) -> str:
    """A figure with so many decimals, empty for None."""
    return "" if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """A share as a percentage, empty for None."""
    return "" if value is None else f"{value:.0%}"
