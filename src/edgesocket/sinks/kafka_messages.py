"""Rows as Kafka messages: topic, value, key, partition and headers of each row. Nothing here talks to a broker."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from edgesocket.config.plugins.kafka import is_topic_name, topic_field
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import text_columns, text_rows
from edgesocket.sinks.kafka_json import json_values

ANY_PARTITION = -1
MAX_SHOWN_CHARS = 200
_MOST_OVERHEAD = 128
"""More than this a message without key and headers does not have."""
_PLAIN = 2
"""Columns of such messages: topic and value."""
VALUE = 1
"""The column of the values."""

Message = tuple[Any, ...]
"""The arguments of `Producer.produce`: topic, value, and where they matter key, partition, and so on."""


@dataclass(frozen=True, slots=True)
class MessageShape:
    """What the options say about a message."""

    topic: str
    format: str = "json"
    field_delimiter: str = ","
    partition: int | None = None
    key_fields: Sequence[str] = ()
    assigned: Sequence[str] = ()
    header_fields: Sequence[str] = ()


class Messages:
    """The messages of some rows, column by column: a row gets no object of its own but its value.

    Args:
        rows: what they are made of.
        make: makes their columns, the same ones each time.

    Attributes:
        rows: as given.
        refused: why the row at an index can be no message.
    """

    __slots__ = ("__weakref__", "_columns", "_kept", "_make", "_numbers", "refused", "rows")

    def __init__(self, rows: Rows, make: Callable[[dict[int, str]], Sequence[Any]]) -> None:
        self.rows = rows
        self.refused: dict[int, str] = {}
        self._make = make
        self._columns: Sequence[Any] | None = make(self.refused)
        self._kept: list[int] | None = None
        self._numbers: dict[Message, deque[int]] | None = None

    @property
    def columns(self) -> Sequence[Any]:
        """Arguments of `Producer.produce`, each one for all messages, or a list with one for each: topic, value, and
        where they matter key, partition, and so on. Values are a list."""
        if self._columns is None:
            self._columns = self._kept_of(self._make({}))
        return self._columns

    def let_go(self) -> None:
        """Keep the rows only: the columns are larger, and are made again should somebody ask."""
        self._columns = None

    @property
    def count(self) -> int:
        """How many; without the refused ones after `drop_refused`."""
        return len(self.columns[VALUE])

    def message(self, number: int) -> Message:
        """One of them."""
        return tuple(column[number] if isinstance(column, list) else column for column in self.columns)

    def refuse_too_large(self, limit: int) -> None:
        """Refuse those that are larger than `limit` when they are sent alone and uncompressed."""
        values = self.columns[VALUE]
        if len(self.columns) == _PLAIN and max(map(len, values)) + _MOST_OVERHEAD <= limit:
            return
        for index in range(self.count):
            size = wire_size(self.message(index))
            if size > limit and index not in self.refused:
                self.refused[index] = f"the message has {size} bytes, and the topic takes {limit}"

    def drop_refused(self) -> None:
        """Leave the refused ones out."""
        if self.refused:
            self._kept = [index for index in range(self.count) if index not in self.refused]
            self._columns = self._kept_of(self.columns)

    def _kept_of(self, columns: Sequence[Any]) -> Sequence[Any]:
        kept = self._kept
        if kept is None:
            return columns
        return [[column[index] for index in kept] if isinstance(column, list) else column for column in columns]

    def index_of(self, number: int) -> int:
        """The row of the message at `number`."""
        return number if self._kept is None else self._kept[number]

    def find(self, topic: str, value: bytes, key: bytes | None) -> int | None:
        """Number of the message with these parts: of equal ones another one each time. None: there is no more."""
        if self._numbers is None:
            self._numbers = {}
            for number in range(self.count):
                parts = (*self.message(number), None)[:3]
                self._numbers.setdefault(parts, deque()).append(number)
        found = self._numbers.get((topic, value, key))
        return found.popleft() if found else None


class MessageMaker:
    """Makes messages of rows.

    Args:
        shape: what is wanted.
        schema: columns of all the rows there will be.
        partitions: number of partitions of a topic; asked where `assign_partitions` needs it.

    Raises:
        ComponentError: a column that the options name is not there. Not to be retried.
    """

    def __init__(self, shape: MessageShape, schema: pa.Schema, partitions: Callable[[str], int]) -> None:
        self._shape = shape
        self._topic_field = topic_field(shape.topic)
        self._assigned = [text.encode() for text in shape.assigned]
        self._partitions = partitions
        named = {
            "topic": [self._topic_field] if self._topic_field else [],
            "partition_key_fields": shape.key_fields,
            "kafka_headers_fields": shape.header_fields,
        }
        for option, names in named.items():
            for name in names:
                if name not in schema.names:
                    known = ", ".join(schema.names)
                    message = f"Kafka sink: {option} names the column {name}, and the rows have {known}"
                    raise ComponentError(message, retryable=False)
        self._value_fields = [name for name in schema.names if name not in shape.header_fields]
        if not self._value_fields:
            raise ComponentError("Kafka sink: kafka_headers_fields leaves no column for the value", retryable=False)

    def make(self, rows: Rows) -> Messages:
        """The messages of these rows."""
        return Messages(rows, partial(self._columns, rows))

    def _columns(self, rows: Rows, refused: dict[int, str]) -> Sequence[Any]:
        values = self._values(rows)
        shape = self._shape
        topics = self._topics(rows, refused) if self._topic_field else shape.topic
        columns: list[Any] = [topics, values]
        if shape.key_fields or shape.assigned or shape.header_fields or shape.partition is not None:
            columns.append(json_values(_with_columns(rows, shape.key_fields)) if shape.key_fields else None)
            columns.append(self._find_partitions(topics, values, refused))
        if shape.header_fields:
            columns += [None, None, 0, self._headers(rows)]  # no callback, and the time is now
        return columns

    def _values(self, rows: Rows) -> list[bytes]:
        if rows.records is None and len(self._value_fields) < len(rows.schema):
            rows = _with_columns(rows, self._value_fields)
        return json_values(rows) if self._shape.format == "json" else text_rows(rows, self._shape.field_delimiter)

    def _topics(self, rows: Rows, refused: dict[int, str]) -> list[str]:
        """The topic each row names. A row that names none gets an empty text."""
        (texts,) = text_columns(_with_columns(rows, [self._topic_field]).batch)
        topics = [text or "" for text in texts]
        for topic in set(topics):
            if is_topic_name(topic):
                continue
            for index, text in enumerate(texts):
                if (text or "") == topic:
                    shown = f"{topic[:MAX_SHOWN_CHARS]!r} is no name of a topic" if topic else "it is null or empty"
                    refused[index] = f"column {self._topic_field} names no topic: {shown}"
        return topics

    def _find_partitions(self, topics: list[str] | str, values: list[bytes], refused: dict[int, str]) -> Any:
        if not self._assigned:
            return ANY_PARTITION if self._shape.partition is None else self._shape.partition
        named = topics if isinstance(topics, list) else repeat(topics, len(values))
        return [
            ANY_PARTITION if index in refused else self._assigned_partition(topic, value)
            for index, (topic, value) in enumerate(zip(named, values, strict=True))
        ]

    def _assigned_partition(self, topic: str, value: bytes) -> int:
        for number, text in enumerate(self._assigned):
            if text in value:
                return number
        count = self._partitions(topic)
        rest = count - len(self._assigned)
        if rest <= 0:
            raise ComponentError(
                f"Kafka sink: assign_partitions has {len(self._assigned)} texts, and topic {topic} has {count} "
                "partitions, so there is none for the other rows; add partitions",
                retryable=False,
            )
        return len(self._assigned) + zlib.crc32(value) % rest

    def _headers(self, rows: Rows) -> list[list[tuple[str, bytes | None]]]:
        names = self._shape.header_fields
        columns = text_columns(_with_columns(rows, names).batch)
        return [
            [(name, None if text is None else text.encode()) for name, text in zip(names, texts, strict=True)]
            for texts in zip(*columns, strict=True)
        ]


_BATCH_HEADER = 61
_RECORD_FIXED = 3  # attributes, and the differences of time and offset to the batch's, which are 0


def wire_size(message: Message) -> int:
    """Size of a batch with this one message, uncompressed: what a topic's `max.message.bytes` is compared with."""
    topic_value_key = (*message, None)[:3]
    size = _RECORD_FIXED
    for part in topic_value_key[1:]:
        size += _prefixed(part)
    headers = message[7] if len(message) > 7 else ()
    size += _varint(len(headers))
    for name, value in headers:
        size += _prefixed(name.encode()) + _prefixed(value)
    return _BATCH_HEADER + _varint(size) + size


def _prefixed(part: bytes | None) -> int:
    return _varint(-1) if part is None else _varint(len(part)) + len(part)


def _varint(number: int) -> int:
    """Bytes of a zigzag number."""
    zigzag = 2 * number if number >= 0 else -2 * number - 1
    return max(1, (zigzag.bit_length() + 6) // 7)


def _with_columns(rows: Rows, names: Sequence[str]) -> Rows:
    """The rows with some of their columns."""
    return rows.with_batch(rows.batch.select(list(names)))
