"""The Kafka sink on librdkafka's own cluster in memory: real requests, three brokers, answers that take their time.

This cluster takes the requests of a transaction, but keeps no offset of one and fences nobody; the tests with a real
broker see to that.
"""

from __future__ import annotations

import contextlib

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks.kafka import KafkaSink
from edgesocket.sinks.kafka_client import Clients

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

TOPIC = "t"
TEN = [b"p%d" % n for n in range(1, 11)]


class MockCluster:
    """Lives as long as the client that made it."""

    def __init__(self, brokers: int, round_trip_ms: int = 0) -> None:
        self._maker = Producer(
            {"test.mock.num.brokers": brokers, "test.mock.broker.rtt": round_trip_ms, "log_level": 0}
        )
        found = self._maker.list_topics(TOPIC, 10)  # this creates it
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in found.brokers.values())
        self.partitions = len(found.topics[TOPIC].partitions)

    def values(self) -> list[bytes]:
        """All that is in the topic. This cluster shows a reader of committed messages the open ones as well."""
        properties = {"bootstrap.servers": self.servers, "group.id": "reader", "enable.partition.eof": True}
        consumer, found, left = Consumer({**properties, "log_level": 0}), [], self.partitions
        with contextlib.closing(consumer):
            consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(self.partitions)])
            while left:
                message = consumer.poll(10)
                assert message is not None
                if message.error() is None:
                    found.append(message.value())
                else:
                    left -= 1
        return sorted(found)


class MockClients(Clients):
    """This cluster has no controller to ask for the limit of a topic."""

    def max_message_bytes(self, topic: str) -> int | None:
        return None


def opened(cluster: MockCluster, semantics: str, **config: str) -> KafkaSink:
    sink = KafkaSink(
        topic=TOPIC,
        bootstrap_servers=cluster.servers,
        semantics=semantics,
        format="text",
        kafka_config=config,
        clients=MockClients,
    )
    sink.open(SinkContext("job", 1, "sink"))
    return sink


def rows(*payloads: bytes) -> Rows:
    return Rows.of_records(RecordBlock.of_run(1, payloads))


@pytest.mark.parametrize("semantics", ["NON", "AT_LEAST_ONCE", "EXACTLY_ONCE"])
def test_a_checkpoint_right_behind_the_tenth_row_covers_all_ten(semantics: str) -> None:
    cluster = MockCluster(3, round_trip_ms=100)
    with contextlib.closing(opened(cluster, semantics)) as sink:
        sink.write(rows(*TEN))
        manifest = sink.prepare(1)
        if manifest:
            sink.commit(1, manifest)
        assert cluster.values() == sorted(TEN)


@pytest.mark.parametrize("semantics", ["NON", "AT_LEAST_ONCE", "EXACTLY_ONCE"])
def test_a_queue_that_is_full_at_row_7_is_waited_for(semantics: str) -> None:
    """Nothing is sent for half a second, so the seventh row finds the queue full."""
    cluster = MockCluster(3)
    config = {"queue.buffering.max.messages": "6", "linger.ms": "500", "batch.num.messages": "10"}
    with contextlib.closing(opened(cluster, semantics, **config)) as sink:
        sink.write(rows(*TEN))
        sink.commit(1, sink.prepare(1))
        assert cluster.values() == sorted(TEN)


def test_a_run_goes_on_after_each_of_its_transactions() -> None:
    cluster = MockCluster(3)
    with contextlib.closing(opened(cluster, "EXACTLY_ONCE")) as sink:
        for number in range(10):
            sink.write(rows(TEN[number]))
            sink.commit(number + 1, sink.prepare(number + 1))
    assert cluster.values() == sorted(TEN)


@pytest.mark.parametrize("semantics", ["NON", "AT_LEAST_ONCE"])
def test_rows_that_are_not_delivered_in_time_fail_the_checkpoint(semantics: str) -> None:
    """The brokers answer after the delivery timeout."""
    cluster = MockCluster(1, round_trip_ms=1500)
    with contextlib.closing(opened(cluster, semantics, **{"delivery.timeout.ms": "1000"})) as sink:
        sink.write(rows(*TEN))
        with pytest.raises(ComponentError) as failed:
            sink.prepare(1)
        assert failed.value.reopen
