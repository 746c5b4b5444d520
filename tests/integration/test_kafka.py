"""The Kafka sink against a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from edgesocket.components.sink import RejectedRow, SinkContext
from edgesocket.errors import BadRecordError, ComponentError, FencedError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows, text_schema
from edgesocket.sinks.kafka import KafkaSink
from tests.support.kafka import KafkaBroker

pytestmark = pytest.mark.timeout(120)


class Sinks:
    """Makes sinks on one broker, and closes them."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.rejected: list[RejectedRow] = []
        self.opened: list[KafkaSink] = []
        self.epoch = 0

    def open(self, topic: str, schema: pa.Schema | None = None, *, rejects: bool = True, **options: Any) -> KafkaSink:
        """A sink in a new epoch; fenced, where it decides."""
        self.epoch += 1
        sink = KafkaSink(topic=topic, bootstrap_servers=self.broker.servers, **options)
        self.opened.append(sink)
        context: dict[str, Any] = {"reject": self.rejected.append} if rejects else {}
        sink.open(SinkContext("job", self.epoch, topic, schema=schema or text_schema(), **context))
        if options.get("semantics") == "EXACTLY_ONCE":
            sink.fence(self.epoch)
        return sink


@pytest.fixture
def sinks(kafka: KafkaBroker) -> Iterator[Sinks]:
    made = Sinks(kafka)
    yield made
    for sink in made.opened:
        sink.close()


def rows_of(*payloads: str, first: int = 1) -> Rows:
    return Rows.of_records(RecordBlock.of_run(first, [payload.encode() for payload in payloads]))


