"""The decisions on every line: order of the checks, resends, what must be on disk before a reply, checkpoints."""

from __future__ import annotations

import base64
import gzip
import json
import zlib

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.ids import IdRanges
from edgesocket.ingress import ledger as ledger_module
from edgesocket.ingress.admission import Admitted, PacketCodec, RawCodec
from edgesocket.ingress.batch_states import BatchState, GapRule
from edgesocket.ingress.fingerprints import FINGERPRINT_RECORDS, FingerprintMemory
from edgesocket.ingress.service import AdmissionRules, Burst, Note, NoteKind, RepeatedId
from edgesocket.packet.codec import PacketDecoder, PacketEncoder
from tests.support.ingress_kit import CountingCodec, Ingress, Replies, block_of, run_of

KEY = bytes(range(32))
BAD = b"\xff"
NOT_DEDUPLICATED = AdmissionRules(deduplicate=False)
REPEATED_IS_RESEND = AdmissionRules(repeated_id=RepeatedId.RESEND)


def packet(payload: bytes, compression: str = "NONE", **more: object) -> str:
    envelope = {"version": 1, "payload": base64.b64encode(payload).decode(), "compression": compression, **more}
    return json.dumps(envelope)


def packet_ingress(capacity: int = 10, *, require: bool = False) -> Ingress:
    codec = PacketCodec(PacketDecoder(KEY, require, 1 << 20))
    return Ingress(capacity, codec=codec, raw_blocks=False)


def notes(burst: Burst | None) -> list[tuple[str, int, int]]:
    return [] if burst is None else [(note.kind.name, note.first, note.last) for note in burst.notes]


# ---- section 3: the checks, in their order ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("__BATCH__", "BAD_REQUEST"),
        ("__BATCH__:", "BAD_REQUEST"),
        ("__BATCH__:5", "BAD_REQUEST"),
        ("__BATCH__::p", "INVALID_PARAM"),
        ("__batch__:5:p", "BAD_REQUEST"),
        (" __BATCH__:5:p", "BAD_REQUEST"),
        ("__COMMIT__", "BAD_REQUEST"),
        ("__COMMIT__:", "INVALID_PARAM"),
        ("__COMMIT__:5:x", "INVALID_PARAM"),
        ("__PING__", "BAD_REQUEST"),
        ("", "BAD_REQUEST"),
        ("__AUTH__:my-edge-token", "BAD_REQUEST"),
    ],
)
def test_lines_that_are_no_request_are_answered_and_queue_nothing(line: str, reply: str) -> None:
    ingress = Ingress()

    assert ingress.say(line, "__BATCH__:1:next") == [reply, "RECEIVED"]
    assert ingress.queued == [(1, b"next")]


BAD_IDS = ["0", "-1", "-0", "+1", " 1", "1 ", "1\t", "1_000", "١٢", "１", "1.0", "1e3", "0x10", "abc", ""]
BAD_IDS += ["9223372036854775808", "99999999999999999999", "1" * 5000, "0" * 5000]


@pytest.mark.parametrize("id_", BAD_IDS)
def test_ids_that_are_none(id_: str) -> None:
    ingress = Ingress()

    assert ingress.say(f"__BATCH__:{id_}:p", f"__COMMIT__:{id_}") == ["INVALID_PARAM", "INVALID_PARAM"]
    assert ingress.queued == []
    assert ingress.ledger.floor is None
    assert ingress.bursts == []


def test_leading_zeros_are_the_same_id_everywhere() -> None:
    ingress = Ingress()

    assert ingress.say("__BATCH__:007:x", "__BATCH__:7:x", "__BATCH__:" + "0" * 5000 + "7:x") == ["RECEIVED"] * 3
    assert ingress.queued == [(7, b"x")]
    ingress.pass_on()
    assert ingress.say("__COMMIT__:007", "__COMMIT__:7") == ["ACK:7", "ACK:7"]


def test_the_two_largest_ids_are_ids_like_others() -> None:
    ingress = Ingress()

    assert ingress.batch(9223372036854775806) == "RECEIVED"
    assert ingress.batch(9223372036854775807) == "RECEIVED"
    assert ingress.commit(9223372036854775807) == "PENDING"
    ingress.pass_on()
    assert ingress.commit(9223372036854775806) == "ACK:9223372036854775807"
    assert ingress.block(run_of(9223372036854775806, 2)) == ["RECEIVED"] * 2
    assert ingress.queued == []


