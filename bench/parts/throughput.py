"""Throughput and reply times: the product beside what it is compared with, in alternating windows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.measure import Load, Run, Series
from bench.harness.report import PartResult, Table, Verdict, count, figure, percent, worst
from bench.harness.servers import ServerSpec, comparison_servers, product
from bench.parts.part import Context, Part

PAYLOADS = (64, 256, 1024, 16384)
MODES = ("full", "window", "stop")
MODE_NAMES = {"full": "full pipelining", "window": "a window of 64", "stop": "stop-and-wait"}
QUEUES = (1024, 65536)
DEFAULT_SERVERS = "raw,blind,list,stream,product"

HEAD = ["server", "records/s", "spread", "MB/s", "p50 us", "p99 us", "CPU ns/record", "server busy", "generator busy"]
HEAD += ["refused", "of blind", "x list"]


@dataclass(frozen=True)
class Only:
    """Which cells to measure: `payload=64|256,mode=full,queue=65536`, every key optional."""

    payloads: tuple[int, ...] = PAYLOADS
    modes: tuple[str, ...] = MODES
    queues: tuple[int, ...] = QUEUES

    @classmethod
    def parse(cls, text: str) -> Only:
        """Read the option.

        Raises:
            argparse.ArgumentTypeError: an unknown key or value; the message says which are known.
        """
        chosen: dict[str, list[str]] = {"payload": [], "mode": [], "queue": []}
        for pair in filter(None, text.split(",")):
            key, _, values = pair.partition("=")
            if key.strip() not in chosen or not values:
                raise argparse.ArgumentTypeError(f"{pair!r}: write payload=, mode= or queue= with values joined by |")
            chosen[key.strip()] += [value.strip() for value in values.split("|")]
        if unknown := [mode for mode in chosen["mode"] if mode not in MODES]:
            raise argparse.ArgumentTypeError(f"mode {unknown[0]!r} is none of {', '.join(MODES)}")
        try:
            return cls(
                tuple(map(int, chosen["payload"])) or PAYLOADS,
                tuple(chosen["mode"]) or MODES,
                tuple(map(int, chosen["queue"])) or QUEUES,
            )
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None


@dataclass
class Cell:
    """All servers under one load."""

    load: Load
    rows: list[Series]

    @property
    def title(self) -> str:
        """The heading of its table."""
        return f"{MODE_NAMES[self.load.mode]}, {self.load.payload} B"

    def row(self, key: str) -> Series | None:
        """The first series of a kind of server."""
        return next((row for row in self.rows if row.server.spec.key == key), None)

    def ratio(self, row: Series, key: str) -> float | None:
        """How a server compares with the yardstick `key`: by reply time in stop-and-wait, else by records/s."""
        yardstick = self.row(key)
        if yardstick is None:
            return None
        return row.ratio(yardstick, (lambda run: run.p50_us) if self.load.mode == "stop" else (lambda run: run.rate))

    def table(self) -> Table:
        """The cell for people."""
        return Table(self.title, HEAD, [self._cells(row) for row in self.rows])

    def _cells(self, row: Series) -> list[str]:
        def server_busy(run: Run) -> float | None:
            used = run.whole.server_cpu_s
            return None if used is None else used / run.whole.seconds

        refused = row.median(lambda run: run.refused_share)
        mark = f" ({row.disturbed_windows} disturbed)" if row.disturbed_windows else ""
        return [
            row.server.spec.title,
            count(row.median(lambda run: run.rate)),
            percent(row.spread()) + mark,
            figure(row.median(lambda run: run.wire_mb)),
            figure(row.median(lambda run: run.p50_us), 1),
            figure(row.median(lambda run: run.p99_us), 1),
            figure(row.median(lambda run: run.cpu_ns)),
            percent(row.median(server_busy)),
            percent(row.median(lambda run: run.generator_busy)),
            percent(refused) if refused else "0",
            "" if row.server.spec.key == "raw" else figure(self.ratio(row, "blind"), 2),
            "" if row.server.spec.key == "raw" else figure(self.ratio(row, "list"), 2),
        ]

    def raw(self) -> list[dict[str, object]]:
        """The cell for programs."""
        return [
            {
                "payload": self.load.payload,
                "mode": self.load.mode,
                "server": row.server.spec.key,
                "queue": row.server.spec.queue,
                "rates": [run.rate for run in row.runs],
                "cpu_ns": [run.cpu_ns for run in row.runs],
                "p50_us": [run.p50_us for run in row.runs],
                "p99_us": [run.p99_us for run in row.runs],
                "refused": [run.refused_share for run in row.runs],
                "disturbed": [run.disturbed for run in row.runs],
            }
            for row in self.rows
        ]


def specs_for(context: Context, only: Only) -> list[ServerSpec]:
    """The servers asked for; the product once for each queue."""
    known = comparison_servers(context.tools)
    specs: list[ServerSpec] = []
    for key in context.options.servers.split(","):
        if key == "product" and context.product:
            specs += [product(context.product, queue) for queue in only.queues]
        elif key in known:
            specs.append(known[key])
    return specs


def product_ratios(cells: Sequence[Cell], mode: str, payload: int | None, key: str) -> list[tuple[float | None, str]]:
    """The product's ratio to a yardstick in every cell of a mode (and payload), and where that is."""

    def where(cell: Cell, row: Series) -> str:
        mark = ", disturbed" if any(other.disturbed_windows for other in (row, cell.row(key)) if other) else ""
        return f"{cell.title}, queue {row.server.spec.queue:,}{mark}"

    return [
        (cell.ratio(row, key), where(cell, row))
        for cell in cells
        if cell.load.mode == mode and payload in (None, cell.load.payload)
        for row in cell.rows
        if row.server.spec.key == "product"
    ]


