"""Bytes of payloads by reply, and the oldest batch that is not confirmed: exact on every path of admission."""

from __future__ import annotations

from edgesocket.ingress.admission import RawCodec
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue
from edgesocket.ingress.service import AdmissionRules, IngressService
from edgesocket.protocol.commands import Batch, Commit
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.records import RecordBlock


def service(capacity: int = 100, *, raw_blocks: bool = True) -> IngressService:
    queue = RecordQueue(capacity, capacity)
    return IngressService(AdmissionRules(), Ledger(), queue, RawCodec(), raw_blocks=raw_blocks)


def block(first: int, *payloads: bytes) -> RecordBlock:
    return RecordBlock.of_run(first, list(payloads))


def test_a_block_counts_what_its_records_hold_by_what_they_were_answered() -> None:
    one, replies = service(2), ReplyQueue()
    rest = one.offer_block(block(1, b"a", b"bb", b"ccc", b"dddd"), replies)
    assert rest is not None
    one.hold_block(rest, replies)
    assert one.reply_counts() == {"RECEIVED": 2, "QUEUE_FULL": 2}
    assert one.payload_byte_counts() == {"RECEIVED": 3, "QUEUE_FULL": 7}


def test_records_that_go_through_the_codec_count_as_they_came() -> None:
    one, replies = service(raw_blocks=False), ReplyQueue()
    assert one.offer_block(block(1, b"a", b"\xff\xff", b"ccc"), replies) is None
    assert one.payload_byte_counts() == {"RECEIVED": 4, "DECODE_FAILED": 2}


def test_single_lines_and_resends_count() -> None:
    one, replies = service(1), ReplyQueue()
    assert one.offer_batch(Batch(1, b"abc"), replies)
    one.take(10, 1000)
    assert one.offer_batch(Batch(1, b"abc"), replies), "a resend: offered twice"
    assert one.offer_batch(Batch(2, b"\xff"), replies)
    assert one.offer_batch(Batch(3, b"abcd"), replies)
    assert not one.offer_batch(Batch(4, b"abcde"), replies)
    one.hold_batch(Batch(4, b"abcde"), replies)
    assert one.payload_byte_counts() == {"RECEIVED": 10, "DECODE_FAILED": 1, "QUEUE_FULL": 5}


def test_polls_have_no_payload() -> None:
    one, replies = service(), ReplyQueue()
    one.answer(Commit(5), replies)
    assert one.payload_byte_counts() == {}


def test_the_oldest_unconfirmed_is_the_lowest_that_is_here() -> None:
    one, replies = service(), ReplyQueue()
    assert one.ledger.oldest_unconfirmed is None
    one.offer_block(block(5, b"a", b"b", b"c"), replies)
    assert one.ledger.oldest_unconfirmed == 5
    one.take(2, 1000)
    assert one.ledger.oldest_unconfirmed == 5, "with the sinks, and not confirmed"
    one.cut()
    assert one.ledger.oldest_unconfirmed == 5
    one.ledger.complete()
    assert one.ledger.oldest_unconfirmed == 7