def test_an_empty_raw_payload_is_a_row_and_no_packet() -> None:
    raw, packets = Ingress(), packet_ingress()

    assert raw.say("__BATCH__:5:") == ["RECEIVED"]
    assert raw.take() == [(5, b"")]
    assert packets.say("__BATCH__:5:") == ["DECODE_FAILED"]
    assert packets.say("__BATCH__:6:" + packet(b"")) == ["RECEIVED"]
    assert packets.take() == [(6, b"")]


def test_at_the_mark_a_malformed_line_still_gets_its_own_answer() -> None:
    ingress = Ingress(1)
    ingress.batch(1)

    assert ingress.say("__BATCH__:2", "__BATCH__:0:p", "__BATCH__:2:p") == [
        "BAD_REQUEST",
        "INVALID_PARAM",
        "QUEUE_FULL:500",
    ]


def test_at_the_mark_no_payload_is_looked_at() -> None:
    codec = CountingCodec()
    ingress = Ingress(1, codec=codec)
    ingress.say("__BATCH__:1:first", b"__BATCH__:2:" + BAD, "__BATCH__:1:first")

    assert codec.looked_at == [b"first"]
    assert ingress.ledger.state(2) is BatchState.HELD, "it was refused for now, not for good"


def test_at_the_mark_a_packet_that_would_not_decode_is_only_refused_for_now() -> None:
    ingress = packet_ingress(1)

    assert ingress.say("__BATCH__:1:" + packet(b"x"), "__BATCH__:2:not a packet") == ["RECEIVED", "QUEUE_FULL:500"]
    ingress.take()
    assert ingress.batch(2, "not a packet") == "DECODE_FAILED"


@pytest.mark.parametrize(
    ("capacity", "ratio", "taken"), [(100, "0.07", 7), (100, "0.55", 55), (1, "0.9", 1), (3, "1.0", 3), (3, "0.67", 3)]
)
def test_the_mark_counts_records(capacity: int, ratio: str, taken: int) -> None:
    ingress = Ingress(capacity, ratio)
    replies = ingress.say(*(f"__BATCH__:{id_}:p" for id_ in range(1, 102)))

    assert replies == ["RECEIVED"] * taken + ["QUEUE_FULL:500"] * (101 - taken)
    assert Ingress(capacity, ratio).block(run_of(1, 101)) == replies


def test_bytes_have_a_mark_too_and_an_empty_queue_takes_one_huge_record() -> None:
    ingress = Ingress(max_bytes=10)

    assert ingress.say("__BATCH__:1:" + "x" * 1000, "__BATCH__:2:") == ["RECEIVED", "QUEUE_FULL:500"]
    ingress.take()
    assert ingress.say("__BATCH__:2:12345", "__BATCH__:3:12345", "__BATCH__:4:1") == [
        "RECEIVED",
        "RECEIVED",
        "QUEUE_FULL:500",
    ]


def test_queue_full_names_the_configured_wait() -> None:
    ingress = Ingress(1, rules=AdmissionRules(retry_after_ms=20))

    assert ingress.say("__BATCH__:1:a", "__BATCH__:2:b") == ["RECEIVED", "QUEUE_FULL:20"]


def test_a_packet_that_decrypts_to_nonsense_is_a_decode_failure_and_one_that_does_not_decrypt_is_not() -> None:
    ingress = packet_ingress(require=True)
    sealed = PacketEncoder(secret_key=KEY, random_bytes=bytes)
    wrong_key = PacketEncoder(secret_key=bytes(32), random_bytes=bytes).seal(b"hello")
    not_text = sealed.seal(BAD)

    assert ingress.batch(1, sealed.seal(b"hello")) == "RECEIVED"
    assert ingress.batch(2, wrong_key) == "DECRYPT_FAILED"
    assert ingress.batch(3, not_text) == "DECODE_FAILED"
    assert ingress.batch(4, packet(b"plain")) == "DECRYPT_FAILED"
    states = [ingress.ledger.state(id_) for id_ in (1, 2, 3, 4)]
    assert states == [BatchState.RECEIVED, BatchState.HELD, BatchState.SETTLED, BatchState.HELD]


