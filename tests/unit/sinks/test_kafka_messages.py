"""Rows as messages: what the client is given for each, and what can be no message."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from edgesocket.errors import ComponentError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks.kafka_messages import MessageMaker, Messages, MessageShape, wire_size


def made(rows: Rows, **shape: Any) -> Messages:
    return MessageMaker(MessageShape(**{"topic": "t", **shape}), rows.schema, lambda _: 3).make(rows)


def all_of(messages: Messages) -> list[tuple[Any, ...]]:
    return [messages.message(number) for number in range(messages.count)]


def typed(**columns: list[Any]) -> Rows:
    return Rows.of_batch(pa.RecordBatch.from_pydict(columns))


def test_a_payload_in_format_text_is_the_value() -> None:
    rows = Rows.of_records(RecordBlock.of_run(1, [b"a", b'"b"']))
    assert all_of(made(rows, format="text")) == [("t", b"a"), ("t", b'"b"')]
    assert all_of(made(rows)) == [("t", b'{"value": "a"}'), ("t", b'{"value": "\\"b\\""}')]


def test_key_partition_and_headers() -> None:
    rows = typed(id=[1, 2], h=["x", None])
    assert all_of(made(rows, key_fields=("id",), header_fields=("h",))) == [
        ("t", b'{"id": 1}', b'{"id": 1}', -1, None, None, 0, [("h", b"x")]),
        ("t", b'{"id": 2}', b'{"id": 2}', -1, None, None, 0, [("h", None)]),
    ]
    assert all_of(made(rows, partition=2, format="text")) == [("t", b"1,x", None, 2), ("t", b"2,", None, 2)]


def test_assigned_partitions_and_the_rest() -> None:
    rows = Rows.of_records(RecordBlock.of_run(1, [b"a hat", b"a shoe", b"bread"]))
    assert [m[3] for m in all_of(made(rows, format="text", assigned=("shoe", "hat")))] == [1, 0, 2]
    with pytest.raises(ComponentError, match="has 3 partitions"):
        made(rows, format="text", assigned=("x", "y", "z"))


def test_rows_that_can_be_no_message_are_refused_and_left_out() -> None:
    rows = typed(to=["a", None, "no/topic", "b"], n=[1, 2, 3, 400])
    messages = made(rows, topic="${to}", format="text")
    assert sorted(messages.refused) == [1, 2]
    messages.refuse_too_large(wire_size(("a", b"a,1")))
    assert "the topic takes 71" in messages.refused[3]
    messages.drop_refused()
    assert all_of(messages) == [("a", b"a,1")]
    assert messages.index_of(0) == 0


def test_after_refused_rows_the_others_keep_their_index() -> None:
    messages = made(typed(to=[None, "a", "", "b"], n=[1, 2, 3, 4]), topic="${to}", format="text")
    messages.drop_refused()
    assert [messages.index_of(number) for number in range(messages.count)] == [1, 3]


def test_the_size_on_the_wire_is_that_of_a_batch_with_one_record() -> None:
    """61 bytes of batch header, then length, attributes, two deltas, and each part behind its length."""
    assert wire_size(("t", b"x" * 10)) == 61 + 1 + (1 + 1 + 1 + 1 + 1 + 10 + 1)
    assert wire_size(("t", b"x" * 10, b"k", -1, None, None, 0, [("h", None)])) == 61 + 1 + (3 + 2 + 11 + 1 + 2 + 1)


@pytest.mark.parametrize("option", [{"key_fields": ("x",)}, {"header_fields": ("x",)}, {"topic": "${x}"}])
def test_a_column_that_is_not_there_is_said(option: dict[str, Any]) -> None:
    with pytest.raises(ComponentError, match="names the column x, and the rows have id") as refused:
        made(typed(id=[1]), **option)
    assert not refused.value.retryable
