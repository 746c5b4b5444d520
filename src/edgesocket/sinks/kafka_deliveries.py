"""A producer, and what became of what it was given. One thread.

Only failed deliveries are reported one by one: a row costs no call back into Python. That a flush leaves nothing in
the producer, and that no failure was reported, says that every row is confirmed.

Every message carries a reference to the messages it was sent with, which the client drops with the message. So the rows
of what is not confirmed yet stay in memory, and no others; how many that can be, the client's queue says.
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
    """

    error: KafkaError
    message: Any
    sent_with: Messages


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

    def _on_delivery(self, sent_with: Messages, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append(FailedDelivery(error, message, sent_with))

    def _on_error(self, error: KafkaError) -> None:  # noqa: ARG002  the client sees to all of them by itself
        self._had_trouble = True

    def take_trouble(self) -> bool:
        """Whether a connection is known to have broken since the last call."""
        self.producer.poll(0)
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

    def send(self, columns: Sequence[Any], start: int, sent_with: Messages) -> int:
        """Give messages to the producer, from index `start`. Waits while its queue is full.

        Args:
            columns: see `Messages.columns`.
            start: index of the first that is not sent yet.
            sent_with: what a failure is to name, and what stays in memory until then.

        Returns:
            the index of the first that was not taken: the number of messages for none, else the queue stood still.

        Raises:
            NotTakenError: the producer refuses the one at its `index`.
        """
        produce, count, index = self.producer.produce, len(columns[VALUE]), start
        given = [*columns, *_NOT_GIVEN[len(columns) :]]
        given[_CALLBACK] = partial(self._on_delivery, sent_with)
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
        while len(self.producer) >= waiting and not self._failures:
            if self._now() >= until:
                return False
            self.producer.poll(_LOOK_S)
        return True

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
        """Throw away what is not delivered."""
        self.producer.purge()
        with contextlib.suppress(KafkaException):  # the producer was fenced, and has nothing to deliver
            self.producer.flush(0)


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
