"""The edge agent: how small it is while nothing happens, how fast from a file to the ACK, and over a long line.

`edgesocket collect` runs on the generator's CPU, the job it delivers to (`Null` sink, a checkpoint every second) on the
server's. Its time is all of it: from the start of the process until it knows that every line is in a completed
checkpoint. In alternating rounds on the same CPUs a bare loop (`bench/edge_loops.py`) sends the same file to
a job of its own of the same kind; its time begins when it is connected and ends with the last RECEIVED.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness.build import BENCH
from bench.harness.machine import cpu_seconds, resident_bytes, settler
from bench.harness.report import PartResult, Table, Verdict, count, figure, percent
from bench.harness.servers import TOKEN, Server, ServerFailedError, ServerSpec, free_port, job_text
from bench.parts.jobs import PATIENT, text_records
from bench.parts.part import Context, Part

FILES = 10
LINE_BYTES = 256
"""With its line feed."""
LOOK_S = 0.2
"""How often the agent is asked whether all is confirmed."""
SETTLE_S = 3.0
"""How long the agent has nothing to do before it is watched."""
ONE_WAY_MS = 25
LONG_LINE_SHARE = 0.25
"""So much of the file goes over the long line."""
GIVE_UP_S = 300.0

MOST_IDLE_MB = 40.0
MOST_IDLE_PERCENT = 1.0
LEAST_SHARE = 0.5
LEAST_GAIN = 100.0


@dataclass
class Rates:
    """Lines/s, round by round: of the agent and of what it is compared with."""

    agent: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    other: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, style: str) -> float:
        """The median of the rounds' ratios."""
        return median(a / b for a, b in zip(self.agent, self.other[style], strict=True))


def spec(command: tuple[str, ...], title: str) -> ServerSpec:
    """A job that throws everything away; it waits for room in its queue rather than refuse a line."""
    job = job_text(PATIENT)
    return ServerSpec("product", title, command, queue=65536, job=job)


def write_lines(path: Path, lines: int) -> None:
    """A log file with so many lines of `LINE_BYTES`."""
    block = b"".join(record[: LINE_BYTES - 1] + b"\n" for record in text_records())
    whole, rest = divmod(lines, block.count(b"\n"))
    with path.open("wb") as file:
        for _ in range(whole):
            file.write(block)
        file.write(block[: rest * LINE_BYTES])


def agent_command(port: int, files: Path, spool: Path, *more: str) -> list[str]:
    """The agent's command line."""
    command = [sys.executable, "-m", "edgesocket", "collect", "--file", str(files), "--from-beginning"]
    return [*command, "--to", f"127.0.0.1:{port}", "--spool", str(spool), *more]


