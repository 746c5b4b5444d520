"""The Kafka sink beside a bare loop of the client it uses, on a real broker: part `kafka` of `make bench`.

In alternating rounds the sink and the plainest program that does the same send the same bytes to a topic of one
partition, with the same properties, and wait until all are confirmed. The bare loop has its messages ready; the sink
gets rows: payloads as they were received, or an Arrow batch of three columns that becomes JSON. Rates count the wait at
the end. A client does most of its work on threads of its own, and here the broker runs on the same machine, so the CPU
time of the process is shown as well: it says what a row costs where the broker is elsewhere.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from bench.harness.report import PartResult, Table, Verdict, count, figure
from edgesocket.components.sink import SinkContext
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_rows
from edgesocket.sinks.kafka import KafkaSink
from edgesocket.sinks.kafka_client import producer_properties

ROWS_A_WRITE = 1000
PAYLOAD_BYTES = 256
TARGET = 0.7
_HEAD = ["rows", "semantics", "sink rows/s", "bare rows/s", "ratio", "sink CPU ns/row", "bare CPU ns/row", "CPU ratio"]


@dataclass
class Case:
    """One kind of rows and one semantics, with what the rounds showed: rows/s and CPU ns a row."""

    name: str
    semantics: str
    rows: Rows
    values: Sequence[bytes]
    format: str
    sink: list[tuple[float, float]] = field(default_factory=list)
    bare: list[tuple[float, float]] = field(default_factory=list)

    def ratio(self, index: int) -> float:
        """Median over the rounds of sink / bare, of the rates (0) or the CPU times (1)."""
        return median(a[index] / b[index] for a, b in zip(self.sink, self.bare, strict=True))

    def cells(self) -> list[str]:
        """As a row of the table."""
        rates = [count(median(rate for rate, _ in runs)) for runs in (self.sink, self.bare)]
        costs = [figure(median(cost for _, cost in runs)) for runs in (self.sink, self.bare)]
        return [self.name, self.semantics, *rates, figure(self.ratio(0), 2), *costs, figure(self.ratio(1), 2)]


def make_cases() -> list[Case]:
    """Raw payloads as text and typed rows as JSON, each message about `PAYLOAD_BYTES` long."""
    lengths = np.full(ROWS_A_WRITE, PAYLOAD_BYTES)
    ends = np.cumsum(lengths + 1) - 1  # one line end between two
    data = np.full(int(ends[-1]) + 1, ord("x"), dtype=np.uint8)
    raw = Rows.of_records(RecordBlock.of_columns(data, ends - lengths, ends, 1))
    ids = list(range(1_000_000, 1_000_000 + ROWS_A_WRITE))
    events = ["pageview " + "y" * (PAYLOAD_BYTES - 65)] * ROWS_A_WRITE
    columns = {"user_id": ids, "event": events, "ts": [1_700_000_000_000 + n for n in ids]}
    typed = Rows.of_batch(pa.RecordBatch.from_pydict(columns))
    raw_values, typed_values = list(raw.records.payloads()), json_rows(typed)  # type: ignore[union-attr]
    return [
        Case("payloads", "NON", raw, raw_values, "text"),
        Case("payloads", "EXACTLY_ONCE", raw, raw_values, "text"),
        Case("3 columns as JSON", "NON", typed, typed_values, "json"),
        Case("3 columns as JSON", "EXACTLY_ONCE", typed, typed_values, "json"),
    ]


def send_with_sink(sink: KafkaSink, case: Case, writes: int, checkpoint: int) -> None:
    """Write, then wait as a checkpoint does."""
    for _ in range(writes):
        sink.write(case.rows)
    sink.commit(checkpoint, sink.prepare(checkpoint))


def send_bare(producer: Any, topic: str, case: Case, writes: int) -> None:
    """The plainest loop that loses nothing."""
    if case.semantics == "EXACTLY_ONCE":
        producer.begin_transaction()
    produce = producer.produce
    for _ in range(writes):
        for value in case.values:
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(60) == 0
    if case.semantics == "EXACTLY_ONCE":
        producer.commit_transaction(60)


def measured(send: Callable[[], None], rows: int) -> tuple[float, float]:
    """Rows/s, and CPU nanoseconds a row of this process with all its threads."""
    begin, cpu = time.perf_counter(), time.process_time()
    send()
    return rows / (time.perf_counter() - begin), (time.process_time() - cpu) / rows * 1e9


def run_case(case: Case, servers: str, topic: str, rounds: int, rows: int) -> None:
    """Sink and bare loop in turn, after a round that does not count."""
    writes = rows // ROWS_A_WRITE
    sink = KafkaSink(topic=topic, bootstrap_servers=servers, semantics=case.semantics, format=case.format)
    sink.open(SinkContext("bench", 1, topic, schema=case.rows.schema))
    properties = producer_properties({"bootstrap.servers": servers}, case.semantics, None)
    if case.semantics == "EXACTLY_ONCE":
        properties["transactional.id"] = f"bare-{topic}"
    else:
        del properties["transaction.timeout.ms"]
    producer = Producer(properties)
    if case.semantics == "EXACTLY_ONCE":
        producer.init_transactions(60)
    try:
        for number in range(1, rounds + 2):
            bare = measured(lambda: send_bare(producer, topic, case, writes), rows)
            with_sink = measured(lambda n=number: send_with_sink(sink, case, writes, n), rows)  # type: ignore[misc]
            if number > 1:
                case.bare.append(bare)
                case.sink.append(with_sink)
    finally:
        sink.close()


def measure(servers: str, topic_of: Callable[[], str], rounds: int, rows: int) -> list[Case]:
    """All cases on one cluster.

    Args:
        servers: `host:port`.
        topic_of: makes a topic of one partition and returns its name.
        rounds: of each case.
        rows: in each round, a multiple of `ROWS_A_WRITE`.
    """
    cases = make_cases()
    for case in cases:
        run_case(case, servers, topic_of(), rounds, rows)
    return cases


def judge(cases: Sequence[Case]) -> list[Verdict]:
    """The target, for each case."""
    return [
        Verdict(f"Kafka, {case.name}, {case.semantics}: share of a bare producer loop", case.ratio(0), TARGET)
        for case in cases
    ]


@contextmanager
def own_broker() -> Iterator[Any]:
    """The broker of the tests."""
    broker_class = importlib.import_module("tests.support.kafka").KafkaBroker
    with tempfile.TemporaryDirectory(prefix="edgesocket-kafka-") as directory:
        broker = broker_class(Path(directory))
        try:
            yield broker
        finally:
            broker.close()


def compare(rounds: int, rows: int) -> PartResult:
    """All of it, on a broker of its own."""
    with own_broker() as broker:
        cases = measure(broker.servers, broker.topic, rounds, rows)
    table = Table(f"{PAYLOAD_BYTES} B to Kafka", _HEAD, [case.cells() for case in cases], text=(0, 1))
    raw: list[dict[str, object]] = [
        {"rows": case.name, "semantics": case.semantics, "sink": case.sink, "bare": case.bare} for case in cases
    ]
    return PartResult(tables=[table], verdicts=judge(cases), raw=raw)
