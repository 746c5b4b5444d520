"""Faults that were read in, or reported of, systems that do this job, as tests of the decisions alone.

No socket and no thread: lines go in, replies come out (`tests.support.ingress_kit`), and a crash is a new service
restored from the newest completed checkpoint and the arrival log.
"""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from edgesocket.ingress.admission import PacketCodec, RawCodec
from edgesocket.ingress.service import AdmissionRules
from edgesocket.packet.codec import PacketDecoder
from edgesocket.packet.compression import inflate
from tests.support.ingress_kit import Ingress, run_of

FULL = "QUEUE_FULL:500"
MAX_RECORD = 1 << 20


def packet(compressed: bytes, compression: str = "GZIP") -> str:
    return json.dumps({"version": 1, "payload": base64.b64encode(compressed).decode(), "compression": compression})


def packets() -> Ingress:
    return Ingress(codec=PacketCodec(PacketDecoder(None, False, MAX_RECORD)), raw_blocks=False)


# ---- invalid UTF-8 becomes U+FFFD with no notice ----------------------------------------------------------------


def test_invalid_utf8_is_refused_and_never_reaches_a_sink() -> None:
    ingress = Ingress()

    assert ingress.say(b"__BATCH__:1:caf\xe9", b"__BATCH__:2:ok") == ["DECODE_FAILED", "RECEIVED"]
    ingress.pass_on()
    assert ingress.sink == [(2, b"ok")]


def test_invalid_utf8_is_replaced_only_where_the_job_says_so_and_then_it_is_counted() -> None:
    codec = RawCodec(replace_invalid=True)
    ingress = Ingress(codec=codec)

    assert ingress.batch(1, b"caf\xe9") == "RECEIVED"
    ingress.pass_on()
    assert ingress.sink == [(1, "caf\ufffd".encode())]
    assert codec.replaced == 1


# ---- one id that never comes stops every later ACK for ever -------------------------------------------------------


@pytest.mark.parametrize("ids", [[10, 20, 30], [1, 2, 30], [9, 10, 30], [5, 30]])
def test_ids_that_are_skipped_do_not_hold_the_watermark(ids: list[int]) -> None:
    ingress = Ingress()
    for id_ in ids:
        assert ingress.batch(id_) == "RECEIVED"
    ingress.pass_on()

    assert ingress.commit(30) == "ACK:30"


def test_a_batch_that_cannot_be_decoded_does_not_hold_the_watermark() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:1:a", b"__BATCH__:2:\xff", "__BATCH__:3:c")
    ingress.pass_on()

    assert ingress.commit(3) == "ACK:3"


def test_a_batch_that_the_operator_gives_up_does_not_hold_the_watermark() -> None:
    ingress = Ingress(1)
    ingress.say("__BATCH__:1:a", "__BATCH__:2:b")
    ingress.pass_on()
    ingress.batch(3)
    ingress.pass_on()
    assert ingress.commit(3) == "PENDING"

    ingress.service.settle(2, 2, 1)
    ingress.pass_on()
    assert ingress.commit(3) == "ACK:3"


# ---- after a crash, batches received since the last checkpoint answer RETRY -----------------------------------------


def ten_of_which_six_are_confirmed() -> tuple[Ingress, Ingress]:
    first = Ingress(100)
    for id_ in range(1, 7):
        first.batch(id_, "abcdefghij"[id_ - 1])
    cut = first.pass_on()
    for id_ in range(7, 11):
        first.batch(id_, "abcdefghij"[id_ - 1])
    return first, first.restarted(cut)


def test_after_a_crash_what_was_received_since_the_checkpoint_is_to_be_sent_again() -> None:
    first, second = ten_of_which_six_are_confirmed()

    answers = {id_: second.commit(id_) for id_ in (3, 6, 7, 10, 11, 999)}

    assert answers == {3: "ACK:6", 6: "ACK:6", 7: "RESEND", 10: "RESEND", 11: "RETRY", 999: "RETRY"}
    for id_ in range(7, 11):
        assert second.batch(id_, "abcdefghij"[id_ - 1]) == "RECEIVED"
        assert second.commit(id_) == "PENDING"
    second.pass_on()
    assert second.commit(10) == "ACK:10"
    assert [payload for _, payload in first.sink + second.sink] == [b"%c" % byte for byte in b"abcdefghij"]


def test_after_a_crash_a_collector_that_begins_its_ids_again_is_taken_at_its_word() -> None:
    _, second = ten_of_which_six_are_confirmed()
    second.reconnect()

    assert second.batch(1, "new") == "RECEIVED"
    assert second.service.repeated_with_other_payload == 1
    assert second.commit(1) == "PENDING"
    for id_ in range(7, 11):
        second.batch(id_)
    second.pass_on()
    assert second.commit(1) == "ACK:10"
    assert (1, b"new") in second.sink


def test_a_poll_before_anything_was_ever_sent_is_answered_retry() -> None:
    assert Ingress().commit(5) == "RETRY"


# ---- every arrival resets the mark: an ACK without any checkpoint ---------------------------------------------------


def test_there_is_no_ack_before_a_checkpoint_completes() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:1:a", "__BATCH__:2:b")
    assert ingress.say("__COMMIT__:1", "__COMMIT__:2") == ["PENDING", "PENDING"]
    ingress.take()
    assert ingress.commit(1) == "PENDING"
    ingress.service.cut()
    assert ingress.commit(1) == "PENDING"

    ingress.ledger.complete()
    assert ingress.commit(1) == "ACK:2"