class SecondProducer(RawCodec):
    """While a payload is looked at, somebody else fills the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.ingress: Ingress | None = None

    def admit(self, payload: bytes) -> Admitted:
        admitted = super().admit(payload)
        assert self.ingress is not None
        queue = self.ingress.queue
        while not queue.is_full():
            queue.append(run_of(1000 + queue.records, 1))
        return admitted


def test_a_queue_that_is_full_after_all_is_retried_after_the_payload_was_checked() -> None:
    codec = SecondProducer()
    ingress = codec.ingress = Ingress(4, codec=codec)

    assert ingress.batch(1, BAD) == "DECODE_FAILED"
    assert ingress.batch(2) == "RETRY"
    assert ingress.ledger.state(2) is BatchState.HELD
    assert ingress.commit(2) == "RETRY"
    ingress.take()
    ingress.service.codec = RawCodec()
    assert ingress.batch(2) == "RECEIVED"


def test_replies_are_counted_by_word() -> None:
    ingress = Ingress(2, "1")
    ingress.say("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c", "nonsense", "__COMMIT__:1")

    assert ingress.service.reply_counts() == {"RECEIVED": 2, "QUEUE_FULL": 1, "BAD_REQUEST": 1, "PENDING": 1}
    assert Ingress().service.reply_counts() == {}


def test_at_its_bound_the_ledger_refuses_like_a_full_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 2)
    ingress = Ingress()
    ingress.say("__BATCH__:10:a", "__BATCH__:20:b")

    assert ingress.batch(30) == "QUEUE_FULL:500"
    assert ingress.block(run_of(31, 2)) == ["QUEUE_FULL:500"] * 2
    assert ingress.block(run_of(15, 1)) == ["QUEUE_FULL:500"]
    ingress.take()
    ingress.checkpoint()
    assert ingress.batch(30) == "QUEUE_FULL:500", "what is refused counts as well"
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 10)
    assert ingress.block(run_of(30, 3)) == ["RECEIVED"] * 3


# ---- blocks are admitted like lines ------------------------------------------------------------------------------


def test_a_block_of_packets_is_admitted_one_by_one() -> None:
    ingress = packet_ingress()
    block = block_of({1: packet(b"a").encode(), 2: b"nonsense", 3: packet(gzip.compress(b"c"), "GZIP").encode()})

    assert ingress.block(block) == ["RECEIVED", "DECODE_FAILED", "RECEIVED"]


def test_a_block_over_ids_in_many_states_is_admitted_id_by_id() -> None:
    ingress = Ingress(5, "1")
    ingress.say("__BATCH__:2:p", b"__BATCH__:4:" + BAD, "__BATCH__:6:p")

    replies = ingress.block(run_of(1, 7))

    assert replies == ["RECEIVED"] * 4 + ["QUEUE_FULL:500"] * 3, "1, 3 and 4 are new, 2 is a resend, then it is full"
    assert [id_ for id_, _ in ingress.queued] == [2, 6, 1, 3, 4]
    assert ingress.ledger.state(6) is BatchState.RECEIVED


def test_a_block_of_ids_in_any_order_is_admitted_in_that_order() -> None:
    ingress = Ingress()

    assert ingress.block(block_of([(9, b"a"), (3, b"b"), (9, b"a"), (9, b"c")])) == ["RECEIVED"] * 4
    assert ingress.queued == [(9, b"a"), (3, b"b"), (9, b"c")]
    assert ingress.ledger.floor == 8
    assert ingress.service.resends == 1


# ---- resends -------------------------------------------------------------------------------------------------------


def test_the_same_payload_is_a_resend_received_counted_and_not_queued_again() -> None:
    ingress = Ingress()

    assert ingress.say("__BATCH__:8:x", "__BATCH__:8:x") == ["RECEIVED", "RECEIVED"]
    ingress.take()
    assert ingress.batch(8, "x") == "RECEIVED", "captured"
    ingress.checkpoint()
    assert ingress.batch(8, "x") == "RECEIVED", "confirmed"
    assert ingress.sink == [(8, b"x")]
    assert ingress.queued == []
    assert ingress.service.resends == 3
    assert ingress.commit(8) == "ACK:8"


def test_another_payload_is_one_more_record_and_counted() -> None:
    ingress = Ingress()

    assert ingress.say("__BATCH__:10:x", "__BATCH__:10:OTHER", "__BATCH__:10:x") == ["RECEIVED"] * 3
    assert ingress.queued == [(10, b"x"), (10, b"OTHER")]
    assert ingress.service.repeated_with_other_payload == 1
    assert ingress.service.last_repeated_id == 10


def test_a_batch_of_two_records_is_confirmed_when_both_are() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:10:x", "__BATCH__:10:OTHER")
    ingress.take(1)
    ingress.checkpoint()
    assert ingress.commit(10) == "PENDING"

    ingress.pass_on()
    assert ingress.commit(10) == "ACK:10"


def test_the_payload_counts_after_decryption_and_decompression() -> None:
    ingress = packet_ingress()
    counter = iter(range(256))
    sealed = PacketEncoder(secret_key=KEY, random_bytes=lambda count: bytes([next(counter)]) * count)

    forms = [packet(b"hello"), packet(gzip.compress(b"hello"), "GZIP"), packet(zlib.compress(b"hello", 1), "ZLIB")]
    for form in [*forms, sealed.seal(b"hello").decode(), sealed.seal(b"hello").decode()]:
        assert ingress.batch(1, form) == "RECEIVED"
    assert ingress.batch(1, packet(gzip.compress(b"hello!"), "gzip")) == "RECEIVED"

    assert len(ingress.queued) == 2
    assert ingress.service.resends == 4


def test_without_deduplication_every_line_is_a_record() -> None:
    ingress = Ingress(rules=NOT_DEDUPLICATED)

    assert ingress.say("__BATCH__:1:x", "__BATCH__:1:x") == ["RECEIVED"] * 2
    assert ingress.block(run_of(1, 2, b"x")) == ["RECEIVED"] * 2
    ingress.pass_on()
    assert ingress.batch(1, "x") == "RECEIVED"

    assert ingress.sink == [(1, b"x")] * 3 + [(2, b"x")]
    assert ingress.queued == [(1, b"x")]
    assert ingress.service.fingerprints.image().encode() == bytes(8)


@pytest.mark.parametrize("refusal", [BAD, "held"])
def test_a_batch_that_was_refused_has_nothing_to_repeat(refusal: bytes | str) -> None:
    ingress = Ingress(1)
    if refusal == "held":
        ingress.batch(1)
        ingress.batch(5, "p")
        ingress.take()
    else:
        ingress.batch(5, refusal)

    assert ingress.batch(5, "p") == "RECEIVED"
    assert (5, b"p") in ingress.queued


def forgetful(limit: int = 1, rules: AdmissionRules | None = None) -> Ingress:
    """Remembers so few fingerprints that one more record makes it forget."""
    ingress = Ingress(rules=rules)
    ingress.service.fingerprints = FingerprintMemory(limit)
    return ingress


@pytest.mark.parametrize("rules", [None, REPEATED_IS_RESEND])
def test_beyond_the_memory_a_batch_not_yet_confirmed_at_authentication_is_a_resend(
    rules: AdmissionRules | None,
) -> None:
    ingress = forgetful(rules=rules)
    ingress.say("__BATCH__:1:received", "__BATCH__:2:captured", "__BATCH__:3:since")
    ingress.reconnect()
    ingress.take(2)
    ingress.batch(9)

    for step in ("received", "captured", "confirmed since"):
        before = len(ingress.queued)
        assert ingress.say("__BATCH__:1:p", "__BATCH__:2:p", "__BATCH__:3:p") == ["RECEIVED"] * 3
        assert len(ingress.queued) == before, step
        ingress.pass_on()


def test_beyond_the_memory_a_batch_that_became_known_since_is_a_resend() -> None:
    """Also a late one, below a watermark that stood there already."""
    ingress = forgetful()
    ingress.say("__BATCH__:10:a", "__BATCH__:20:b")
    ingress.pass_on()
    ingress.reconnect()
    ingress.say("__BATCH__:15:late", "__BATCH__:30:c")
    ingress.pass_on()

    assert ingress.batch(15, "late") == "RECEIVED"
    assert ingress.queued == []


@pytest.mark.parametrize(("rules", "rows"), [(None, 1), (REPEATED_IS_RESEND, 0)])
def test_beyond_the_memory_a_batch_confirmed_before_this_connection_is_what_repeated_id_says(
    rules: AdmissionRules | None, rows: int
) -> None:
    ingress = forgetful(rules=rules)
    ingress.say("__BATCH__:1:a", "__BATCH__:2:b")
    ingress.pass_on()
    ingress.reconnect()

    assert ingress.batch(1, "a") == "RECEIVED"
    assert len(ingress.queued) == rows
    ingress.batch(3)
    assert ingress.batch(1, "a") == "RECEIVED"
    assert [id_ for id_, _ in ingress.queued].count(1) == 2 * rows, "it was confirmed then, whatever it is now"


@pytest.mark.parametrize("rules", [None, REPEATED_IS_RESEND])
def test_a_late_batch_is_never_taken_for_a_resend_because_its_gap_was_forgotten(
    rules: AdmissionRules | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only `repeated_id = resend` takes that risk, as it does for every id beyond the memory."""
    monkeypatch.setattr(ledger_module, "MAX_GAP_RANGES", 3)
    ingress = Ingress(100, rules=rules)
    for id_ in range(10, 200, 10):
        ingress.batch(id_)
    ingress.pass_on()

    for id_ in (15, 185):
        assert ingress.batch(id_, "late") == "RECEIVED"
    assert ingress.queued[-1] == (185, b"late"), "its gap is remembered"
    assert ((15, b"late") in ingress.queued) == (rules is None)


