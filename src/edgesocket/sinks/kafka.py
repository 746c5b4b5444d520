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
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException

from edgesocket.components.sink import CommitRole, Manifest, RejectedRow, SinkContext
from edgesocket.config.plugins.kafka import EXACTLY_ONCE, NON, topic_field
from edgesocket.config.plugins.kafka_properties import client_properties
from edgesocket.errors import ComponentError, FencedError
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_rows
from edgesocket.sinks.kafka_client import (
    CONNECT_S,
    ROW_ERRORS,
    TOPIC_ERRORS,
    Clients,
    Deliveries,
    NotTakenError,
    error_of,
    failure,
    producer_properties,
)
from edgesocket.sinks.kafka_messages import Message, MessageMaker, Messages, MessageShape, wire_size
from edgesocket.sinks.kafka_transactions import Transactions

WINDOW_ROWS = 100_000
"""After so many rows all deliveries are waited for: until then the sink remembers which batch a row came in."""
WINDOW_BYTES = 32 << 20
_MOST_OVERHEAD = 128
"""More than this a message without key and headers does not have."""
_PLAIN = 2
"""Parts of such a message: topic and value."""
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
        self._limit: int | None = None  # the topic's, where it can be held against a row
        self._partition_counts: dict[str, int] = {}
        self._window: list[Messages] = []  # sent and not known to be confirmed
        self._window_rows = self._window_bytes = 0
        self._begun: tuple[Messages, int] | None = None  # a write that raised, and how far it came
        self._held = 0  # exactly once: rows in the transaction
        self._prepared = 0  # the checkpoint that covers all of them, 0 for none
        self._lost: ComponentError | FencedError | None = None

    # ---- opening -------------------------------------------------------------------------------------------------

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
                self._clients, self._deliveries.producer, name, topic, sleep=self._sleep, now=self._now
            )

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            try:
                found = self._opened.producer.list_topics(topic, CONNECT_S).topics[topic]
            except KafkaException as error:
                raise failure(f"ask for the partitions of {topic}", error_of(error)) from error
            if found.error is not None:
                raise failure(f"ask for the partitions of {topic}", found.error)
            self._partition_counts[topic] = len(found.partitions)
        return self._partition_counts[topic]

    @property
    def _opened(self) -> Deliveries:
        assert self._deliveries is not None, "the sink is not open"
        return self._deliveries

    # ---- rows ----------------------------------------------------------------------------------------------------

    def write(self, rows: Rows) -> None:
        """Give the rows to the producer.

        Raises:
            ComponentError: its queue is full and stands still: write the same rows again, and it goes on where it was.
                With `reopen`, rows are lost.
            BadRecordError: a row is refused for good, and the job is to fail then.
        """
        self._check_not_lost()
        if self._begun is not None:
            messages, start = self._begun
            if messages.rows is not rows:
                self._lose(ComponentError("Kafka sink: rows were written in part and given up", reopen=True))
        else:
            messages, start = self._made(rows), 0
        try:
            self._send(messages, start)
        finally:
            self._prepared = 0
        self._begun = None

    def _made(self, rows: Rows) -> Messages:
        """The messages of the rows, without those that are refused."""
        assert self._maker is not None, "the sink is not open"
        if self._opened.has_failures or self._window_rows >= WINDOW_ROWS or self._window_bytes >= WINDOW_BYTES:
            self._settle()
        messages = self._maker.make(rows)
        if self._limit is not None:
            self._refuse_too_large(messages, self._limit)
        if self._transactions is not None:
            self._begin(self._transactions)
        for index, reason in sorted(messages.refused.items()):
            self._reject(messages.rows, index, reason)
        messages.drop_refused()
        self._window.append(messages)
        self._window_rows += len(messages.messages)
        self._window_bytes += messages.bytes
        return messages

    def _refuse_too_large(self, messages: Messages, limit: int) -> None:
        for index, message in enumerate(messages.messages):
            if len(message[1]) + _MOST_OVERHEAD > limit or len(message) > _PLAIN:
                size = wire_size(message)
                if size > limit and index not in messages.refused:
                    messages.refused[index] = f"the message has {size} bytes, and the topic takes {limit}"

    def _send(self, messages: Messages, start: int) -> None:
        while True:
            try:
                reached = self._opened.send(messages.messages, start)
            except NotTakenError as refusal:
                self._held += refusal.index - start
                start = refusal.index + 1
                if not self._is_the_rows_fault(refusal.error):
                    self._lose_for(failure("write rows", refusal.error, reopen=True))
                self._begun = messages, start
                self._reject(messages.rows, messages.index_of(refusal.index), refusal.error.str())
                continue
            self._held += reached - start
            if reached < len(messages.messages):
                self._begun = messages, reached
                raise ComponentError("Kafka sink: the producer's queue is full, and no broker takes rows from it")
            return

    def _is_the_rows_fault(self, error: KafkaError) -> bool:
        return error.code() in ROW_ERRORS or (self._names_topics and error.code() in TOPIC_ERRORS)

    def _reject(self, rows: Rows, index: int, reason: str) -> None:
        row = rows.part(index, index + 1)
        text = bytes(row.records.payload(0)) if row.records is not None else json_rows(row)[0]
        self._context.reject(RejectedRow(rows.id_at(index), f"Kafka refuses the row: {reason}", text))

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def prepare(self, checkpoint: int) -> Manifest:
        """Wait until every row is confirmed.

        Returns:
            `{"rows": count}` where a transaction holds rows to commit, else nothing.

        Raises:
            ComponentError: they are not, yet; with `reopen`, some never will be.
            BadRecordError: a row is refused for good, and the job is to fail then.
        """
        self._check_not_lost()
        self._settle()
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
        return {"rows": self._held} if self._held else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:  # noqa: ARG002  the transaction knows
        """Exactly once: commit the transaction with the number of the checkpoint. Does nothing where that is done.

        Raises:
            FencedError: a higher epoch has the job; nothing of the transaction will ever be seen.
            ComponentError: it is known not to be committed, or not known at all; the sink must be opened again.
        """
        transactions = self._transactions
        if transactions is None or checkpoint <= transactions.landed:
            return
        self._check_not_lost()
        if self._prepared != checkpoint or self._opened.has_failures:
            raise ComponentError(f"Kafka sink: checkpoint {checkpoint} is not prepared in this run", reopen=True)
        try:
            self._ensure_fenced(transactions)
            transactions.commit(checkpoint)
        except (ComponentError, FencedError) as error:
            self._lost = error
            raise
        self._held, self._prepared = 0, 0

    def fence(self, epoch: int) -> None:
        """Exactly once: make sure that no lower epoch can commit, in a transaction of its own.

        Raises:
            FencedError: a higher epoch was here before.
            ComponentError: the cluster does not answer; open the sink again.
        """
        assert self._transactions is not None, "only an open sink with EXACTLY_ONCE is fenced"
        if self._transactions.epoch == 0:
            self._transactions.fence(epoch)
            return
        known, _ = self._transactions.read()  # fenced before: the producer cannot do it twice
        if known != epoch:
            raise FencedError(f"job {self._context.job}: run {epoch} is fenced by run {known}")

    def landed(self) -> int:
        """Exactly once: the highest checkpoint committed for this job and sink, 0 for none."""
        assert self._transactions is not None, "only an open sink with EXACTLY_ONCE is asked"
        return self._transactions.read()[1]

    def close(self) -> None:
        """Give up what is not committed or not delivered."""
        deliveries, self._deliveries = self._deliveries, None
        self._window = []
        if deliveries is not None:
            if self._transactions is not None:
                self._transactions.abort()
            deliveries.close()

    def _ensure_fenced(self, transactions: Transactions) -> None:
        if transactions.epoch == 0:
            transactions.fence(self._context.epoch)

    def _begin(self, transactions: Transactions) -> None:
        try:
            self._ensure_fenced(transactions)
            transactions.begin()
        except (ComponentError, FencedError) as error:
            self._lost = error
            raise

    # ---- deliveries ----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait for every delivery; see to those that failed."""
        self._opened.flush()
        failures = self._opened.take_failures()
        for error, message in failures:
            if not self._is_the_rows_fault(error):
                self._lose_for(failure(f"deliver to {message.topic()}", error, reopen=True))
        if failures and self._transactions is not None:
            error, message = failures[0]
            batch_id = self._batch_of(message)
            self._lose_for(
                ComponentError(
                    f"Kafka sink: topic {message.topic()} refuses batch {batch_id}, or one sent with it, for good: "
                    f"{error.str()}. The transaction cannot go on without it",
                    retryable=False,
                )
            )
        for number, (error, message) in enumerate(failures):
            try:
                self._send_alone(error, message)
            except BaseException:
                # Those not seen to yet are neither confirmed nor rejected.
                unseen = len(failures) - number
                self._lost = ComponentError(f"Kafka sink: {unseen} rows were refused and not seen to", reopen=True)
                raise
        self._window, self._window_rows, self._window_bytes = [], 0, 0

    def _send_alone(self, error: KafkaError, message: Any) -> None:
        """A batch was refused for one of its rows: each gets a batch of its own, and who fails then is at fault."""
        arguments: Message = (message.topic(), message.value(), message.key(), message.partition())
        if message.headers():
            arguments = (*arguments, None, None, 0, message.headers())
        if error.code() not in TOPIC_ERRORS:
            if self._opened.send([arguments], 0) == 0:
                raise ComponentError("Kafka sink: the producer's queue is full, and no broker takes rows from it")
            self._opened.flush()
            again = self._opened.take_failures()
            if not again:
                return
            error = again[0][0]
            if not self._is_the_rows_fault(error):
                self._lose_for(failure(f"deliver to {message.topic()}", error, reopen=True))
        found = self._find(message)
        if found is None:
            self._lose_for(ComponentError(f"Kafka sink: a row cannot be found again: {error.str()}", reopen=True))
        rows, index = found
        self._reject(rows, index, error.str())

    def _find(self, message: Any) -> tuple[Rows, int] | None:
        """The row that a message was made of: of equal rows the first that was not found yet."""
        wanted = (message.topic(), message.value(), message.key())
        for messages in self._window:
            for index, sent in enumerate(messages.messages):
                if (*sent, None)[:3] == wanted and messages.mark_found(index):
                    return messages.rows, messages.index_of(index)
        return None

    def _batch_of(self, message: Any) -> str:
        found = self._find(message)
        return "?" if found is None else str(found[0].id_at(found[1]))

    def _lose_for(self, error: ComponentError) -> NoReturn:
        """Rows are gone, so the sink must be opened again. Finds out whether a newer run is the cause."""
        if self._transactions is not None and self._transactions.epoch:
            self._transactions.is_open = self._transactions.is_open and error.retryable
            try:
                known, _ = self._transactions.read()
            except ComponentError:
                known = 0
            if known > self._transactions.epoch:
                self._lost = FencedError(f"job {self._context.job}: this run is fenced by run {known}")
                raise self._lost
        self._lose(error)

    def _lose(self, error: ComponentError) -> NoReturn:
        self._lost = error
        raise error

    def _check_not_lost(self) -> None:
        if self._lost is not None:
            raise self._lost
