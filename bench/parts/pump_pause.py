"""How long the pump and the receiver stand still at a barrier: many checkpoints with the default queue half full.

`edgesocket run` with a stop-watch inside (`bench/pause_probe.py`). `read_limit` and a collector that tops the queue up
keep half of the default queue filled, so each checkpoint has that much to cut and to write.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness.build import BENCH
from bench.harness.report import PartResult, Table, Verdict, figure
from bench.harness.servers import TOKEN, Server, ServerSpec
from bench.parts.part import Context, Part

QUEUE = 1024
"""The default of `local_queue_capacity`."""
TARGET_MS = 20.0
RATE = 200
"""Records a second that flow, so that every checkpoint has news."""
PAYLOADS = (256, 16384)
SINKS = {"Null": "Null {{}}", "LocalFile": 'LocalFile {{ path = "{dir}/out", file_format_type = text }}'}
GIVE_UP_S = 300.0

JOB = """\
env {{ job.name = "bench", job.mode = "STREAMING", checkpoint.interval = 20, read_limit.rows_per_second = %d }}
source {{ EdgeSocket {{ port = {port}, token = "{token}", local_queue_capacity = {queue} }} }}
sink {{ %s }}
"""


def spec_for(sink: str, payload: int, checkpoints: int) -> ServerSpec:
    """The product with the stop-watch, and this sink."""
    command = (sys.executable, str(BENCH / "pause_probe.py"), "{job}", "{dir}/pauses.json", str(checkpoints))
    return ServerSpec("pause", f"{sink} {payload} B", command, QUEUE, job=JOB % (RATE, SINKS[sink]))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so much of all values does not pass."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def drive(server: Server, payload: int, out: Path) -> list[float]:
    """Fill half of the queue and keep it so until the figures are there. Returns the time of each single reply."""
    body = b"x" * payload
    next_id = server.next_id
    replies: list[float] = []
    deadline = time.monotonic() + GIVE_UP_S
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as conversation:
        conversation.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = conversation.makefile("rb")
        conversation.sendall(f"__AUTH__:{TOKEN}\n".encode())
        lines.readline()
        for _ in range(QUEUE // 2):
            conversation.sendall(b"__BATCH__:%d:%s\n" % (next_id, body))
            lines.readline()
            next_id += 1
        due = time.monotonic()
        while not out.exists() and time.monotonic() < deadline:
            server.check()
            due += 1 / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.perf_counter()
            conversation.sendall(b"__BATCH__:%d:%s\n" % (next_id, body))
            taken = lines.readline() == b"RECEIVED\n"
            replies.append(time.perf_counter() - began)
            next_id += taken
        lines.close()
    return replies


def run(context: Context) -> PartResult:
    """Every sink and payload; nothing without the product."""
    result = PartResult()
    if context.product is None:
        result.notes.append("Pump pauses were not measured: there is no server under test.")
        return result
    wanted = 20 if context.options.quick else context.options.checkpoints
    rows: list[list[str]] = []
    for sink in SINKS:
        for payload in PAYLOADS:
            with context.servers([spec_for(sink, payload, wanted)]) as (server,):
                out = server.log.parent / "pauses.json"
                replies = drive(server, payload, out)
                pauses: list[dict[str, Any]] = json.loads(out.read_text())
            title = f"{sink}, {payload} B"
            rows.append(_cells(title, pauses, replies))
            p99 = 1000 * percentile([one["longest_s"] for one in pauses], 0.99)
            result.verdicts.append(Verdict("p99 pump pause at a checkpoint, ms", p99, TARGET_MS, False, title))
            result.raw.append({"sink": sink, "payload": payload, "pauses": pauses, "replies_s": replies})
    head = ["sink, payload", "p50 ms", "p99 ms", "longest ms", "whole p99 ms", "cut p99 ms", "reply p99 ms", "queued"]
    head.append("state MB")
    table = Table(
        f"Standing still at {wanted} checkpoints, queue of {QUEUE:,} half full",
        head,
        rows,
        notes=[
            "*p50*, *p99*, *longest*: the longest stretch of a checkpoint in which no rows flow. *Whole*: all of its "
            "stretches together. *Cut*: how long the receiver has to wait. *Reply*: single lines, sent all the time."
        ],
    )
    context.echo(table.render())
    result.tables.append(table)
    return result


def _cells(title: str, pauses: Sequence[dict[str, Any]], replies: Sequence[float]) -> list[str]:
    def ms(name: str, share: float) -> str:
        return figure(1000 * percentile([one[name] for one in pauses], share), 2)

    middle = pauses[len(pauses) // 2]
    return [
        title,
        ms("longest_s", 0.5),
        ms("longest_s", 0.99),
        ms("longest_s", 1.0),
        ms("total_s", 0.99),
        ms("cut_s", 0.99),
        figure(1000 * percentile(replies, 0.99), 2),
        str(middle["queued"]),
        figure(middle["state_bytes"] / 1e6, 2),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--checkpoints", type=int, default=100, help="checkpoints that are timed (default 100)")


PART = Part("pump_pause", "standing still at a checkpoint", run, add_options)
