"""The Kafka sink passes the suite of its commit role with every semantics and format, on a real broker."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from edgesocket.components.sink import CommitRole, Sink
from edgesocket.errors import ComponentError
from edgesocket.sinks.kafka import KafkaSink
from edgesocket.sinks.kafka_client import Clients
from edgesocket.testing.sink_contract import AnySink, BreakableSink, DecidingSinkRules
from edgesocket.testing.sink_story import SinkHarness, Story
from tests.support.jobs import wait_until
from tests.support.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

DELIVERY_TIMEOUT_MS = "4000"
"""So long a sleeping broker is waited for."""
STEADY_ANSWERS = 6
"""So many in a row, half a second apart, and the broker counts as awake."""


class KafkaHarness:
    """A topic of its own, read as a reader of committed messages sees it. A sink that a story forgets is asleep."""

    def __init__(self, broker: KafkaBroker, semantics: str, value_format: str) -> None:
        self.broker = broker
        self.semantics = semantics
        self.format = value_format
        self.topic = broker.topic()
        self.sinks: list[KafkaSink] = []

    def sink(self) -> Sink:
        self.sinks.append(
            KafkaSink(
                topic=self.topic,
                bootstrap_servers=self.broker.servers,
                semantics=self.semantics,
                format=self.format,
                transaction_prefix=self.topic,
                kafka_config={"delivery.timeout.ms": DELIVERY_TIMEOUT_MS},
            )
        )
        return self.sinks[-1]

    def read(self) -> list[bytes]:
        values = self.broker.values(self.topic)
        return values if self.format == "text" else [json.loads(value)["value"].encode() for value in values]

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        self.broker.pause()
        try:
            yield
        finally:
            self.broker.go_on()
            wait_until(self._is_steady, 90.0, "steady answers of the broker")

    def _is_steady(self) -> bool:
        """A broker that slept long answers, then finds that it has left its own cluster, and comes back later."""
        try:
            for _ in range(STEADY_ANSWERS):
                Clients({"bootstrap.servers": self.broker.servers}).max_message_bytes(self.topic)
                time.sleep(0.5)
        except KafkaException:
            return False
        return True

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


@pytest.fixture
def harness(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[KafkaHarness]:
    with contextlib.closing(KafkaHarness(kafka, *request.param)) as harness:
        yield harness


@pytest.mark.parametrize(
    "harness", [("NON", "text"), ("NON", "json"), ("AT_LEAST_ONCE", "text"), ("AT_LEAST_ONCE", "json")], indirect=True
)
class TestKafka(AnySink, BreakableSink):
    pass


@pytest.mark.parametrize("harness", [("EXACTLY_ONCE", "text"), ("EXACTLY_ONCE", "json")], indirect=True)
class TestKafkaExactlyOnce(DecidingSinkRules, BreakableSink):
    role = CommitRole.DECIDING

    def test_rows_written_after_a_prepare_belong_to_the_next(self, harness: SinkHarness) -> None:
        """An engine keeps them back. If it does not, they are in the same transaction, so that is never committed."""
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.write(b"b")
        with pytest.raises(ComponentError) as refused:
            story.commit(1)
        assert refused.value.reopen
        assert story.read() == []
        story.checkpoint(2)
        assert story.read() == [b"a", b"b"]
