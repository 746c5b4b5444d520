"""How replies are written and read."""

from __future__ import annotations

import pytest

from edgesocket.protocol.replies import RECEIVED, REJECTED, Reply, ReplyKind, ack, parse_reply, queue_full

WIRE = {
    Reply(ReplyKind.AUTH_OK): b"ACK\n",
    Reply(ReplyKind.AUTH_FAILED): b"AUTH_FAILED\n",
    REJECTED: b"REJECTED\n",
    RECEIVED: b"RECEIVED\n",
    queue_full(500): b"QUEUE_FULL:500\n",
    Reply(ReplyKind.RETRY): b"RETRY\n",
    Reply(ReplyKind.DECODE_FAILED): b"DECODE_FAILED\n",
    Reply(ReplyKind.DECRYPT_FAILED): b"DECRYPT_FAILED\n",
    Reply(ReplyKind.BAD_REQUEST): b"BAD_REQUEST\n",
    Reply(ReplyKind.INVALID_PARAM): b"INVALID_PARAM\n",
    Reply(ReplyKind.PENDING): b"PENDING\n",
    Reply(ReplyKind.RESEND): b"RESEND\n",
    ack(0): b"ACK:0\n",
    ack(2**63 - 1): b"ACK:9223372036854775807\n",
}


@pytest.mark.parametrize(("reply", "wire"), WIRE.items(), ids=str)
def test_written_and_read_back(reply: Reply, wire: bytes) -> None:
    assert reply.encode() == wire
    assert str(reply) == wire.decode().strip()
    assert parse_reply(wire[:-1]) == reply
    assert parse_reply(wire[:-1] + b"\r") == reply


def test_every_kind_is_in_the_table_above() -> None:
    assert {reply.kind for reply in WIRE} == set(ReplyKind)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"RECEIVEDX",
        b"received",
        b" RECEIVED",
        b"RECEIVED ",
        b"RECEIVED\r\r",
        b"ACK:",
        b"ACK:x",
        b"ACK:-1",
        b"ACK: 1",
        b"ACK:9223372036854775808",
        b"ACK:" + b"1" * 5000,
        b"QUEUE_FULL",
        b"QUEUE_FULL:",
        b"QUEUE_FULL:1.5",
        b"\xff",
        "ACK:١".encode(),
        b"ACK:1:2",
        b"HTTP/1.1 400 Bad Request",
    ],
)
def test_anything_else_is_no_reply(line: bytes) -> None:
    assert parse_reply(line) is None
