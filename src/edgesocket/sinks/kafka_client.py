"""The clients of a Kafka cluster, the properties they are made with, and what their errors mean."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from edgesocket.config.plugins.kafka import NON, transaction_timeout_ms
from edgesocket.errors import ComponentError

CONNECT_S = 15.0
"""How long a broker may take to answer when the sink opens."""
MAX_QUEUE_KIB = 64 * 1024
"""Rows wait in the producer in so much memory, unless the job file says otherwise."""
DELIVERY_TIMEOUT_MS = 120_000
"""How long the producer tries to deliver a row, as the Java client does."""
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""Of a broker that is not told otherwise."""
_HEADROOM = 128
_MIN_MAX_BYTES = 1000  # the least that librdkafka takes
_DEFAULT_BATCH_SIZE = 1_000_000

ROW_ERRORS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP})
"""The row is at fault, and always will be."""
TOPIC_ERRORS = frozenset(
    {KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_PARTITION}
)
"""The topic cannot take rows; the row is at fault where it names its topic."""
FINAL_ERRORS = TOPIC_ERRORS | frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError._INVALID_ARG,
    }
)
"""Somebody has to change something."""

_CONNECTION_PREFIXES = (
    "bootstrap.", "broker.", "client.", "connections.", "enable.ssl.", "reconnect.", "retry.", "sasl.", "security.",
    "socket.", "ssl.", "test.",
)  # fmt: skip
_log = logging.getLogger("edgesocket.sinks.kafka")


def error_of(error: KafkaException) -> KafkaError:
    """The error inside the exception."""
    found: KafkaError = error.args[0]
    return found


def failure(what: str, error: KafkaError, *, reopen: bool = False) -> ComponentError:
    """What to raise: an error that no retry heals says so."""
    message = f"Kafka sink: cannot {what}: {error.str()} ({error.name()})"
    return ComponentError(message, retryable=error.code() not in FINAL_ERRORS, reopen=reopen)


def producer_properties(given: Mapping[str, str], semantics: str, max_message_bytes: int | None) -> dict[str, Any]:
    """What the producer is made with.

    Args:
        given: connection and `kafka.config`, in the names of librdkafka.
        semantics: of the job file.
        max_message_bytes: the topic's limit, where it is known and holds for uncompressed rows.
    """
    acks = given.get("acks", given.get("request.required.acks", "all"))
    limit = max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES
    properties: dict[str, Any] = {
        "acks": "all",
        "enable.idempotence": semantics != NON or acks in ("all", "-1"),
        "queue.buffering.max.kbytes": MAX_QUEUE_KIB,
        "partitioner": "murmur2_random",  # a key goes where the Java client sends it
        "message.max.bytes": max(_MIN_MAX_BYTES, limit + _HEADROOM),
        "transaction.timeout.ms": transaction_timeout_ms(given),
    }
    if not {"delivery.timeout.ms", "message.timeout.ms"} & set(given):
        # No row may be tried for longer than its transaction lives.
        properties["delivery.timeout.ms"] = min(DELIVERY_TIMEOUT_MS, transaction_timeout_ms(given))
    if "request.required.acks" in given:
        del properties["acks"]
    properties.update(given)
    batch_size = str(properties.get("batch.size", _DEFAULT_BATCH_SIZE))
    if batch_size.isdecimal():
        properties["batch.size"] = max(1, min(int(batch_size), limit))
    properties["delivery.report.only.error"] = True
    return properties


class Clients:
    """Makes the clients of one cluster. Tests make others.

    Args:
        properties: connection and `kafka.config`, in the names of librdkafka.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._connection = {k: v for k, v in properties.items() if k.startswith(_CONNECTION_PREFIXES)}

    def producer(self, properties: Mapping[str, Any]) -> Any:
        """A producer."""
        return Producer({**properties}, logger=_log)

    def consumer(self, group: str) -> Any:
        """A consumer that only asks for what the group has committed; it joins nothing."""
        properties = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
        return Consumer({**self._connection, **properties}, logger=_log)

    def max_message_bytes(self, topic: str) -> int | None:
        """The topic's limit for a batch, None where the broker does not tell.

        Raises:
            KafkaException: the cluster cannot be reached.
        """
        admin = AdminClient({**self._connection}, logger=_log)
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            answer = admin.describe_configs([resource], request_timeout=CONNECT_S)[resource].result(CONNECT_S + 1)
            return int(answer["max.message.bytes"].value)
        except KafkaException as error:
            if error_of(error).code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                raise
            return None
        except (KeyError, ValueError, TypeError):
            return None


def partition_zero(topic: str, offset: int, metadata: str) -> TopicPartition:
    """An offset with a note, as transactions take it."""
    return TopicPartition(topic, 0, offset, metadata)