def test_fingerprints_are_kept_for_the_newest_65536_records() -> None:
    assert FINGERPRINT_RECORDS == 65_536
    ingress = Ingress(200_000)
    ingress.block(run_of(1, 2, b"old"))
    ingress.block(run_of(3, 65_535, b"new"))
    ingress.pass_on()
    ingress.reconnect()

    assert ingress.batch(2, "old") == "RECEIVED"
    assert ingress.queued == [], "the 65,536th newest is known"
    ingress.batch(70_000, "one more")
    assert ingress.batch(2, "old") == "RECEIVED"
    assert ingress.queued == [(70_000, b"one more"), (2, b"old")]


def test_a_resend_of_a_lost_batch_ends_lost_and_is_logged() -> None:
    first = Ingress()
    first.say("__BATCH__:1:a", "__BATCH__:2:b")
    cut = first.checkpoint()
    first.batch(1, "second")
    second = first.restarted(cut)
    assert second.commit(1) == "RESEND"

    assert second.batch(1, "a") == "RECEIVED"
    assert len(second.queued) == 2
    assert notes(second.bursts[-1]) == [("RECOGNISED", 1, 1)]
    assert second.commit(1) == "PENDING"
    second.bursts = first.bursts + second.bursts
    assert second.restarted(cut).commit(1) == "PENDING"


