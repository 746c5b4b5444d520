"""The sink that writes rows to Kafka: at least once, or exactly once for readers of committed messages.

*At least once* (`semantics = NON` or `AT_LEAST_ONCE`, which differ only in what `kafka.config` may weaken). An ACK says
that the brokers have confirmed every row up to it. After a crash the rows of the unfinished checkpoint come again.

*Exactly once* (`semantics = EXACTLY_ONCE`). The rows since the last checkpoint are one transaction, which carries the
checkpoint's number and is committed with it: `kafka_transactions` says why a run that lost the job cannot commit.
Readers with `isolation.level = read_committed` see every row once; others see rows that never were.

A row that the brokers refuse for good (too large, no topic) is rejected and the others go on. Brokers refuse whole
batches, so the rows of a refused batch are sent again one by one. A transaction cannot lose a row and go on, so there
the topic's limit is asked for before, and a refusal nobody could foresee ends the job instead of repeating for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaException

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.config.plugins.kafka import EXACTLY_ONCE, NON, topic_field
from edgesocket.config.plugins.kafka_properties import client_properties
from edgesocket.errors import ComponentError, FencedError
from edgesocket.rows import Rows
from edgesocket.sinks.kafka_client import Clients, error_of, failure, producer_properties
from edgesocket.sinks.kafka_deliveries import Deliveries
from edgesocket.sinks.kafka_messages import MessageMaker, Messages, MessageShape
from edgesocket.sinks.kafka_transactions import Transactions
from edgesocket.sinks.kafka_window import Window

CHECKPOINTS_TOPIC = "__consumer_offsets"
"""Where each row names its topic, the group's number is kept on this one, which every cluster has."""