def judge(cells: Sequence[Cell]) -> list[Verdict]:
    """The targets; the worst cell that a target speaks of decides."""
    targets = [
        ("256 B, full pipelining: share of the blind answers", "full", 256, "blind", 0.4, True),
        ("256 B, full pipelining: times a server that takes a line at a time", "full", 256, "stream", 10.0, True),
        ("256 B, full pipelining: times a server that splits chunks into lines", "full", 256, "list", 10.0, True),
        ("16 KiB, full pipelining: share of the blind answers", "full", 16384, "blind", 0.7, True),
        ("stop-and-wait: p50 against the blind answers", "stop", None, "blind", 1.3, False),
        ("window of 64: share of the blind answers", "window", None, "blind", 0.5, True),
    ]
    verdicts = []
    for target, mode, payload, key, limit, at_least in targets:
        measured, where = worst(product_ratios(cells, mode, payload, key), at_least=at_least)
        verdicts.append(Verdict(target, measured, limit, at_least, where))
    return verdicts


def run(context: Context) -> PartResult:
    """Measure every cell that was asked for."""
    options = context.options
    only: Only = options.only or (Only(payloads=(256,), queues=(65536,)) if options.quick else Only())
    specs = specs_for(context, only)
    cells: list[Cell] = []
    for payload in only.payloads:
        for mode in only.modes:
            load = Load(mode, payload, seconds=options.seconds, warmup=options.warmup)
            chosen = [spec for spec in specs if spec.replies or mode == "full"]
            with context.servers(chosen) as servers:
                cell = Cell(load, context.bench.alternate(servers, load))
            context.echo(cell.table().render())
            cells.append(cell)
    return PartResult(
        tables=[cell.table() for cell in cells],
        verdicts=judge(cells),
        notes=[
            "Ratios are medians over the rounds; in stop-and-wait they compare p50 (lower is better), else records/s.",
            f"Replies that were not RECEIVED: {complaints(cells)}.",
        ],
        raw=[figures for cell in cells for figures in cell.raw()],
    )


def complaints(cells: Sequence[Cell]) -> str:
    """Which servers refused lines, and with which words."""
    found = {
        f"{row.server.spec.title}: {run.queue_full} QUEUE_FULL, {run.other} other ({run.other_sample})"
        for cell in cells
        for row in cell.rows
        for run in row.runs
        if run.other or run.queue_full
    }
    return "; ".join(sorted(found)[:5]) or "none"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument(
        "--only",
        type=Only.parse,
        metavar="CELLS",
        help="only these cells, e.g. 'payload=64|256,mode=full,queue=65536' (modes: full, window, stop)",
    )
    parser.add_argument(
        "--servers",
        default=DEFAULT_SERVERS,
        help=f"which servers, of raw, blind, list, stream, asyncio, product (default: {DEFAULT_SERVERS})",
    )


PART = Part("throughput", "records/s and reply times beside the comparison servers", run, add_options)