def test_a_lost_batch_whose_record_is_nowhere_is_no_resend_even_if_its_fingerprint_is_known() -> None:
    ingress = Ingress()
    ingress.service.fingerprints.remember(block_of({5: b"p"}))
    ingress.ledger.replay_accepted(5, 5)

    assert ingress.batch(5, "p") == "RECEIVED"
    assert ingress.queued == [(5, b"p")]


# ---- what must be on disk before a reply -----------------------------------------------------------------------


@pytest.mark.parametrize("first", ["__BATCH__:5:p", b"__BATCH__:5:" + BAD])
def test_the_floor_is_on_disk_before_the_first_reply(first: str | bytes) -> None:
    ingress = Ingress()
    ingress.say(first)
    assert ingress.bursts[-1].must_sync

    ingress.say("__BATCH__:6:p")
    assert not ingress.bursts[-1].must_sync


def test_the_floor_is_on_disk_before_the_first_reply_also_when_that_is_a_refusal_or_a_block() -> None:
    refusing = packet_ingress(require=True)
    assert refusing.batch(5, packet(b"plain")) == "DECRYPT_FAILED"
    blocks = Ingress()
    blocks.block(run_of(5, 3))

    for ingress in (refusing, blocks):
        assert ingress.bursts[-1].must_sync
        assert ingress.ledger.floor == 4


def started() -> Ingress:
    """The floor is known: 10 and 20 are confirmed, 30 is captured, 40 queued."""
    ingress = Ingress(100)
    ingress.say("__BATCH__:10:p", "__BATCH__:20:p")
    ingress.pass_on()
    ingress.batch(30)
    ingress.take()
    ingress.batch(40)
    return ingress


@pytest.mark.parametrize(
    ("line", "synced"),
    [
        ("__BATCH__:50:p", False),
        (b"__BATCH__:50:" + BAD, True),
        (b"__BATCH__:20:" + BAD, True),
        ("__BATCH__:20:other", True),
        ("__BATCH__:30:other", True),
        ("__BATCH__:40:other", True),
        ("__BATCH__:15:late", True),
        ("__BATCH__:5:below the floor", True),
    ],
)
def test_a_burst_that_settles_or_whose_loss_nobody_would_notice_is_synced(line: str | bytes, synced: bool) -> None:
    ingress = started()
    ingress.say(line)

    assert ingress.bursts[-1].must_sync is synced