@pytest.mark.parametrize("first", [7, 1_000_000])
def test_a_first_arrival_acknowledges_nothing_below_it(first: int) -> None:
    ingress = Ingress()
    ingress.batch(first)

    assert ingress.commit(5) == "RETRY"
    ingress.batch(first - 1)
    assert ingress.commit(first - 1) == "PENDING"
    assert ingress.commit(5) == "RETRY"


# ---- a record that cannot be read is found out after RECEIVED, and comes back with every restore --------------------


@pytest.mark.parametrize(
    "payload",
    [
        packet(gzip.compress(b"cut")[:-4]),
        packet(gzip.compress(b"\xff\xfe")),
        packet(b"no gzip"),
        packet(gzip.compress(bytes(2 * MAX_RECORD))),
        packet(gzip.compress(b"x"), "ZLIB"),
    ],
    ids=["cut stream", "not text", "no stream", "bomb", "another format"],
)
def test_what_cannot_be_inflated_is_refused_before_received_and_is_in_no_checkpoint(payload: str) -> None:
    ingress = packets()

    assert ingress.batch(1, payload) == "DECODE_FAILED"
    assert ingress.service.cut().queue.blocks == ()


def test_what_was_received_can_be_read_after_a_restore() -> None:
    ingress = packets()
    ingress.batch(1, packet(gzip.compress(b"one") + gzip.compress(b" record")))

    (block,) = ingress.restarted(ingress.checkpoint()).queue.image().blocks

    assert inflate(block.payload(0), block.compression, MAX_RECORD) == b"one record"


def test_a_restore_into_a_smaller_queue_keeps_every_record_in_order() -> None:
    first = Ingress(100, "1")
    first.block(run_of(1, 100))
    cut = first.checkpoint()
    first.queue.capacity = 3

    second = first.restarted(cut)

    assert [id_ for id_, _ in second.queued] == list(range(1, 101))
    assert second.batch(101) == FULL
    second.pass_on()
    assert second.commit(101) == "RETRY"
    assert second.commit(100) == "ACK:100"
    assert second.batch(101) == "RECEIVED"
    second.pass_on()
    assert second.commit(101) == "ACK:101"


# ---- public reports: a batch refused in the middle ---------------------------------------------------------------


def refused_in_the_middle() -> Ingress:
    ingress = Ingress(3, "0.67")
    lines = [f"__BATCH__:{id_}:{payload}" for id_, payload in enumerate("abcd", 1)]
    assert ingress.say(*lines) == ["RECEIVED", "RECEIVED", "RECEIVED", FULL]
    ingress.take()
    assert ingress.batch(5, "e") == "RECEIVED"
    ingress.pass_on()
    return ingress


def test_a_batch_refused_in_the_middle_holds_the_watermark_until_it_is_confirmed_itself() -> None:
    ingress = refused_in_the_middle()
    assert ingress.say("__COMMIT__:5", "__COMMIT__:3") == ["PENDING", "ACK:3"]

    ingress.batch(4, "d")
    assert ingress.commit(5) == "PENDING"
    ingress.pass_on()

    assert ingress.commit(5) == "ACK:5"
    assert sorted(ingress.sink) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d"), (5, b"e")]


def test_nor_is_it_covered_after_a_reconnect() -> None:
    ingress = refused_in_the_middle()
    ingress.reconnect()

    assert ingress.say("__COMMIT__:5", "__COMMIT__:4", "__COMMIT__:3") == ["PENDING", "RESEND", "ACK:3"]


def test_a_batch_corrected_after_a_permanent_refusal_is_covered_only_once_confirmed() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:3:c", b"__BATCH__:4:\xff", "__BATCH__:5:e")
    ingress.pass_on()
    assert ingress.commit(5) == "ACK:5"

    ingress.batch(4, "corrected")
    assert ingress.say("__COMMIT__:5", "__COMMIT__:4", "__COMMIT__:3") == ["PENDING", "PENDING", "ACK:3"]
    ingress.take()
    assert ingress.commit(5) == "PENDING"
    ingress.checkpoint()
    assert ingress.commit(5) == "ACK:5"


# ---- public reports: a reply was lost, or an id comes twice ------------------------------------------------------


def test_a_batch_sent_again_because_its_reply_was_lost_is_one_row() -> None:
    ingress = Ingress()
    ingress.batch(7, "x")
    ingress.reconnect()

    assert ingress.batch(7, "x") == "RECEIVED"
    ingress.pass_on()
    assert ingress.batch(7, "x") == "RECEIVED"
    ingress.reconnect()
    assert ingress.batch(7, "x") == "RECEIVED"
    ingress.pass_on()
    assert ingress.sink == [(7, b"x")]
    assert ingress.commit(7) == "ACK:7"


def test_another_payload_under_a_known_id_is_one_more_row() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:10:x", "__BATCH__:10:OTHER")
    ingress.pass_on()

    assert ingress.sink == [(10, b"x"), (10, b"OTHER")]
    assert ingress.service.repeated_with_other_payload == 1


def test_as_in_the_reference_every_line_is_a_row_without_deduplication() -> None:
    ingress = Ingress(rules=AdmissionRules(deduplicate=False))
    ingress.say("__BATCH__:10:x", "__BATCH__:10:x")
    ingress.pass_on()

    assert ingress.sink == [(10, b"x"), (10, b"x")]