def typed(**columns: list[Any]) -> Rows:
    return Rows.of_batch(pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize("semantics", ["NON", "AT_LEAST_ONCE"])
def test_ten_rows_and_a_checkpoint_right_behind_are_ten_messages(sinks: Sinks, semantics: str) -> None:
    topic = sinks.broker.topic()
    sink = sinks.open(topic, semantics=semantics, format="text")
    sink.write(rows_of(*(f"p{n}" for n in range(1, 11))))
    assert sink.prepare(1) == {}
    assert sinks.broker.values(topic) == [b"p%d" % n for n in range(1, 11)]


def test_a_payload_without_a_schema_is_a_json_value(sinks: Sinks) -> None:
    topic = sinks.broker.topic()
    sink = sinks.open(topic)
    sink.write(rows_of('a "quoted" one'))
    sink.prepare(1)
    assert [json.loads(value) for value in sinks.broker.values(topic)] == [{"value": 'a "quoted" one'}]


def test_keys_headers_and_values_come_from_their_columns(sinks: Sinks) -> None:
    topic = sinks.broker.topic(partitions=3)
    rows = typed(id=[1, 2, 1], name=["a", None, "c"], trace=["t1", None, "t3"])
    sink = sinks.open(topic, rows.schema, partition_key_fields=("id",), kafka_headers_fields=("trace",))
    sink.write(rows)
    sink.prepare(1)
    read = sinks.broker.read(topic)
    by_name = {json.loads(message.value)["name"]: message for message in read}
    assert json.loads(by_name["a"].value) == {"id": 1, "name": "a"}
    assert json.loads(by_name["a"].key or b"") == {"id": 1}
    assert by_name["a"].partition == by_name["c"].partition
    assert [by_name[name].headers for name in ("a", None, "c")] == [
        [("trace", b"t1")],
        [("trace", None)],
        [("trace", b"t3")],
    ]


def test_rows_go_to_the_partition_that_is_named_or_assigned(sinks: Sinks) -> None:
    topic = sinks.broker.topic(partitions=4)
    fixed = sinks.open(topic, format="text", partition=2)
    fixed.write(rows_of("fixed"))
    fixed.prepare(1)
    assigned = sinks.open(topic, format="text", assign_partitions=("shoe", "hat"))
    assigned.write(rows_of("a hat", "a shoe", "bread", "milk"))
    assigned.prepare(1)
    places = {message.value: message.partition for message in sinks.broker.read(topic)}
    assert (places[b"fixed"], places[b"a shoe"], places[b"a hat"]) == (2, 0, 1)
    assert {places[b"bread"], places[b"milk"]} <= {2, 3}


@pytest.mark.parametrize("semantics", ["AT_LEAST_ONCE", "EXACTLY_ONCE"])
def test_each_row_names_its_topic_and_one_that_names_none_is_rejected(sinks: Sinks, semantics: str) -> None:
    topics = [sinks.broker.topic(), sinks.broker.topic()]
    rows = typed(to=[topics[0], None, topics[1], "no/topic"], n=[1, 2, 3, 4])
    sink = sinks.open("${to}", rows.schema, semantics=semantics, transaction_prefix=topics[0])
    sink.write(rows)
    manifest = sink.prepare(1)
    if manifest:
        sink.commit(1, manifest)
        assert sink.landed() == 1
    assert [[json.loads(value)["n"] for value in sinks.broker.values(topic)] for topic in topics] == [[1], [3]]
    assert [(row.batch_id, json.loads(row.row)["n"]) for row in sinks.rejected] == [(2, 2), (4, 4)]


@pytest.mark.parametrize("semantics", ["NON", "EXACTLY_ONCE"])
def test_a_row_over_the_topics_limit_is_rejected_and_the_others_go_on(sinks: Sinks, semantics: str) -> None:
    topic = sinks.broker.topic(max__message__bytes="1000")
    sink = sinks.open(topic, format="text", semantics=semantics)
    payloads = ["a", "x" * 2000, *(f"{n:0200}" for n in range(20))]
    sink.write(rows_of(*payloads))
    sink.commit(1, sink.prepare(1))
    assert sinks.broker.values(topic) == [payload.encode() for payload in payloads if len(payload) < 1000]
    assert [(row.batch_id, len(row.row)) for row in sinks.rejected] == [(2, 2000)]
    assert "1000" in sinks.rejected[0].reason


def test_a_row_over_the_topics_limit_ends_a_job_that_says_fail_and_names_the_batch(sinks: Sinks) -> None:
    topic = sinks.broker.topic(max__message__bytes="1000")
    sink = sinks.open(topic, format="text", rejects=False)
    with pytest.raises(BadRecordError, match="batch 2: "):
        sink.write(rows_of("a", "x" * 2000))


def test_the_largest_row_that_fits_is_taken(sinks: Sinks) -> None:
    topic = sinks.broker.topic(max__message__bytes="1000")
    sink = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    sizes = range(900, 960)
    for size in sizes:
        sink.write(rows_of("x" * size, first=size))
        sink.prepare(1)
    sink.commit(1, sink.prepare(1))
    taken = [len(value) for value in sinks.broker.values(topic)]
    assert taken == [size for size in sizes if size not in {row.batch_id for row in sinks.rejected}]
    assert 900 < max(taken) < 960


def test_a_limit_lowered_later_rejects_the_row_that_is_too_large_and_only_that(sinks: Sinks) -> None:
    """The broker refuses the whole batch; the rows in it are sent again one by one."""
    topic = sinks.broker.topic(max__message__bytes="1000")
    sink = sinks.open(topic, format="text", kafka_config={"compression.type": "gzip", "linger.ms": "200"})
    noise = "".join(chr(33 + n * n * 7 % 90) + chr(0x400 + n * 37 % 900) for n in range(2000))
    sink.write(rows_of("a", noise, "b", "b"))
    sink.prepare(1)
    assert sorted(sinks.broker.values(topic)) == [b"a", b"b", b"b"]
    assert [row.batch_id for row in sinks.rejected] == [2]


def test_an_unknown_topic_fails_the_checkpoint(sinks: Sinks) -> None:
    sink = sinks.open("nowhere", format="text", kafka_config={"topic.metadata.propagation.max.ms": "1000"})
    with pytest.raises(ComponentError) as failed:
        sink.write(rows_of("a"))
        sink.prepare(1)
    assert failed.value.retryable
    assert failed.value.reopen
    with pytest.raises(ComponentError):
        sink.prepare(2)


def test_exactly_once_shows_rows_at_the_commit_and_never_twice(sinks: Sinks) -> None:
    topic = sinks.broker.topic()
    sink = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    sink.write(rows_of("a", "b"))
    manifest = sink.prepare(1)
    assert manifest == {"rows": 2}
    assert sinks.broker.values(topic) == []
    sink.commit(1, manifest)
    sink.commit(1, manifest)
    assert sink.prepare(2) == {}
    sink.write(rows_of("c"))
    sink.commit(3, sink.prepare(3))
    assert sinks.broker.values(topic) == [b"a", b"b", b"c"]
    assert sink.landed() == 3


def test_a_run_that_sleeps_between_prepare_and_commit_is_fenced(sinks: Sinks) -> None:
    topic = sinks.broker.topic()
    old = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    old.write(rows_of("a"))
    manifest = old.prepare(1)
    new = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    assert new.landed() == 0
    with pytest.raises(FencedError):
        old.commit(1, manifest)
    new.write(rows_of("a"))
    new.commit(1, new.prepare(1))
    assert sinks.broker.values(topic) == [b"a"]


def test_a_run_that_fences_late_ends_and_the_newer_one_starts_again(sinks: Sinks) -> None:
    topic = sinks.broker.topic()
    new = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    new.write(rows_of("a"))
    late = KafkaSink(topic=topic, bootstrap_servers=sinks.broker.servers, format="text", semantics="EXACTLY_ONCE")
    sinks.opened.append(late)
    late.open(SinkContext("job", 0, topic))
    with pytest.raises(FencedError):
        late.fence(0)
    with pytest.raises(ComponentError) as failed:
        new.commit(1, new.prepare(1))
    assert failed.value.reopen
    again = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    assert again.landed() == 0
    again.write(rows_of("a"))
    again.commit(1, again.prepare(1))
    assert sinks.broker.values(topic) == [b"a"]


def test_a_transaction_that_the_broker_ended_is_never_reported_as_done(sinks: Sinks) -> None:
    """transaction.timeout.ms of a second, and a checkpoint that takes longer."""
    topic = sinks.broker.topic()
    config = {"transaction.timeout.ms": "1000"}
    sink = sinks.open(topic, format="text", semantics="EXACTLY_ONCE", kafka_config=config)
    sink.write(rows_of("a"))
    manifest = sink.prepare(1)
    _wait_for_the_broker_to_end_it(sinks, topic)
    with pytest.raises(ComponentError) as failed:
        sink.commit(1, manifest)
    assert failed.value.reopen
    assert sink.landed() == 0
    again = sinks.open(topic, format="text", semantics="EXACTLY_ONCE")
    again.write(rows_of("a"))
    again.commit(1, again.prepare(1))
    assert sinks.broker.values(topic) == [b"a"]


def _wait_for_the_broker_to_end_it(sinks: Sinks, topic: str) -> None:
    """It looks for old transactions every 10 s. Behind an open one, readers see nothing, also not its end."""
    admin, deadline = sinks.broker.admin(), time.monotonic() + 40
    partition = TopicPartition(topic, 0)
    while True:
        ends = [
            admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=level)[partition].result().offset
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        if ends[0] == ends[1] > 0:
            return
        assert time.monotonic() < deadline, ends
        time.sleep(0.2)