def test_a_resend_needs_no_burst() -> None:
    ingress = started()
    before = len(ingress.bursts)
    ingress.say("__BATCH__:40:p", "__BATCH__:20:p", "__COMMIT__:20", "nonsense")

    assert len(ingress.bursts) == before
    assert ingress.service.take_burst() is None


def test_a_record_for_a_settled_batch_is_synced_by_line_and_by_block() -> None:
    for offer in ("line", "block", "operator", "operator, above everything"):
        ingress = started()
        if offer.startswith("operator"):
            ingress.service.settle(60 if "above" in offer else 35, 60, 1)
        else:
            ingress.batch(60, BAD)
        if offer == "line":
            ingress.batch(60)
        else:
            ingress.block(run_of(60, 2))
        assert ingress.bursts[-1].must_sync, offer
        assert ingress.ledger.state(60) is BatchState.RECEIVED
        assert ingress.ledger.counts()["settled"] == (25 if offer == "operator" else 0)


def test_a_refusal_is_synced_where_a_lost_note_would_let_an_ack_pass() -> None:
    ingress = Ingress(1)
    ingress.batch(10)
    ingress.say("__BATCH__:20:p")
    assert not ingress.bursts[-1].must_sync, "above everything: an unclean end takes care of it"
    ingress.say("__BATCH__:20:p")
    assert not ingress.bursts[-1].must_sync, "held already"
    ingress.say("__BATCH__:15:p")
    assert ingress.bursts[-1].must_sync, "it would look like a legal gap"
    ingress.service.settle(18, 18, 1)
    ingress.say("__BATCH__:18:p")
    assert ingress.bursts[-1].must_sync, "it would look settled"


def test_notes_are_ranges_in_the_order_in_which_things_happened() -> None:
    ingress = Ingress(4, "1")
    ingress.say("__BATCH__:1:a", "__BATCH__:2:b", b"__BATCH__:3:" + BAD, b"__BATCH__:4:" + BAD, "__BATCH__:5:e")
    ingress.say("__BATCH__:6:f", "__BATCH__:7:g", "__BATCH__:9:h")

    assert [notes(burst) for burst in ingress.bursts] == [
        [("ACCEPTED", 1, 2), ("REFUSED", 3, 4), ("ACCEPTED", 5, 5)],
        [("ACCEPTED", 6, 6), ("HELD", 7, 7), ("HELD", 9, 9)],
    ]
    assert [burst.first_sequence for burst in ingress.bursts] == [1, 4]


def test_a_note_that_a_cut_counted_does_not_grow() -> None:
    """Otherwise the ids behind it would be in the log under a number that the checkpoint says it covers."""
    ingress = Ingress()
    ingress.block(run_of(1, 2))
    assert ingress.service.offer_block(run_of(3, 2), Replies()) is None
    cut = ingress.service.cut()
    ingress.ledger.complete()
    ingress.block(run_of(5, 2))

    assert notes(ingress.bursts[-1]) == [("ACCEPTED", 3, 4), ("ACCEPTED", 5, 6)]
    last_covered = ingress.bursts[-1].first_sequence
    assert cut.arrival_sequence == last_covered
    assert ingress.restarted(cut).commit(5) == "RESEND"


def test_sequence_numbers_rise_over_incarnations() -> None:
    ingress = Ingress()
    ingress.service.start_sequence(41)
    ingress.say("__BATCH__:1:a", "__BATCH__:3:b")

    assert ingress.bursts[0].first_sequence == 42
    assert ingress.service.cut().arrival_sequence == 43


# ---- the operator ------------------------------------------------------------------------------------------------


def test_settling_drops_queued_records_and_forgets_what_they_were() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:1:a", "__BATCH__:1:b", "__BATCH__:2:c", "__BATCH__:3:d")

    assert ingress.service.settle(1, 2, 7) == 3
    assert ingress.queued == [(3, b"d")]
    assert ingress.service.settled_through == 7
    ingress.pass_on()
    assert ingress.commit(3) == "ACK:3"

    assert ingress.say("__BATCH__:1:new", "__BATCH__:1:a") == ["RECEIVED"] * 2
    assert ingress.queued == [(1, b"new"), (1, b"a")], "a resend of what was dropped is a new record"
    assert Note(NoteKind.SETTLED_BY_OPERATOR, 1, 2, 7) in [note for burst in ingress.bursts for note in burst.notes]


