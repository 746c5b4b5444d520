"""What the Kafka sink makes of its options, without a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgesocket.config.plugins.kafka import KafkaOptions, check_transaction_timeout
from edgesocket.config.plugins.kafka_properties import client_properties
from edgesocket.sinks.kafka_client import producer_properties

OPTIONS = KafkaOptions(
    topic="t",
    bootstrap_servers="kafka:9092",
    semantics="EXACTLY_ONCE",
    format="json",
    field_delimiter=",",
    kafka_config={"transaction.timeout.ms": "1000"},
    partition=None,
    partition_key_fields=(),
    assign_partitions=(),
    transaction_prefix="edgesocket",
    kafka_headers_fields=(),
)


@pytest.mark.parametrize(("interval", "fits"), [(499, True), (500, False), (3000, False)])
def test_a_transaction_must_outlive_interval_and_timeout(interval: int, fits: bool) -> None:
    assert (check_transaction_timeout(OPTIONS, interval, 500) is None) is fits


def test_without_transactions_their_timeout_does_not_matter() -> None:
    assert check_transaction_timeout(replace(OPTIONS, semantics="NON"), 10**6, 10**6) is None


def test_a_login_in_the_words_of_java_is_understood_and_not_shown() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="se\\"cret";'
    made = client_properties({"sasl.jaas.config": line, "key.serializer": "x", "ssl.truststore.location": "y"})
    assert made.values == {"sasl.username": "me", "sasl.password": 'se"cret'}
    assert made.ignored == ["key.serializer"]
    assert list(made.refused) == ["ssl.truststore.location"]
    assert "cret" not in repr(made)


def test_no_row_is_tried_for_longer_than_its_transaction_lives() -> None:
    assert producer_properties({"transaction.timeout.ms": "1000"}, "EXACTLY_ONCE", None)["delivery.timeout.ms"] == 1000
