"""A Kafka cluster in memory, and clients for it with the manners of confluent-kafka's: what `KafkaSink(clients=...)`
takes. Tests say what goes wrong and when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

OnDelivery = Callable[[KafkaError | None, Any], None]


class FakeMessage:
    """A message as a delivery report shows it."""

    def __init__(self, topic: str, value: bytes, key: bytes | None, partition: int, failure: KafkaError | None) -> None:
        self._parts = (topic, value, key, partition)
        self.failure = failure

    def topic(self) -> str:
        return str(self._parts[0])

    def value(self) -> bytes:
        return bytes(self._parts[1])

    def key(self) -> bytes | None:
        return self._parts[2]

    def partition(self) -> int:
        return self._parts[3]

    def headers(self) -> None:
        """None: the client gives them to consumers only."""


class FakeCluster:
    """One topic, one group, one transactional id.

    Attributes:
        up: whether brokers answer.
        stuck: whether the producer delivers nothing although they do.
        queue_rows: rows that a producer holds at most.
        confirms_in_poll: whether deliveries also happen in `poll`; always in `flush`.
        delivery_errors: by value: the error of its delivery, once.
        delivery_errors_at: the same by how many messages were produced before it.
        produced: value and headers of every message that a producer took.
        produce_errors: by value: what `produce` says to it, once.
        before: by name of a producer's or consumer's method: called before it, once; may raise.
        after: the same, after it.
        values: what a reader of committed messages sees.
        position: offset and metadata of the group, as committed.
        clock: seconds; waiting moves it.
    """

    def __init__(self) -> None:
        self.up = True
        self.stuck = False
        self.queue_rows = 1000
        self.confirms_in_poll = True
        self.delivery_errors: dict[bytes, KafkaError] = {}
        self.delivery_errors_at: dict[int, KafkaError] = {}
        self.produced: list[tuple[bytes, Any]] = []
        self.produce_errors: dict[bytes, KafkaError] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.values: list[bytes] = []
        self.position: tuple[int, str] | None = None
        self.clock = 0.0
        self.owner: FakeProducer | None = None

    def clients(self, properties: Mapping[str, str]) -> FakeClients:
        """For `KafkaSink(clients=...)`."""
        return FakeClients(self)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def around(self, name: str, call: Callable[[], Any]) -> Any:
        self.before.pop(name, lambda: None)()
        result = call()
        self.after.pop(name, lambda: None)()
        return result


class FakeClients:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def producer(self, properties: Mapping[str, Any]) -> FakeProducer:
        made = FakeProducer(self._cluster, "transactional.id" in properties)
        made.on_error = properties["error_cb"]
        return made

    def consumer(self, group: str) -> FakeConsumer:
        return FakeConsumer(self._cluster)

    def max_message_bytes(self, topic: str) -> int | None:
        return None


class FakeConsumer:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def consumer_group_metadata(self) -> object:
        return object()

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        (asked,) = partitions
        if not self._cluster.up:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
        offset, metadata = self._cluster.around("committed", lambda: self._cluster.position or (-1001, ""))
        return [TopicPartition(asked.topic, asked.partition, offset, metadata)]

    def close(self) -> None:
        pass


class FakeProducer:
    """Holds rows until `poll` or `flush` delivers them."""

    def __init__(self, cluster: FakeCluster, transactional: bool) -> None:
        self._cluster = cluster
        self._transactional = transactional
        self._queue: list[tuple[FakeMessage, OnDelivery]] = []
        self._transaction: list[bytes] | None = None
        self._position: tuple[int, str] | None = None
        self._committed = self._purged = False
        self.on_error: Callable[[KafkaError], None] = lambda _: None

    def __len__(self) -> int:
        return len(self._queue)

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = -1,
        callback: OnDelivery = lambda _error, _message: None,
        on_delivery: None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        if len(self._queue) >= self._cluster.queue_rows:
            raise BufferError("Local: Queue full")
        if value in self._cluster.produce_errors:
            raise KafkaException(self._cluster.produce_errors.pop(value))
        assert self._transaction is not None or not self._transactional, "outside of a transaction"
        failure = self._cluster.delivery_errors_at.pop(len(self._cluster.produced), None)
        self._cluster.produced.append((value, headers))
        self._queue.append((FakeMessage(topic, value, key, partition, failure), callback))

    def poll(self, seconds: float) -> int:
        return int(self._cluster.around("poll", lambda: self._polled(seconds)))

    def _polled(self, seconds: float) -> int:
        if self._cluster.confirms_in_poll:
            self._deliver()
        elif seconds:
            self._cluster.sleep(seconds)
        return 0

    def flush(self, seconds: float) -> int:
        self._cluster.around("flush", self._queue.clear if self._purged else self._deliver)
        if self._queue:
            self._cluster.sleep(seconds)
        return len(self._queue)

    def _deliver(self) -> None:
        if not self._cluster.up or self._cluster.stuck:
            self._cluster.sleep(0.1)
            return
        queue, self._queue = self._queue, []
        for message, on_delivery in queue:
            error = message.failure or self._cluster.delivery_errors.pop(message.value(), None)
            if error is not None:
                on_delivery(error, message)
            else:
                (self._cluster.values if self._transaction is None else self._transaction).append(message.value())

    def purge(self) -> None:
        self._purged = True

    # ---- transactions --------------------------------------------------------------------------------------------

    def init_transactions(self, seconds: float) -> None:
        def init() -> None:
            self._cluster.owner = self

        self._cluster.around("init_transactions", init)

    def begin_transaction(self) -> None:
        self._cluster.around("begin_transaction", self._begin)

    def _begin(self) -> None:
        self._transaction, self._position, self._committed = [], None, False

    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, seconds: float) -> None:
        def put() -> None:
            (position,) = positions
            self._check_owner()
            self._position = (position.offset, position.metadata)

        self._cluster.around("send_offsets_to_transaction", put)

    def commit_transaction(self, seconds: float) -> None:
        def commit() -> None:
            if self._committed:
                return
            self._check_owner()
            assert self._transaction is not None
            assert not self._queue, "the client would flush here; the sink has done so before"
            self._cluster.values += self._transaction
            self._cluster.position = self._position or self._cluster.position
            self._transaction, self._committed = None, True

        self._cluster.around("commit_transaction", commit)

    def abort_transaction(self, seconds: float) -> None:
        self._transaction = None

    def _check_owner(self) -> None:
        if self._cluster.owner is not self:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