def test_settling_what_is_not_queued_drops_nothing() -> None:
    ingress = started()

    assert ingress.service.settle(11, 19, 1) == 0
    assert ingress.service.settle(30, 30, 2) == 0
    assert ingress.ledger.state(30) is BatchState.SETTLED
    assert ingress.queue.generation == 0
    assert ingress.batch(30) == "RECEIVED"
    assert (30, b"p") in ingress.queued, "its first record may still be lost: this one is a promise of its own"


def test_the_operators_word_is_in_the_log_with_its_place_in_the_commit_log() -> None:
    first = Ingress()
    first.say("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c")
    first.service.settle(1, 1, 5)
    first.service.end_unclean(6)
    first.batch(4)
    assert [(n.kind.name, n.log_index) for n in first.bursts[-1].notes] == [
        ("SETTLED_BY_OPERATOR", 5),
        ("UNCLEAN_ENDED", 6),
        ("ACCEPTED", 0),
    ]

    second = first.restarted(None)
    assert second.service.settled_through == 6
    assert [second.ledger.state(id_).value for id_ in (1, 2, 3, 4)] == ["settled", "lost", "lost", "lost"]


def test_the_operator_ends_an_unclean_end() -> None:
    ingress = Ingress()
    ingress.batch(1)
    ingress.ledger.ended_unclean()
    assert ingress.commit(2) == "RESEND"

    ingress.service.end_unclean(1)
    assert ingress.commit(2) == "RETRY"


# ---- checkpoints and restores ------------------------------------------------------------------------------------


def test_a_cut_is_one_moment_of_queue_ledger_fingerprints_and_log() -> None:
    ingress = Ingress()
    ingress.say("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c")
    ingress.take(1)
    cut = ingress.service.cut()
    ingress.say("__BATCH__:4:d")
    ingress.take()

    assert cut.queue.runs() == [(2, 3)]
    assert cut.ledger.watermark == 1
    assert cut.ledger.captured == []
    assert cut.ledger.highest_offered == 3
    assert cut.arrival_sequence == 1
    assert len(cut.fingerprints.encode()) == 8 + 3 * 24
    with pytest.raises(LocalProtocolError):
        ingress.service.cut()


def test_taking_nothing_changes_nothing() -> None:
    ingress = Ingress()

    assert ingress.service.take(10, 10) == []
    ingress.batch(1)
    assert ingress.service.take(0, 10) == []
    assert ingress.ledger.state(1) is BatchState.RECEIVED


def test_a_sparse_block_is_captured_when_it_is_taken() -> None:
    ingress = Ingress()
    ingress.block(block_of({1: b"a", 5: b"b", 9: b"c"}))
    ingress.take(2)

    assert [ingress.ledger.state(id_).value for id_ in (1, 5, 9)] == ["captured", "captured", "received"]


def test_after_a_kill_what_was_queued_is_there_and_what_came_later_is_lost() -> None:
    first = Ingress()
    first.say("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c")
    first.take(1)
    cut = first.checkpoint()
    first.say("__BATCH__:4:d", b"__BATCH__:5:" + BAD, "__BATCH__:2:second")

    second = first.restarted(cut)

    assert [second.commit(id_) for id_ in (1, 2, 3, 4, 5, 6)] == [
        "ACK:1",
        "RESEND",
        "PENDING",
        "RESEND",
        "PENDING",
        "RETRY",
    ]
    assert second.queued == [(2, b"b"), (3, b"c")]
    second.say("__BATCH__:2:b", "__BATCH__:2:second", "__BATCH__:4:d")
    second.pass_on()
    assert second.commit(5) == "ACK:5"
    assert sorted(first.sink[:1] + second.sink) == [(1, b"a"), (2, b"b"), (2, b"second"), (3, b"c"), (4, b"d")]


@pytest.mark.parametrize("later", [None, "second incarnation"])
def test_a_refusal_does_not_settle_what_was_received_before_it_not_even_through_a_crash(later: str | None) -> None:
    """The collector was told RECEIVED for the first payload; only then came one that could not be decoded."""
    first = Ingress()
    first.say("__BATCH__:1:good", b"__BATCH__:1:" + BAD)
    assert first.commit(1) == "PENDING"

    second = first.restarted(None)
    assert second.commit(1) == "RESEND"
    if later:
        assert second.batch(1, BAD) == "DECODE_FAILED", "the latest word on a lost batch does settle it"
        assert second.commit(1) == "PENDING"
        second.bursts = first.bursts + second.bursts
        assert second.restarted(None).commit(1) == "PENDING"


