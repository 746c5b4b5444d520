"""What the ledger keeps, what it forgets, and what it takes over from a checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from edgesocket.ingress import ledger as ledger_module
from edgesocket.ingress.batch_states import BatchState, GapRule
from edgesocket.ingress.ledger import Ledger, LedgerImage
from edgesocket.protocol.replies import PENDING, RESEND, RETRY, ack
from tests.support.ingress_kit import Ingress


def checkpoint(ledger: Ledger) -> LedgerImage:
    image = ledger.cut()
    ledger.complete()
    return image


def pass_on(ledger: Ledger, *ids: int) -> None:
    for id_ in ids:
        ledger.accept(id_, id_)
        ledger.emit([(id_, id_)])


def restored(image: LedgerImage, *queued: tuple[int, int]) -> Ledger:
    ledger = Ledger()
    ledger.restore(LedgerImage(**json.loads(json.dumps(asdict(image)))), queued)
    return ledger


def states(ledger: Ledger, *ids: int) -> list[str]:
    return [ledger.state(id_).value for id_ in ids]


def test_an_image_has_every_state_and_is_taken_over_as_it_was() -> None:
    ledger = Ledger()
    pass_on(ledger, 10, 20, 12)
    checkpoint(ledger)
    ledger.hold(30, 30)
    ledger.session_started()
    ledger.hold(31, 31)
    ledger.refuse(32)
    pass_on(ledger, 33)
    checkpoint(ledger)
    pass_on(ledger, 34, 5)
    ledger.accept(40, 41)
    ledger.accept(41, 41)
    ledger.replay_accepted(45, 45)
    image = ledger.cut()

    twin = restored(image, (40, 41), (41, 41))

    ids = (4, 5, 9, 10, 11, 12, 13, 20, 21, 30, 31, 32, 33, 34, 40, 41, 45, 46)
    ledger.complete()
    assert states(twin, *ids) == states(ledger, *ids)
    assert states(twin, 5, 11, 12, 30, 32, 33, 34, 41, 45) == [
        "confirmed",
        "gap",
        "confirmed",
        "held",
        "settled",
        "confirmed",
        "confirmed",
        "received",
        "lost",
    ]
    assert (twin.watermark, twin.ack_number, twin.floor) == (29, 29, 9)
    assert twin.answer_commit(31) == RESEND, "held on an earlier connection now"
    twin.emit([(40, 41)])
    assert states(twin, 40, 41) == ["captured", "received"]


def test_records_that_no_blob_has_are_lost_whatever_else_is_known_of_their_id() -> None:
    ledger = Ledger()
    pass_on(ledger, 1, 2)
    checkpoint(ledger)
    ledger.accept(2, 2)
    ledger.accept(3, 4)
    twin = restored(checkpoint(ledger), (4, 4))

    twin.mark_lost(2, 3)

    assert states(twin, 1, 2, 3, 4) == ["confirmed", "lost", "lost", "received"]
    assert twin.answer_commit(3) == RESEND
    assert twin.ack_number == 1


def test_settled_ids_below_the_watermark_are_forgotten_lowest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_SETTLED_RANGES", 2)
    ledger = Ledger()
    pass_on(ledger, 1)
    for id_ in (3, 5, 7, 9):
        ledger.refuse(id_)
        pass_on(ledger, id_ + 1)
    ledger.hold(11, 11)
    checkpoint(ledger)

    assert ledger.counts()["settled"] == 2
    assert states(ledger, 3, 5, 7, 9) == ["confirmed", "confirmed", "settled", "settled"]
    for id_ in (20, 30, 40):
        ledger.refuse(id_)
    checkpoint(ledger)
    assert states(ledger, 9, 20, 30, 40) == ["confirmed", "settled", "settled", "settled"], "only below the watermark"


def test_confirmed_ids_below_the_floor_are_forgotten_lowest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_GAP_RANGES", 2)
    ledger = Ledger()
    pass_on(ledger, 100, 10, 20, 30)
    checkpoint(ledger)

    assert states(ledger, 10, 20, 30) == ["gap", "confirmed", "confirmed"]


def test_an_id_below_the_floor_takes_the_promise_back_and_never_the_watermark() -> None:
    ledger = Ledger()
    pass_on(ledger, 100)
    checkpoint(ledger)
    assert ledger.answer_commit(5) == ack(100)

    ledger.accept(5, 5)
    assert ledger.answer_commit(5) == PENDING
    assert ledger.answer_commit(100) == PENDING
    assert (ledger.watermark, ledger.ack_number) == (100, 4)

    ledger.emit([(5, 5)])
    checkpoint(ledger)
    assert ledger.answer_commit(5) == ack(100)


def test_ids_settled_above_everything_offered_are_accepted_like_others() -> None:
    ledger = Ledger()
    pass_on(ledger, 1)
    ledger.settle(4, 6)
    ledger.accept(5, 5)

    assert states(ledger, 3, 4, 5, 6) == ["gap", "settled", "received", "settled"]
    ledger.emit([(5, 5)])
    checkpoint(ledger)
    assert ledger.answer_commit(5) == ack(6), "3 is a gap between two offered ids, and 6 is settled"


@pytest.mark.parametrize("rule", GapRule)
def test_the_watermark_passes_settled_ids_right_above_everything_offered(rule: GapRule) -> None:
    ledger = Ledger(rule)
    pass_on(ledger, 1)
    ledger.settle(2, 3)
    ledger.settle(5, 5)
    checkpoint(ledger)

    assert ledger.watermark == 3


@pytest.mark.parametrize("rule", GapRule)
def test_without_a_floor_there_is_no_watermark(rule: GapRule) -> None:
    ledger = Ledger(rule)
    ledger.settle(1, 10)
    checkpoint(ledger)
    assert ledger.watermark == 0

    pass_on(ledger, 5)
    checkpoint(ledger)
    assert ledger.watermark == 10


def test_what_holds_the_watermark_under_hold_is_named_also_when_it_is_no_gap() -> None:
    ledger = Ledger(GapRule.HOLD)
    assert ledger.holder() is None
    ledger.accept(1, 1)
    assert ledger.holder() == (1, BatchState.RECEIVED)
    ledger.emit([(1, 1)])
    assert ledger.holder() == (1, BatchState.CAPTURED)
    ledger.hold(2, 2)
    assert ledger.holder() == (1, BatchState.CAPTURED)
    checkpoint(ledger)
    assert ledger.holder() == (2, BatchState.HELD)
    pass_on(ledger, 4)
    checkpoint(ledger)
    ledger.accept(2, 2)
    ledger.emit([(2, 2)])
    checkpoint(ledger)
    assert ledger.holder() == (3, BatchState.GAP)


def test_an_id_right_above_the_unclean_floor_passes_nothing_over() -> None:
    ledger = Ledger()
    pass_on(ledger, 1)
    ledger.ended_unclean()
    pass_on(ledger, 2)
    checkpoint(ledger)

    assert ledger.watermark == 2


def test_a_second_unclean_end_counts_what_lies_between_the_two_as_lost() -> None:
    ledger = Ledger()
    pass_on(ledger, 1)
    ledger.ended_unclean()
    ledger.unclean_floor = 1
    ledger.gap_rule = GapRule.SKIP
    pass_on(ledger, 5)
    ledger.gap_rule = GapRule.AUTO

    ledger.ended_unclean()

    assert states(ledger, 2, 4, 5) == ["lost", "lost", "captured"]
    assert ledger.unclean_floor == 5
    assert ledger.answer_commit(6) == RESEND


def test_of_a_run_the_ids_with_one_record_are_captured_and_those_with_more_are_not() -> None:
    for others in (0, 20):
        ledger = Ledger()
        ledger.accept(1, 9)
        for id_ in (1, 4, 5, 9):
            ledger.accept(id_, id_)
        if others:
            ledger.accept(100, 100 + others)
            ledger.accept(100, 100 + others)
        ledger.emit([(1, 9)])
        assert [id_ for id_ in range(1, 10) if ledger.state(id_) is BatchState.RECEIVED] == [1, 4, 5, 9]
        ledger.emit([(9, 9), (4, 5), (1, 1)])
        assert set(states(ledger, *range(1, 10))) == {"captured"}
        assert ledger.counts()["received"] == (others + 1 if others else 0)


def test_refusals_at_the_bound_are_kept_one_by_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that sends again what it was refused gets its sparse ids through, and nothing else is held."""
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 3)
    monkeypatch.setattr(ledger_module, "MAX_OVERLOAD_HOLDS", 10)
    ingress = Ingress(100)
    ids = (10, 20, 30, 40, 50)
    assert [ingress.batch(id_)[:8] for id_ in ids] == ["RECEIVED"] * 3 + ["QUEUE_FU"] * 2
    ingress.take()
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 100)
    assert [ingress.batch(id_) for id_ in ids] == ["RECEIVED"] * 5
    ingress.pass_on()

    assert ingress.commit(50) == "ACK:50"


