"""Whole jobs: what typing, decrypting and writing leave of the speed, beside the plainest program that does the same.

The generator drives `edgesocket run` as in the other parts; the source waits for room instead of answering QUEUE_FULL,
so a job goes as fast as its slowest step. In alternating windows on the same CPU runs a *bare loop* (`bench/loops.py`)
that makes the same library calls on the same records, without a wire, a queue or a checkpoint.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.harness.build import BENCH
from bench.harness.machine import settler
from bench.harness.measure import Load
from bench.harness.report import PartResult, Table, Verdict, count, figure, percent
from bench.harness.servers import Server, ServerFailedError, ServerSpec, job_text
from bench.loops import KEY, sealed_packet
from bench.parts.part import Context, Part

RECORDS = 1000
"""Different records, used over and over."""
JSON_BYTES = 64
TEXT_BYTES = 256

PATIENT = "queue_full_wait_ms = 60000"
SCHEMA = "schema {{ fields {{ user_id = bigint, event = string, ts = bigint }} }}"


@dataclass(frozen=True)
class Case:
    """One job beside its yardstick.

    Attributes:
        name: for `--jobs`.
        title: for tables and verdicts.
        payloads: what is sent, one record a line.
        limit: the share of the yardstick that is wanted, if a target says so.
        source, sink: the blocks' contents.
        loop: the yardstick: a bare loop with these options; None: the same generator on the job `RAW -> Null`.
    """

    name: str
    title: str
    payloads: tuple[bytes, ...]
    limit: float | None
    source: str = ""
    sink: str = "Null {{}}"
    loop: tuple[str, ...] | None = None

    def spec(self, command: tuple[str, ...]) -> ServerSpec:
        """The product running this job."""
        job = job_text(f"{PATIENT}\n    {self.source}", self.sink)
        return ServerSpec("product", self.title, command, queue=65536, job=job)


@dataclass
class Found:
    """The windows of a case: records/s of the job and of its yardstick, round by round."""

    case: Case
    yardstick: str
    job: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    refused: float = 0.0

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' ratios."""
        return median(a / b for a, b in zip(self.job, self.bare, strict=True)) if self.job else None

    def cells(self) -> list[str]:
        """As a row."""
        spread = (max(self.job) - min(self.job)) / median(self.job)
        return [
            self.case.title, self.yardstick, count(median(self.job)), percent(spread), count(median(self.bare)),
            figure(self.ratio, 2), percent(self.refused) if self.refused else "0",
        ]  # fmt: skip


def json_records() -> tuple[bytes, ...]:
    """Three fields in 64 bytes."""
    numbers = random.Random(1)
    made = [
        b'{"user_id":%d,"event":"login %d","ts":%d}'
        % (numbers.randrange(10**4, 10**5), numbers.randrange(1000, 10000), 1_700_000_000_000 + n)
        for n in range(RECORDS)
    ]
    return tuple(line[:-1].ljust(JSON_BYTES - 1) + b"}" for line in made)


def text_records() -> tuple[bytes, ...]:
    """Log lines of 256 bytes, no two alike."""
    numbers = random.Random(2)
    words = ["reading", "sensor", "t-204", "value", "queue", "gateway", "retry", "took", "path", "edge", "ok", "WARN"]
    lines = [f"2025-11-30T01:14:02.{n:03}Z INFO [gateway-7] " for n in range(RECORDS)]
    while min(map(len, lines)) < TEXT_BYTES:
        lines = [f"{line}{numbers.choice(words)}={numbers.randrange(10**6)} " for line in lines]
    return tuple(line.encode()[:TEXT_BYTES] for line in lines)


def packet_records() -> tuple[bytes, ...]:
    """The log lines, compressed and encrypted; only those of the commonest length: all lines of a load are as long."""
    numbers = random.Random(3)
    packets = [sealed_packet(line, numbers.randbytes(12)) for line in text_records() * 4]
    length = Counter(map(len, packets)).most_common(1)[0][0]
    return tuple(packet for packet in packets if len(packet) == length)


def cases(database: str) -> Iterator[Case]:
    """All of them; PostgreSQL only with a database."""
    records = json_records()
    yield Case("json", "3 fields of JSON, 64 B -> Null", records, 0.25, source=SCHEMA)
    yield Case("json", "3 fields of JSON, 64 B -> Null", records, None, source=SCHEMA, loop=("json",))
    key = base64.b64encode(KEY).decode()
    source = f'packet_mode = PACKET\n    secret_key = "{key}"'
    yield Case("packet", "PACKET, gzip and AES-GCM, 256 B -> Null", packet_records(), 0.7, source, loop=("packet",))
    texts = text_records()
    sink = 'LocalFile {{ path = "{dir}/out", file_format_type = parquet }}'
    yield Case("parquet", "256 B -> Parquet", texts, 0.5, sink=sink, loop=("parquet",))
    if database:
        from psycopg.conninfo import conninfo_to_dict

        place = conninfo_to_dict(database)
        sink = f"""Jdbc {{{{
    url = "jdbc:postgresql://{place["host"]}:{place["port"]}/{place["dbname"]}"
    username = {place["user"]}
    password = "{place["password"]}"
    generate_sink_sql = true
    table = bench_job
    is_exactly_once = true
    use_copy_statement = true
  }}}}"""
        loop = ("postgresql", "--database", database)
        yield Case("postgresql", "256 B -> PostgreSQL", texts, 0.5, sink=sink, loop=loop)


