"""What the watermark may cover, and what each rule of a commit poll answers."""

from __future__ import annotations

import pytest

from edgesocket.ingress import ledger as ledger_module
from edgesocket.ingress.batch_states import BatchState, GapRule
from edgesocket.ingress.ledger import Ledger
from edgesocket.protocol.replies import PENDING, RESEND, RETRY, ack


def _checkpoint(ledger: Ledger) -> None:
    ledger.cut()
    ledger.complete()


def _pass(ledger: Ledger, *ids: int) -> None:
    """Accept and emit, one by one."""
    for id_ in ids:
        ledger.accept(id_, id_)
        ledger.emit([(id_, id_)])


def test_no_ack_without_a_checkpoint_on_the_second_batch() -> None:
    ledger = Ledger()
    _pass(ledger, 1, 2)

    assert ledger.answer_commit(1) == PENDING
    assert ledger.answer_commit(2) == PENDING
    assert ledger.watermark == 0


def test_a_first_arrival_of_7_does_not_acknowledge_5() -> None:
    ledger = Ledger()
    ledger.accept(7, 7)

    assert ledger.answer_commit(5) == RETRY


def test_ids_10_20_30_are_acknowledged() -> None:
    ledger = Ledger()
    _pass(ledger, 10, 20, 30)
    _checkpoint(ledger)

    assert ledger.answer_commit(30) == ack(30)
    assert ledger.answer_commit(10) == ack(30)
    assert ledger.answer_commit(31) == RETRY


def test_a_refused_batch_holds_the_watermark_until_it_is_accepted() -> None:
    ledger = Ledger()
    _pass(ledger, 1, 2, 3)
    ledger.hold(4, 4)
    _pass(ledger, 5)
    _checkpoint(ledger)

    assert ledger.watermark == 3
    assert ledger.answer_commit(5) == PENDING
    assert ledger.answer_commit(4) == RETRY, "refused on this connection"
    assert ledger.holder() == (4, BatchState.HELD)

    ledger.session_started()
    assert ledger.answer_commit(4) == RESEND, "refused on an earlier connection"

    _pass(ledger, 4)
    _checkpoint(ledger)
    assert ledger.answer_commit(5) == ack(5)
    assert ledger.holder() is None


def test_a_batch_refused_for_good_does_not_hold_the_watermark_but_its_correction_is_never_covered_early() -> None:
    ledger = Ledger()
    _pass(ledger, 1)
    ledger.refuse(2)
    _pass(ledger, 3)
    _checkpoint(ledger)
    assert ledger.answer_commit(3) == ack(3)

    ledger.accept(2, 2)
    assert ledger.answer_commit(3) == PENDING
    assert ledger.answer_commit(1) == ack(1)
    assert ledger.watermark == 3, "the watermark never falls; only the promise does"

    ledger.emit([(2, 2)])
    _checkpoint(ledger)
    assert ledger.answer_commit(3) == ack(3)


def test_a_gap_below_the_watermark_that_is_offered_late_is_held_when_refused() -> None:
    ledger = Ledger()
    _pass(ledger, 10, 20)
    _checkpoint(ledger)
    assert ledger.answer_commit(20) == ack(20)

    ledger.hold(15, 15)

    assert ledger.state(15) is BatchState.HELD
    assert ledger.answer_commit(20) == PENDING
    assert ledger.answer_commit(14) == ack(14)


def test_forgotten_gaps_count_as_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_GAP_RANGES", 3)
    ledger = Ledger()
    _pass(ledger, *range(10, 200, 10))
    _checkpoint(ledger)

    assert ledger.state(15) is BatchState.CONFIRMED
    assert ledger.state(185) is BatchState.GAP
    assert ledger.range_count <= 4


@pytest.mark.parametrize(("rule", "watermark"), [(GapRule.AUTO, 30), (GapRule.HOLD, 10), (GapRule.SKIP, 30)])
def test_gap_rules(rule: GapRule, watermark: int) -> None:
    ledger = Ledger(rule)
    _pass(ledger, 10, 20, 30)
    _checkpoint(ledger)

    assert ledger.watermark == watermark
    if rule is GapRule.HOLD:
        assert ledger.holder() == (11, BatchState.GAP)


def test_after_an_unclean_end_ids_passed_over_above_k_are_lost() -> None:
    ledger = Ledger()
    _pass(ledger, 1, 2)
    _checkpoint(ledger)
    ledger.ended_unclean()
    assert ledger.unclean_floor == 2
    assert ledger.answer_commit(3) == RESEND, "it may have been accepted and forgotten"

    _pass(ledger, 5)
    _checkpoint(ledger)

    assert ledger.state(3) is ledger.state(4) is BatchState.LOST
    assert ledger.watermark == 2
    assert ledger.answer_commit(3) == RESEND
    assert ledger.answer_commit(6) == RESEND

    ledger.settle(3, 4)
    ledger.end_unclean()
    _checkpoint(ledger)
    assert ledger.watermark == 5
    assert ledger.answer_commit(6) == RETRY


def test_skip_knows_no_unclean_end() -> None:
    ledger = Ledger(GapRule.SKIP)
    _pass(ledger, 1)
    ledger.ended_unclean()

    assert ledger.unclean_floor is None


def test_an_unclean_end_before_the_first_batch_loses_nothing() -> None:
    ledger = Ledger()
    ledger.ended_unclean()

    _pass(ledger, 100)
    _checkpoint(ledger)

    assert ledger.watermark == 100


def test_an_id_an_earlier_incarnation_accepted_and_nobody_knows_is_resent() -> None:
    ledger = Ledger()
    _pass(ledger, 1, 2, 3)
    image = ledger.cut()
    ledger.complete()
    image.highest_accepted = 9

    restored = Ledger()
    restored.restore(image, [])

    assert restored.answer_commit(3) == ack(3)
    assert restored.answer_commit(7) == RESEND
    assert restored.answer_commit(10) == RETRY


def test_settling_a_queued_batch_names_the_records_to_discard() -> None:
    ledger = Ledger()
    ledger.accept(1, 3)

    assert list(ledger.settle(2, 2)) == [(2, 2)]

    ledger.emit([(1, 1), (3, 3)])
    _checkpoint(ledger)
    assert ledger.watermark == 3


def test_settling_an_id_above_everything_offered_moves_nothing() -> None:
    ledger = Ledger()
    _pass(ledger, 1)
    ledger.settle(100, 100)
    _checkpoint(ledger)

    assert ledger.watermark == 1


def test_at_its_bound_the_ledger_holds_one_range_and_never_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_RANGES", 3)
    monkeypatch.setattr(ledger_module, "MAX_OVERLOAD_HOLDS", 0)
    ledger = Ledger()
    for id_ in (10, 20, 30):
        ledger.accept(id_, id_)
    assert ledger.overloaded

    for id_ in (40, 50, 60):
        ledger.hold(id_, id_)

    assert ledger.range_count == 4
    assert all(ledger.state(id_) is BatchState.HELD for id_ in (40, 50, 60))


def test_a_hundred_million_ids_in_order_are_a_handful_of_ranges() -> None:
    ledger = Ledger()
    step = 65_536
    for first in range(1, 100_000_000, step):
        ledger.accept(first, first + step - 1)
        ledger.emit([(first, first + step - 1)])
        if first % (100 * step) == 1:
            _checkpoint(ledger)

    assert ledger.range_count <= 3