def test_what_was_held_in_bulk_once_is_not_held_again_after_it_got_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_OVERLOAD_HOLDS", 0)
    ledger = Ledger()
    for id_ in (10, 20):
        pass_on(ledger, id_)
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 2)
    ledger.hold(30, 30)
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 100)
    pass_on(ledger, 30, 40, 50)
    checkpoint(ledger)
    assert ledger.watermark == 50

    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 1)
    ledger.hold(60, 60)

    assert ledger.ack_number == 50
    assert ledger.answer_commit(50) == ack(50)


def test_a_resend_of_what_is_lost_and_not_remembered_is_a_record() -> None:
    first = Ingress()
    first.say("__BATCH__:1:a")
    cut = first.checkpoint()
    first.batch(1, "second")
    second = first.restarted(cut)
    second.service.fingerprints.restore(bytes(8))

    assert second.batch(1, "a") == "RECEIVED"
    assert second.queued == [(1, b"a"), (1, b"a")], "twice is better than never"


def test_a_poll_for_a_gap_between_two_confirmed_ids_above_the_watermark_is_answered_retry() -> None:
    ledger = Ledger()
    ledger.hold(1, 1)
    pass_on(ledger, 5, 9)
    checkpoint(ledger)

    assert [ledger.answer_commit(id_) for id_ in (5, 7, 9, 10)] == [PENDING, RETRY, PENDING, RETRY]
