"""Replies owed, as runs."""

from __future__ import annotations

import tracemalloc

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.replies import BAD_REQUEST, PENDING, RECEIVED, ack, queue_full
from edgesocket.protocol.reply_queue import FULL_BYTES, RUN_BYTES, ReplyQueue


def test_empty() -> None:
    replies = ReplyQueue()

    assert not replies
    assert replies.peek(100) == b""
    replies.consumed(0)
    replies.add(RECEIVED, 0)
    assert not replies


def test_order_and_runs() -> None:
    replies = ReplyQueue()
    for reply in (RECEIVED, RECEIVED, queue_full(5), queue_full(5), queue_full(6), RECEIVED):
        replies.add(reply)

    assert replies.run_count == 4
    assert replies.peek(1000) == b"RECEIVED\n" * 2 + b"QUEUE_FULL:5\n" * 2 + b"QUEUE_FULL:6\nRECEIVED\n"


def test_a_line_can_be_half_out() -> None:
    replies = ReplyQueue()
    replies.add(RECEIVED, 2)
    replies.add(PENDING)
    sent = b""
    while replies:
        piece = replies.peek(4)[:3]
        replies.consumed(len(piece))
        sent += piece

    assert sent == b"RECEIVED\nRECEIVED\nPENDING\n"


def test_what_is_added_to_a_half_sent_run_is_sent_whole() -> None:
    replies = ReplyQueue()
    replies.add(RECEIVED)
    replies.consumed(4)
    replies.add(RECEIVED)

    assert replies.peek(100) == b"IVED\nRECEIVED\n"
    assert replies.run_count == 1


def test_five_million_equal_replies_cost_nothing() -> None:
    replies = ReplyQueue()
    tracemalloc.start()
    try:
        for _ in range(500):
            replies.add(RECEIVED, 10_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100_000
    assert not replies.full
    assert replies.peek(9 * 1000) == b"RECEIVED\n" * 1000
    replies.consumed(9 * 5_000_000 - 2)
    assert replies.peek(1000) == b"D\n"


def test_full_at_a_mebibyte_of_runs() -> None:
    replies = ReplyQueue()
    for number in range(FULL_BYTES // RUN_BYTES - 1):
        replies.add(ack(number))
    assert not replies.full

    replies.add(BAD_REQUEST)

    assert replies.full


def test_more_bytes_than_owed_cannot_have_been_sent() -> None:
    replies = ReplyQueue()
    replies.add(RECEIVED)

    with pytest.raises(LocalProtocolError):
        replies.consumed(10)