class KafkaSink:
    """Writes rows to a topic.

    Guarantees: at least once; exactly once (deciding) with `EXACTLY_ONCE`. One thread. A `write` that raises took
    nothing, or remembers how far it came in the same Rows and goes on there; with `reopen` rows are lost, and come
    again after a restore.
    """

    def __init__(
        self,
        *,
        topic: str,
        bootstrap_servers: str,
        semantics: str = NON,
        format: str = "json",
        field_delimiter: str = ",",
        kafka_config: Mapping[str, str] | None = None,
        partition: int | None = None,
        partition_key_fields: Sequence[str] = (),
        assign_partitions: Sequence[str] = (),
        transaction_prefix: str = "edgesocket",
        kafka_headers_fields: Sequence[str] = (),
        clients: Callable[[Mapping[str, str]], Clients] = Clients,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the options, which a job file has had checked; nothing is connected before `open`.

        Args:
            clients: makes what talks to the cluster.
            sleep: waits so many seconds.
            now: a steady clock in seconds.

        The others are the options of the job file.
        """
        self.commit_role = CommitRole.DECIDING if semantics == EXACTLY_ONCE else CommitRole.NONE
        self._semantics = semantics
        self._properties = {**client_properties(kafka_config or {}).values, "bootstrap.servers": bootstrap_servers}
        self._shape = MessageShape(
            topic,
            format,
            field_delimiter,
            partition,
            tuple(partition_key_fields),
            tuple(assign_partitions),
            tuple(kafka_headers_fields),
        )
        self._prefix = transaction_prefix
        self._clients = clients(self._properties)
        self._sleep = sleep
        self._now = now
        self._names_topics = bool(topic_field(topic))

        self._context = SinkContext("", 0, "")
        self._deliveries: Deliveries | None = None
        self._maker: MessageMaker | None = None
        self._transactions: Transactions | None = None
        self._window: Window | None = None
        self._limit: int | None = None  # the topic's, where it can be held against a row
        self._prepared = 0  # the checkpoint that covers all rows, 0 for none

    def open(self, context: SinkContext) -> None:
        """Make the producer and see that a broker answers.

        Raises:
            ComponentError: none does; or, not to be retried, something has to be changed first.
        """
        self._context = context
        self._maker = MessageMaker(self._shape, context.schema, self._partition_count)
        known = None
        try:
            if not self._names_topics:
                known = self._clients.max_message_bytes(self._shape.topic)
        except KafkaException as error:
            raise failure("reach the cluster", error_of(error)) from error
        properties = producer_properties(self._properties, self._semantics, known)
        if str(properties.get("compression.type", properties.get("compression.codec", "none"))) == "none":
            self._limit = known
        name = f"{self._prefix}/{context.job}/{context.sink_id}"
        if self.commit_role is CommitRole.DECIDING:
            properties["transactional.id"] = name
        else:
            del properties["transaction.timeout.ms"]
        self._deliveries = Deliveries(self._clients, properties, self._now)
        if self.commit_role is CommitRole.DECIDING:
            topic = CHECKPOINTS_TOPIC if self._names_topics else self._shape.topic
            self._transactions = Transactions(
                self._clients,
                self._deliveries.producer,
                name,
                topic,
                take_trouble=self._deliveries.take_trouble,
                sleep=self._sleep,
                now=self._now,
            )
        self._window = Window(self._deliveries, self._transactions, context.reject, names_topics=self._names_topics)

    def _partition_count(self, topic: str) -> int:
        assert self._deliveries is not None
        return self._deliveries.partition_count(topic)

    @property
    def _opened(self) -> Window:
        assert self._window is not None, "the sink is not open"
        return self._window

    # ---- rows ----------------------------------------------------------------------------------------------------

    def write(self, rows: Rows) -> None:
        """Give the rows to the producer.

        Raises:
            ComponentError: its queue is full and stands still: write the same rows again, and it goes on where it was.
                With `reopen`, rows are lost.
            BadRecordError: a row is refused for good, and the job is to fail then.
        """
        window = self._opened
        window.check()
        if not window.goes_on_with(rows):
            if window.must_settle:
                window.settle()
            messages = self._made(rows)
            self._begin_transaction(window)
            window.add(messages)
        self._prepared = 0
        window.send()

    def _made(self, rows: Rows) -> Messages:
        assert self._maker is not None
        messages = self._maker.make(rows)
        if self._limit is not None:
            messages.refuse_too_large(self._limit)
        return messages

    def _begin_transaction(self, window: Window) -> None:
        if self._transactions is None:
            return
        try:
            self._transactions.ensure_fenced(self._context.epoch)
            self._transactions.begin()
        except (ComponentError, FencedError) as error:
            window.lost = error
            raise

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def prepare(self, checkpoint: int) -> Manifest:
        """Wait until every row is confirmed.

        Returns:
            `{"rows": count}` where a transaction holds rows to commit, else nothing.

        Raises:
            ComponentError: they are not, yet; with `reopen`, some never will be.
            BadRecordError: a row is refused for good, and the job is to fail then.
        """
        window = self._opened
        window.check()
        window.settle()
        if self._transactions is None:
            return {}
        if checkpoint <= self._transactions.landed:
            raise ComponentError(
                f"Kafka sink: the cluster has committed checkpoint {self._transactions.landed} of job "
                f"{self._context.job}, and the state directory knows nothing of it. If it was replaced on purpose, set "
                "another transaction_prefix",
                retryable=False,
            )
        self._prepared = checkpoint
        return {"rows": window.sent} if window.sent else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:  # noqa: ARG002  the transaction knows
        """Exactly once: commit the transaction with the number of the checkpoint. Does nothing where that is done.

        Raises:
            FencedError: a higher epoch has the job; nothing of the transaction will ever be seen.
            ComponentError: it is known not to be committed, or not known at all; the sink must be opened again.
        """
        transactions, window = self._transactions, self._opened
        if transactions is None or checkpoint <= transactions.landed:
            return
        window.check()
        if self._prepared != checkpoint or window.must_settle:
            raise ComponentError(f"Kafka sink: checkpoint {checkpoint} is not prepared in this run", reopen=True)
        try:
            transactions.ensure_fenced(self._context.epoch)
            transactions.commit(checkpoint)
        except (ComponentError, FencedError) as error:
            window.lost = error
            raise
        window.sent, self._prepared = 0, 0

    def fence(self, epoch: int) -> None:
        """Exactly once: make sure that no lower epoch can commit, in a transaction of its own.

        Raises:
            FencedError: a higher epoch was here before.
            ComponentError: the cluster does not answer; open the sink again.
        """
        assert self._transactions is not None, "only an open sink with EXACTLY_ONCE is fenced"
        self._transactions.fence(epoch)

    def landed(self) -> int:
        """Exactly once: the highest checkpoint committed for this job and sink, 0 for none."""
        assert self._transactions is not None, "only an open sink with EXACTLY_ONCE is asked"
        return self._transactions.read()[1]

    def close(self) -> None:
        """Give up what is not committed or not delivered."""
        deliveries, self._deliveries = self._deliveries, None
        if deliveries is not None:
            if self._transactions is not None:
                self._transactions.abort()
            deliveries.close()