def test_a_batch_held_before_the_crash_is_asked_for_after_it() -> None:
    first = Ingress(1)
    first.say("__BATCH__:1:a", "__BATCH__:2:b")
    assert first.commit(2) == "RETRY"

    second = first.restarted(None)
    assert second.commit(2) == "RESEND"
    second.batch(2)
    second.pass_on()
    assert second.commit(2) == "PENDING", "1 is lost"
    assert second.commit(1) == "RESEND"


def test_a_batch_that_was_settled_and_then_lost_can_be_settled_again() -> None:
    first = Ingress()
    first.say("__BATCH__:1:a", b"__BATCH__:2:" + BAD, "__BATCH__:3:c")
    cut = first.pass_on()
    first.batch(2, "corrected")
    second = first.restarted(cut)
    assert second.ledger.state(2) is BatchState.LOST
    assert second.commit(3) == "PENDING"

    second.service.settle(2, 2, 1)

    assert second.ledger.state(2) is BatchState.SETTLED
    assert second.commit(3) == "ACK:3"


def test_a_confirmed_batch_below_the_floor_is_known_through_a_restart() -> None:
    """A collector that begins its ids again: each new line is one row, not one a resend."""
    first = Ingress()
    first.say("__BATCH__:1000:a", "__BATCH__:1:new")
    cut = first.pass_on()
    second = first.restarted(cut)

    for ingress in (first, second):
        assert ingress.ledger.state(1) is BatchState.CONFIRMED
        assert ingress.ledger.state(2) is BatchState.GAP
        assert ingress.batch(1, "new") == "RECEIVED"
        assert ingress.queued == []
        assert ingress.commit(1) == "ACK:1000"


def test_a_smaller_capacity_after_a_restart_drops_nothing() -> None:
    first = Ingress(10)
    first.block(run_of(1, 9))
    cut = first.checkpoint()
    first.queue.capacity = 2
    second = first.restarted(cut)

    assert [id_ for id_, _ in second.queued] == list(range(1, 10))
    assert second.batch(10) == "QUEUE_FULL:500"


@pytest.mark.parametrize(
    ("rule", "reply"), [(GapRule.AUTO, "PENDING"), (GapRule.HOLD, "PENDING"), (GapRule.SKIP, "ACK:30")]
)
def test_after_the_loss_of_a_host_what_is_passed_over_counts_as_lost(rule: GapRule, reply: str) -> None:
    first = Ingress(gaps=rule)
    first.batch(1)
    cut = first.pass_on()
    second = first.restarted(cut, host_lost=True)
    second.batch(30)
    second.pass_on()

    assert second.commit(30) == reply
    assert second.commit(15) == ("ACK:30" if rule is GapRule.SKIP else "RESEND")


def test_a_job_that_changes_to_skip_passes_over_gaps_that_an_unclean_end_would_hold() -> None:
    first = Ingress()
    first.batch(1)
    cut = first.pass_on()
    second = first.restarted(cut, host_lost=True)
    cut = second.pass_on()
    second.ledger.gap_rule = GapRule.SKIP
    third = second.restarted(cut)
    third.batch(5)
    third.pass_on()

    assert third.commit(5) == "ACK:5"
    assert third.ledger.unclean_floor == 1, "kept: only the operator ends it"


def test_what_the_fingerprint_memory_may_not_keep_alive_is_given_out() -> None:
    ingress = Ingress()
    ingress.service.fingerprints = FingerprintMemory(pinned_bytes=1)
    ingress.block(block_of({1: b"abc"}))

    assert [segment.id_runs for segment in ingress.service.fingerprints.release_pinned()] == [[(1, 1)]]


def test_settling_a_range_takes_it_out_of_the_ledger_in_one_go() -> None:
    ingress = Ingress(100, rules=NOT_DEDUPLICATED)
    for _ in range(3):
        ingress.block(run_of(1, 20))
    assert ingress.service.settle(5, 10, 1) == 18

    assert ingress.ledger.settle(5, 10) == IdRanges()
    ingress.pass_on()
    assert ingress.commit(20) == "ACK:20"
