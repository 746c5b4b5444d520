"""What a producer was given and has not confirmed yet, and what happens to the rows whose delivery fails.

A failed delivery comes back as bytes and an error, with the messages it was sent with: there the row is found, and with
it the batch that has to be named. A loss of rows is remembered: from then on everything ends with the same error, and
the sink must be opened again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from confluent_kafka import KafkaError

from edgesocket.components.sink import RejectedRow
from edgesocket.errors import ComponentError, FencedError
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_rows
from edgesocket.sinks.kafka_client import ROW_ERRORS, TOPIC_ERRORS, failure
from edgesocket.sinks.kafka_deliveries import Deliveries, FailedDelivery, NotTakenError
from edgesocket.sinks.kafka_messages import Messages
from edgesocket.sinks.kafka_transactions import Transactions

MOST_ROWS = 1_000_000
"""Of blocks that are not confirmed as a whole: then all deliveries are waited for. One partition of a hundred that
takes nothing keeps the blocks of all in memory."""
MOST_BYTES = 256 << 20
_QUEUE_FULL = "Kafka sink: the producer's queue is full, and no broker takes rows from it"


class Window:
    """Sends messages and answers for them.

    Args:
        deliveries: of the producer.
        transactions: of the same producer; None without transactions.
        reject: takes a row that is refused for good.
        names_topics: whether each row names its topic, and with that can name one that takes no rows.

    Attributes:
        sent: how many rows were given to the producer; a transaction that is committed sets it to 0.
        lost: why the sink must be opened again; None while all is well.

    One thread.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        transactions: Transactions | None,
        reject: Callable[[RejectedRow], None],
        *,
        names_topics: bool,
    ) -> None:
        self.sent = 0
        self.lost: ComponentError | FencedError | None = None
        self._deliveries = deliveries
        self._transactions = transactions
        self._reject_row = reject
        self._names_topics = names_topics
        self._alive = _Alive()
        self._sending: Messages | None = None  # not all of them are in the producer,
        self._next = 0  # but those before this one are
        self._stood_still = False  # the last time that deliveries were waited for, though the cluster answered

    # ---- sending -------------------------------------------------------------------------------------------------

    @property
    def must_settle(self) -> bool:
        """Whether deliveries have to be seen to before more is sent."""
        return self._deliveries.has_failures or self._alive.rows >= MOST_ROWS or self._alive.bytes >= MOST_BYTES

    def goes_on_with(self, rows: Rows) -> bool:
        """Whether the rows were added before, and are sent only in part.

        Raises:
            ComponentError: others are; those cannot be left out.
        """
        if self._sending is not None and self._sending.rows is not rows:
            self.lose(ComponentError("Kafka sink: rows were written in part and given up", reopen=True))
        return self._sending is not None

    def add(self, messages: Messages) -> None:
        """Take the next messages; `send` sends them. Rejects the rows that cannot be messages."""
        for index, reason in sorted(messages.refused.items()):
            self._reject(messages.rows, index, reason)
        messages.drop_refused()
        self._alive.count(messages)
        self._sending, self._next = messages, 0

    def send(self) -> None:
        """Give what was added to the producer.

        Raises:
            ComponentError: its queue stands still: call again, and it goes on where it was. With `reopen`, no more.
            BadRecordError: a row is refused for good, and the job is to fail then.
        """
        messages = self._sending
        assert messages is not None, "nothing was added"
        while True:
            refusal = None
            try:
                reached = self._deliveries.send(messages.columns, self._next, messages)
            except NotTakenError as raised:
                refusal, reached = raised, raised.index
            except ComponentError as error:
                self.lose_for(error)
            self.sent += reached - self._next
            self._next = reached
            if refusal is not None:
                self._skip_refused(messages, refusal)
            elif reached < messages.count:
                raise ComponentError(_QUEUE_FULL)
            else:
                self._sending = None
                messages.let_go()
                return

    def _skip_refused(self, messages: Messages, refusal: NotTakenError) -> None:
        if not self._is_the_rows_fault(refusal.error):
            self.lose_for(failure("write rows", refusal.error, reopen=True))
        self._next = refusal.index + 1
        self._reject(messages.rows, messages.index_of(refusal.index), refusal.error.str())

    def _is_the_rows_fault(self, error: KafkaError) -> bool:
        return error.code() in ROW_ERRORS or (self._names_topics and error.code() in TOPIC_ERRORS)

    def _reject(self, rows: Rows, index: int, reason: str) -> None:
        row = rows.part(index, index + 1)
        text = bytes(row.records.payload(0)) if row.records is not None else json_rows(row)[0]
        self._reject_row(RejectedRow(rows.id_at(index), f"Kafka refuses the row: {reason}", text))

    # ---- waiting for deliveries ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait for every delivery; see to those that failed.

        Raises:
            ComponentError: not every row is confirmed, yet; with `reopen`, some never will be.
            BadRecordError: a row is refused for good, and the job is to fail then.
        """
        self._flush()
        failures = self._deliveries.take_failures()
        for failed in failures:
            if not self._is_the_rows_fault(failed.error):
                self.lose_for(failure(f"deliver to {failed.message.topic()}", failed.error, reopen=True))
        if failures and self._transactions is not None:
            self.lose_for(_refused_in_transaction(failures[0]))
        for position, failed in enumerate(failures):
            try:
                self._send_alone(failed)
            except BaseException:
                # Those not seen to yet are neither confirmed nor rejected.
                unseen = len(failures) - position
                self.lost = ComponentError(f"Kafka sink: {unseen} rows were refused and not seen to", reopen=True)
                raise

    def _flush(self) -> None:
        """Wait for every delivery. A client that delivers nothing, twice in a row and though the cluster answers, is
        given up.

        After a broker was away the client may stand still until its rows expire, two minutes after they were written.
        Outside of transactions that is waited for: a row that was delivered after all would be there twice.
        """
        try:
            self._deliveries.flush()
        except ComponentError as error:
            if error.reopen or self._transactions is None:
                raise
            try:
                self._transactions.read()
            except ComponentError:
                self._stood_still = False  # nobody answers: the rows may stay where they are
                raise error from None
            if not self._stood_still:
                self._stood_still = True
                raise
            self.lose_for(ComponentError(f"{error}, though the cluster answers", reopen=True))
        self._stood_still = False

    def _send_alone(self, failed: FailedDelivery) -> None:
        """A batch was refused for one of its rows: each gets a batch of its own, and who fails then is at fault."""
        error, messages, number = failed.error, failed.sent_with, _number_of(failed)
        if number is None:
            self.lose_for(ComponentError(f"Kafka sink: a row cannot be found again: {error.str()}", reopen=True))
        if error.code() not in TOPIC_ERRORS:
            columns = _alone(messages, number, failed.message.partition())
            if self._deliveries.send(columns, 0, messages, number) == 0:
                raise ComponentError(_QUEUE_FULL)
            self._deliveries.flush()
            again = self._deliveries.take_failures()
            if not again:
                return
            error = again[0].error
            if not self._is_the_rows_fault(error):
                self.lose_for(failure(f"deliver to {failed.message.topic()}", error, reopen=True))
        self._reject(messages.rows, messages.index_of(number), error.str())

    # ---- losses --------------------------------------------------------------------------------------------------

    def lose_for(self, error: ComponentError) -> NoReturn:
        """Rows are gone. Finds out whether a newer run is the cause."""
        transactions = self._transactions
        if transactions is not None and transactions.epoch:
            transactions.is_open = transactions.is_open and error.retryable
            try:
                known, _ = transactions.read()
            except ComponentError:
                known = 0
            if known > transactions.epoch:
                self.lost = FencedError(f"run {transactions.epoch} of the job is fenced by run {known}")
                raise self.lost
        self.lose(error)

    def lose(self, error: ComponentError) -> NoReturn:
        """Rows are gone: raise the error, now and whenever `check` is called."""
        self.lost = error
        raise error

    def check(self) -> None:
        """Raise what `lost` says."""
        if self.lost is not None:
            raise self.lost


class _Alive:
    """How much of what was sent is in memory still: of a block all rows are, until the last of them is confirmed."""

    def __init__(self) -> None:
        self.rows = self.bytes = 0

    def count(self, messages: Messages) -> None:
        """Count these for as long as there is a reference to them."""
        rows = messages.rows
        size = rows.batch.nbytes if rows.records is None else rows.records.payload_bytes
        self.rows += rows.count
        self.bytes += size
        weakref.finalize(messages, self._gone, rows.count, size).atexit = False

    def _gone(self, rows: int, size: int) -> None:
        self.rows -= rows
        self.bytes -= size


def _alone(messages: Messages, number: int, partition: int) -> list[Any]:
    """The columns of one message, for the partition that it was sent to before."""
    topic, value, *rest = messages.message(number)
    columns: list[Any] = [topic, [value]]
    if rest:
        key, _, *more = rest
        columns += [key, partition]
        if more:
            *plain, headers = more
            columns += [*plain, [headers]]
    else:
        columns += [None, partition]
    return columns


def _refused_in_transaction(failed: FailedDelivery) -> ComponentError:
    number = _number_of(failed)
    batch_id = "?" if number is None else str(failed.sent_with.rows.id_at(failed.sent_with.index_of(number)))
    return ComponentError(
        f"Kafka sink: topic {failed.message.topic()} refuses batch {batch_id}, or one sent with it, for good: "
        f"{failed.error.str()}. The transaction cannot go on without it",
        retryable=False,
    )


def _number_of(failed: FailedDelivery) -> int | None:
    """Which of the messages it is; of equal ones any that was not asked for yet."""
    if failed.number is not None:
        return failed.number
    message = failed.message
    return failed.sent_with.find(message.topic(), message.value(), message.key())