def measure(context: Context, case: Case, scratch: Path) -> Found:
    """Alternate the job and its yardstick."""
    assert context.product is not None
    options = context.options
    payloads = scratch / f"{case.name}.txt"
    payloads.write_bytes(b"".join(line + b"\n" for line in case.payloads))
    size = len(case.payloads[0])
    load = Load("full", size, seconds=options.job_seconds, warmup=options.warmup, payloads=payloads)
    specs = [case.spec(context.product)]
    if case.loop is None:
        specs.append(Case("raw", "RAW -> Null", case.payloads, None).spec(context.product))
    found = Found(case, "the same payloads, RAW -> Null" if case.loop is None else "bare loop")
    with context.servers(specs) as servers:
        for n in range(options.windows):
            if n % 2:
                _drive(context, servers[0], load, found)
            _yardstick(context, servers[1:], load, found, payloads)
            if not n % 2:
                _drive(context, servers[0], load, found)
    return found


def _drive(context: Context, server: Server, load: Load, found: Found) -> None:
    run = context.bench.run(server, load)
    found.job.append(run.rate)
    found.refused = max(found.refused, run.refused_share)


def _yardstick(context: Context, servers: Sequence[Server], load: Load, found: Found, payloads: Path) -> None:
    case = found.case
    if case.loop is None:
        found.bare.append(context.bench.run(servers[0], load).rate)
        return
    command = [sys.executable, "-m", "bench.loops", *case.loop, "--seconds", str(load.seconds)]
    pins = context.bench.pins
    ended = subprocess.run(
        [*command, "--payloads", str(payloads), "--dir", str(payloads.parent)],
        capture_output=True, text=True, cwd=BENCH.parent, preexec_fn=settler(pins.server, pins.nice), timeout=120,
    )  # fmt: skip
    if ended.returncode:
        raise ServerFailedError(f"the bare loop of {case.title} failed:\n{ended.stderr}")
    result = json.loads(ended.stdout)
    found.bare.append(result["records"] / result["seconds"])


@contextlib.contextmanager
def database(address: str) -> Iterator[str]:
    """The address given, or that of a PostgreSQL started for this; "" where there is none."""
    if address or any(importlib.util.find_spec(name) is None for name in ("psycopg", "pytest")):
        yield address
        return
    import pytest
    from psycopg.conninfo import make_conninfo

    databases = importlib.import_module("tests.support.databases")
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(databases.started_postgresql())
        except pytest.skip.Exception:
            yield ""
            return
        yield make_conninfo(
            host=found.host, port=found.port, dbname=found.name, user=found.user, password=found.password
        )


def run(context: Context) -> PartResult:
    """Measure the cases that were asked for."""
    options = context.options
    if context.product is None:
        return PartResult(notes=["Jobs were not measured: there is no server under test."])
    result, rows = PartResult(), []
    with database(options.database) as address, tempfile.TemporaryDirectory(prefix="edgesocket-bench-") as scratch:
        if not address:
            result.notes.append(
                "PostgreSQL was not measured: it needs the server, psycopg and the tools of `make test`."
            )
        for case in cases(address):
            if options.jobs and case.name not in options.jobs:
                continue
            found = measure(context, case, Path(scratch))
            rate, ratio = count(median(found.job)), figure(found.ratio, 2)
            context.echo(f"{case.title}: {rate} records/s, {ratio} of {found.yardstick}")
            rows.append(found.cells())
            if case.limit is not None:
                result.verdicts.append(Verdict(f"{case.title}: share of {found.yardstick}", found.ratio, case.limit))
            result.raw.append({"job": case.name, "rates": found.job, "bare": found.bare, "refused": found.refused})
    head = ["job", "yardstick", "records/s", "spread", "yardstick/s", "ratio", "refused"]
    result.tables.append(Table("Jobs", head, rows, text=(0, 1)))
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--jobs", action="append", help="only this job: json, packet, parquet, postgresql")
    parser.add_argument("--job-seconds", type=float, default=3.0, help="length of a job's window (default 3.0)")
    parser.add_argument("--database", default="", help="use this PostgreSQL, as psycopg takes it")


PART = Part("jobs", "whole jobs beside bare loops of the same library calls", run, add_options)