@contextlib.contextmanager
def started(context: Context, command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process on the generator's CPU that is ended at the end."""
    pins = context.bench.pins
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=BENCH.parent,
            env={**os.environ, "EDGESOCKET_TOKEN": TOKEN},
            preexec_fn=settler(pins.generator, pins.nice),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


def measure_idle(context: Context, server: Server, scratch: Path) -> dict[str, float | None]:
    """Megabytes resident and percent of a CPU while it follows files to which nobody writes."""
    for n in range(FILES):
        write_lines(scratch / f"{n}.log", 10)
    port = free_port()
    command = agent_command(server.port, scratch / "*.log", scratch / "spool", "--http-port", str(port))
    with started(context, command, scratch / "agent.txt") as agent:
        deadline = time.monotonic() + GIVE_UP_S
        while confirmed(port) < FILES * 10:
            if agent.poll() is not None or time.monotonic() > deadline:
                raise ServerFailedError(f"the agent did not deliver:\n{(scratch / 'agent.txt').read_text()}")
            time.sleep(0.1)
        time.sleep(SETTLE_S)
        before, began = cpu_seconds(agent.pid), time.monotonic()
        time.sleep(context.options.edge_idle_seconds)
        after, elapsed = cpu_seconds(agent.pid), time.monotonic() - began
        resident = resident_bytes(agent.pid)
    return {
        "resident_mb": None if resident is None else resident / 1e6,
        "cpu_percent": None if before is None or after is None else 100 * (after - before) / elapsed,
    }


def confirmed(http_port: int) -> int:
    """Records the agent knows to be confirmed; 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/status", timeout=5) as answer:
            status: dict[str, Any] = json.loads(answer.read())
    except OSError:
        return 0
    return int(status["delivery"]["confirmed"])


def run_agent(context: Context, port: int, file: Path, lines: int, spool: Path, rates: Rates) -> None:
    """File -> ACK, with a fresh spool: until the agent says that it knows all lines to be confirmed."""
    log, http_port = spool.with_suffix(".txt"), free_port()
    command = agent_command(port, file, spool, "--http-port", str(http_port))
    began = time.monotonic()
    with started(context, command, log) as agent:
        while confirmed(http_port) < lines:
            if agent.poll() is not None or time.monotonic() > began + GIVE_UP_S:
                raise ServerFailedError(f"the agent did not deliver:\n{log.read_text()}")
            time.sleep(LOOK_S)
        elapsed, used = time.monotonic() - began, cpu_seconds(agent.pid)
    rates.agent.append(lines / elapsed)
    if used is not None:
        rates.cpu_us.append(used * 1e6 / lines)
    shutil.rmtree(spool)


def run_loop(
    context: Context, style: str, server: Server, file: Path, rates: Rates, *, port: int = 0, seconds: float = 1.0
) -> None:
    """A bare collector, once; ids of one job rise."""
    pins = context.bench.pins
    command = [sys.executable, "-m", "bench.edge_loops", style, "--token", TOKEN, "--seconds", str(seconds)]
    command += ["--port", str(port or server.port), "--first-id", str(server.next_id), "--file", str(file)]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=BENCH.parent,
        preexec_fn=settler(pins.generator, pins.nice),
        timeout=GIVE_UP_S,
    )
    server.check()
    if ended.returncode:
        raise ServerFailedError(f"the bare loop `{style}` failed:\n{ended.stderr}")
    result = json.loads(ended.stdout)
    if result["other"]:
        raise ServerFailedError(f"the bare loop `{style}` was answered {result['other']!r}")
    server.next_id += result["records"]
    rates.other.setdefault(style, []).append(result["records"] / result["seconds"])


def measure_rate(context: Context, servers: Sequence[Server], file: Path, lines: int) -> Rates:
    """Alternate the agent and the bare loops."""
    rates = Rates()
    styles = ("bare", "blocks")
    for n in range(context.options.windows):
        for style in styles if n % 2 else ():
            run_loop(context, style, servers[1], file, rates)
        run_agent(context, servers[0].port, file, lines, file.parent / f"spool-{n}", rates)
        for style in () if n % 2 else styles:
            run_loop(context, style, servers[1], file, rates)
    return rates


@contextlib.contextmanager
def long_line(context: Context, target: int, log: Path) -> Iterator[int]:
    """A port of a proxy that hands everything on after `ONE_WAY_MS`."""
    port = free_port()
    command = [sys.executable, str(BENCH / "servers" / "delay_proxy.py"), str(port), str(target), str(ONE_WAY_MS)]
    with started(context, command, log) as proxy:
        deadline = time.monotonic() + 30
        while proxy.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield port


def measure_long_line(context: Context, servers: Sequence[Server], file: Path, lines: int) -> Rates:
    """The agent and a collector with one batch a round trip, through a delay."""
    rates = Rates()
    logs = [file.parent / f"proxy-{n}.txt" for n in range(2)]
    with long_line(context, servers[0].port, logs[0]) as first, long_line(context, servers[1].port, logs[1]) as second:
        for n in range(min(3, context.options.windows)):
            run_agent(context, first, file, lines, file.parent / f"far-{n}", rates)
            run_loop(context, "stop", servers[1], file, rates, port=second, seconds=context.options.edge_stop_seconds)
    return rates


def rate_table(title: str, rates: Rates, names: dict[str, str], note: str) -> Table:
    """The agent, and what it is compared with."""
    spread = (max(rates.agent) - min(rates.agent)) / median(rates.agent)
    rows = [["edgesocket collect, file -> ACK", count(median(rates.agent)), percent(spread), ""]]
    if rates.cpu_us:
        rows[0][3] = figure(median(rates.cpu_us), 2)
    for style, values in rates.other.items():
        spread = (max(values) - min(values)) / median(values)
        rows.append([names[style], count(median(values)), percent(spread), ""])
    return Table(title, ["collector", "lines/s", "spread", "CPU us/line"], rows, notes=[note])


NAMES = {
    "bare": "bare loop, a line at a time",
    "blocks": "bare loop, 64 KiB of lines at a time",
    "stop": "one batch a round trip",
}


def run(context: Context) -> PartResult:
    """All three; nothing without a server under test."""
    options = context.options
    if context.product is None:
        return PartResult(notes=["The edge was not measured: there is no server under test."])
    lines = max(1, int(options.edge_megabytes * 1e6) // LINE_BYTES)
    far_lines = max(1, int(lines * LONG_LINE_SHARE))
    result = PartResult()
    specs = [spec(context.product, "job of the agent"), spec(context.product, "job of the loops")]
    with context.servers(specs) as servers:
        scratch = servers[0].log.parent / "edge"
        (scratch / "idle").mkdir(parents=True)
        idle = measure_idle(context, servers[0], scratch / "idle")
        context.echo(f"idle: {figure(idle['resident_mb'], 1)} MB, {figure(idle['cpu_percent'], 2)} % of a CPU")
        write_lines(scratch / "lines.txt", lines)
        near = measure_rate(context, servers, scratch / "lines.txt", lines)
        context.echo(f"file -> ACK: {count(median(near.agent))} lines/s, {near.ratio('bare'):.2f} of a bare loop")
        write_lines(scratch / "lines.txt", far_lines)
        far = measure_long_line(context, servers, scratch / "lines.txt", far_lines)
        context.echo(f"50 ms: {count(median(far.agent))} lines/s, {far.ratio('stop'):.0f} x one a round trip")
    result.verdicts += [
        Verdict(f"the agent idle on {FILES} files, MB resident", idle["resident_mb"], MOST_IDLE_MB, False),
        Verdict(f"the agent idle on {FILES} files, % of a CPU", idle["cpu_percent"], MOST_IDLE_PERCENT, False),
        Verdict("file -> ACK: share of a bare loop", near.ratio("bare"), LEAST_SHARE),
        Verdict("50 ms round trip: times one batch a round trip", far.ratio("stop"), LEAST_GAIN),
    ]
    pinned = f"{context.bench.pins}; agent and loops run where the generator does."
    took = (
        f"{lines:,} lines of {LINE_BYTES} B; the agent's time includes its start and the wait for the last checkpoint."
    )
    result.tables.append(rate_table("Edge: file -> ACK", near, NAMES, f"{took} {pinned}"))
    note = f"{far_lines:,} lines through a proxy that delays {ONE_WAY_MS} ms each way."
    result.tables.append(rate_table("Edge: a round trip of 50 ms", far, NAMES, note))
    cells = [[f"following {FILES} files", figure(idle["resident_mb"], 1), figure(idle["cpu_percent"], 2)]]
    window = f"{options.edge_idle_seconds:g} s, connected to a running job, answering health on HTTP."
    result.tables.append(Table("Edge: idle", ["agent", "resident MB", "% of a CPU"], cells, notes=[window]))
    result.raw += [{"idle": idle}, {"near": near.agent, **near.other}, {"far": far.agent, **far.other}]
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument(
        "--edge-megabytes", type=float, default=1200.0, help="size of the edge part's file, 10^6 bytes (default 1200)"
    )
    parser.add_argument(
        "--edge-idle-seconds", type=float, default=20.0, help="how long the idle agent is watched (default 20)"
    )
    parser.add_argument(
        "--edge-stop-seconds", type=float, default=5.0, help="window of one batch a round trip (default 5)"
    )


PART = Part("edge", "the edge agent: idle, file to ACK, long round trips", run, add_options)
