"""Growth: what a record costs must not depend on how large the queue may get, nor on how many ids have been seen."""

from __future__ import annotations

import argparse
from statistics import median

from bench.harness.machine import resident_bytes
from bench.harness.measure import Load, Run, Series, Slice
from bench.harness.report import PartResult, Table, Verdict, count, figure
from bench.harness.servers import product
from bench.parts.part import Context, Part

QUEUES = (1024, 16384, 131072, 1048576)
SLICES = 10
FLAT = 1.25
"""The dearest may cost this much of the cheapest: more than the windows of one server differ among themselves."""


def cost(run: Run | Slice) -> float:
    """Nanoseconds a record: CPU time where the system tells it, else elapsed time on the server's CPU."""
    return run.cpu_ns if run.cpu_ns is not None else 1e9 / max(run.rate, 1.0)


def across_queues(context: Context, command: tuple[str, ...]) -> tuple[Table, Verdict, list[dict[str, object]]]:
    """The same load on servers that differ in the capacity of their queue, in alternating windows."""
    options = context.options
    load = Load("full", options.growth_payload, seconds=options.seconds, warmup=options.warmup)
    with context.servers([product(command, queue) for queue in QUEUES]) as servers:
        rows = context.bench.alternate(servers, load)
        memory = [resident_bytes(server.process.pid) for server in servers]

    def cells(row: Series, resident: int | None) -> list[str]:
        megabytes = None if resident is None else resident / 1e6
        refused = row.median(lambda run: run.refused_share) or 0.0
        return [
            f"{row.server.spec.queue:,}",
            count(row.median(lambda run: run.rate)),
            figure(row.median(cost)),
            f"{refused:.1%}",
            figure(megabytes),
        ]

    costs = [row.median(cost) or 0.0 for row in rows]
    head = ["queue", "records/s", "CPU ns/record", "refused", "resident MB"]
    table = Table(
        f"Growth: capacity of the queue ({load.payload} B, full pipelining)",
        head,
        [cells(row, resident) for row, resident in zip(rows, memory, strict=True)],
    )
    verdict = Verdict("cost of a record, dearest queue / cheapest", max(costs) / max(min(costs), 1e-9), FLAT, False)
    return (
        table,
        verdict,
        [{"queue": row.server.spec.queue, "cost_ns": [cost(run) for run in row.runs]} for row in rows],
    )


def across_ids(context: Context, command: tuple[str, ...]) -> tuple[Table, Verdict, list[dict[str, object]]]:
    """One connection that sends very many ids to one server: its first tenth against its last."""
    options = context.options
    ids = max(options.ids, SLICES)
    warm = Load("full", options.growth_payload, seconds=options.seconds, warmup=options.warmup)
    long = Load("full", options.growth_payload, records=ids, slices=SLICES)
    with context.servers([product(command, 65536)]) as (server,):
        context.bench.run(server, warm)
        before = resident_bytes(server.process.pid)
        run = context.bench.run(server, long)
        after = resident_bytes(server.process.pid)
    rows = [
        [f"{(n + 1) * ids // SLICES:,}", count(piece.rate), figure(cost(piece))] for n, piece in enumerate(run.slices)
    ]
    note = f"Resident memory before {figure(before and before / 1e6)} MB, after {figure(after and after / 1e6)} MB."
    table = Table(
        f"Growth: ids seen ({long.payload} B, {ids:,} ids)", ["ids", "records/s", "CPU ns/record"], rows, notes=[note]
    )
    middle = median(cost(piece) for piece in run.slices)
    context.echo(f"ids seen: the median tenth costs {middle:.0f} ns a record")
    first, last = cost(run.slices[0]), cost(run.slices[-1])
    verdict = Verdict(f"cost of a record, last tenth of {ids:,} ids / first", last / max(first, 1e-9), FLAT, False)
    return table, verdict, [{"ids": ids, "cost_ns": [cost(piece) for piece in run.slices], "resident": [before, after]}]


def run(context: Context) -> PartResult:
    """Both growths; nothing without a server under test."""
    if context.product is None:
        return PartResult(notes=["Growth was not measured: there is no server under test."])
    result = PartResult()
    for measure in (across_queues, across_ids):
        table, verdict, raw = measure(context, context.product)
        context.echo(table.render())
        result.tables.append(table)
        result.verdicts.append(verdict)
        result.raw += raw
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--ids", type=int, default=20_000_000, help="how many ids one server sees (default 20,000,000)")
    parser.add_argument(
        "--growth-payload", type=int, default=256, help="payload bytes of the growth part (default 256)"
    )


PART = Part("growth", "cost of a record against queue size and ids seen", run, add_options)
