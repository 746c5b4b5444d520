"""A producer, and what became of what it was given. One thread.

Only failed deliveries are reported one by one: a row costs no call back into Python. That a flush leaves nothing in
the producer, and that no failure was reported, says that every row is confirmed.

Every message carries a reference to the messages it was sent with, which the client drops with the message. So the rows
of what is not confirmed yet stay in memory, and those that they came with.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from edgesocket.errors import ComponentError
from edgesocket.sinks.kafka_client import CONNECT_S, Clients, error_of, failure
from edgesocket.sinks.kafka_messages import ANY_PARTITION, VALUE, Messages

ROOM_S = 5.0
"""How long a full queue may stand still before the engine hears of it."""
FLUSH_S = 30.0
"""How long a flush may go without a single delivery before the engine hears of it."""
PURGE_S = 2.0
"""Most time that closing takes: a message that is not let go of keeps its rows in memory for ever."""
_LOOK_S = 0.1
_NOT_GIVEN = ("", None, None, ANY_PARTITION, None)
"""Arguments of `Producer.produce` up to the callback: topic, value, and what a message has that has none."""
_CALLBACK = 4


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A message that was not delivered.

    Attributes:
        error: why.
        message: as it comes back.
        sent_with: the messages it is one of.
        number: of it among them, where what comes back does not tell it from others: headers do not come back.
    """

    error: KafkaError
    message: Any
    sent_with: Messages
    number: int | None


class Deliveries:
    """A producer, and what became of what it was given.

    Attributes:
        producer: for its transactions.
    """

    def __init__(
        self, clients: Clients, properties: Mapping[str, Any], now: Callable[[], float] = time.monotonic
    ) -> None:
        """Make the producer; it connects by itself.

        Raises:
            ComponentError: it refuses a property. Not to be retried; values are not shown.
        """
        self._failures: list[FailedDelivery] = []
        self._now = now
        self._had_trouble = False
        self._partition_counts: dict[str, int] = {}
        try:
            self.producer = clients.producer({**properties, "error_cb": self._on_error})
        except KafkaException as error:
            raise failure("use kafka.config", error_of(error)) from None

    def _on_delivery(self, sent_with: Messages, number: int | None, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append(FailedDelivery(error, message, sent_with, number))

    def _on_error(self, error: KafkaError) -> None:  # noqa: ARG002  the client sees to all of them by itself
        self._had_trouble = True

    def take_trouble(self) -> bool:
        """Whether a connection is known to have broken since the last call. Raises ComponentError."""
        self._poll(0)
        trouble, self._had_trouble = self._had_trouble, False
        return trouble

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has. Asked once; more may be added later.

        Raises:
            ComponentError: the cluster does not tell.
        """
        if topic not in self._partition_counts:
            try:
                found = self.producer.list_topics(topic, CONNECT_S).topics[topic]
            except KafkaException as error:
                raise failure(f"ask for the partitions of {topic}", error_of(error)) from error
            if found.error is not None:
                raise failure(f"ask for the partitions of {topic}", found.error)
            self._partition_counts[topic] = len(found.partitions)
        return self._partition_counts[topic]

    @property
    def has_failures(self) -> bool:
        """Whether a delivery is known to have failed."""
        return bool(self._failures)

    def take_failures(self) -> list[FailedDelivery]:
        """The deliveries that failed since the last call."""
        taken, self._failures[:] = self._failures[:], []
        return taken

    def send(self, columns: Sequence[Any], start: int, sent_with: Messages, number: int | None = None) -> int:
        """Give messages to the producer, from index `start`. Waits while its queue is full.

        Args:
            columns: see `Messages.columns`.
            start: index of the first that is not sent yet.
            sent_with: what a failure is to name, and what stays in memory until then.
            number: of a single message among `sent_with`; None where all of them are sent.

        Returns:
            the index of the first that was not taken: the number of messages for none, else the queue stood still.

        Raises:
            ComponentError: the producer is of no use any more.
            NotTakenError: the producer refuses the one at its `index`.
        """
        produce, count, index = self.producer.produce, len(columns[VALUE]), start
        given = [*columns, *_NOT_GIVEN[len(columns) :]]
        given[_CALLBACK] = partial(self._on_delivery, sent_with, number)
        if number is None and len(columns) > _CALLBACK:
            given[_CALLBACK] = [partial(self._on_delivery, sent_with, one) for one in range(count)]
        while True:
            arguments = [_from(column, index) for column in given]
            try:
                deque(map(produce, *arguments), maxlen=0)  # a loop without a line of Python
                self.producer.poll(0)
                return count
            except BufferError:
                index = count - length_hint(arguments[VALUE]) - 1
                if not self._waited_for_room():
                    return index
            except KafkaException as error:
                raise NotTakenError(count - length_hint(arguments[VALUE]) - 1, error_of(error)) from None

    def _waited_for_room(self) -> bool:
        """Wait until something was delivered, for a while. Returns whether it was."""
        until, waiting = self._now() + ROOM_S, len(self.producer)
        while len(self.producer) >= waiting:
            if self._now() >= until:
                return False
            self._poll(_LOOK_S)
        return True

    def _poll(self, seconds: float) -> None:
        try:
            self.producer.poll(seconds)
        except KafkaException as error:
            raise failure("deliver rows", error_of(error), reopen=True) from error

    def flush(self) -> None:
        """Wait until every message is delivered or has failed.

        Raises:
            ComponentError: nothing moves. The messages stay where they are, and another flush waits for them.
        """
        waiting = len(self.producer)
        until = self._now() + FLUSH_S
        while (left := self._flushed()) > 0:
            if left < waiting:
                waiting, until = left, self._now() + FLUSH_S
            elif self._now() >= until:
                raise ComponentError(f"Kafka sink: no broker has confirmed any of {left} rows for {FLUSH_S:g} s")

    def _flushed(self) -> int:
        try:
            left: int = self.producer.flush(1.0)
            return left
        except KafkaException as error:
            raise failure("deliver rows", error_of(error), reopen=True) from error

    def close(self) -> None:
        """Throw away what is not delivered, and wait a moment until the client has let go of it."""
        self.producer.purge()
        until = self._now() + PURGE_S
        while len(self.producer) and self._now() < until:
            with contextlib.suppress(KafkaException):  # a fenced producer says so again each time
                self.producer.flush(_LOOK_S)


def _from(column: Any, start: int) -> Iterator[Any]:
    """The values of a column; a list's iterator tells how many are left."""
    if not isinstance(column, list):
        return repeat(column)
    return iter(column[start:] if start else column)


class NotTakenError(Exception):
    """The producer refuses a message.

    Attributes:
        index: of the message; those before it were taken.
        error: why.
    """

    def __init__(self, index: int, error: KafkaError) -> None:
        super().__init__(str(error))
        self.index = index
        self.error = error
