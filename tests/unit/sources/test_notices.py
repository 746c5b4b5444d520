"""What a source tells by itself: once when it begins, then now and then, with what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgesocket.ingress.batch_states import BatchState
from edgesocket.sources.notices import NAMED_AFTER_S, NAMED_AGAIN_AFTER_S, Facts, Notices
from edgesocket.telemetry.event import describe

QUIET = Facts(holder=None, repeated=0, last_repeated_id=0, replaced=0, reused_ivs=0, overloaded=False)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def notices(told: list[str]) -> Notices:
    return Notices(lambda event: told.append(describe(event)))


def test_nothing_to_tell_tells_nothing(notices: Notices, told: list[str]) -> None:
    for second in range(100):
        notices.look(QUIET, second)
    assert told == []
    assert notices.holder is None


def test_a_holder_is_named_after_half_a_minute_and_then_every_five_minutes(notices: Notices, told: list[str]) -> None:
    held = replace(QUIET, holder=(4, BatchState.HELD))
    begin = 1000.0
    notices.look(held, begin)
    notices.look(held, begin + NAMED_AFTER_S - 1)
    assert told == []
    for second in range(int(NAMED_AFTER_S), int(NAMED_AFTER_S + NAMED_AGAIN_AFTER_S)):
        notices.look(held, begin + second)
    assert told == [
        "batch 4 (held) has held the watermark for 30 s; if the collector will not send it (again), run: "
        "edgesocket settle JOB 4 --reason TEXT"
    ]
    notices.look(held, begin + NAMED_AFTER_S + NAMED_AGAIN_AFTER_S)
    assert len(told) == 2


def test_the_first_naming_does_not_depend_on_where_the_clock_begins(notices: Notices, told: list[str]) -> None:
    held = replace(QUIET, holder=(4, BatchState.LOST))
    for second in range(31):
        notices.look(held, float(second))
    assert len(told) == 1


def test_another_holder_or_another_state_begins_anew(notices: Notices, told: list[str]) -> None:
    notices.look(replace(QUIET, holder=(4, BatchState.HELD)), 0)
    notices.look(replace(QUIET, holder=(5, BatchState.HELD)), 29)
    notices.look(replace(QUIET, holder=(5, BatchState.LOST)), 58)
    notices.look(replace(QUIET, holder=(5, BatchState.LOST)), 87)
    assert told == []
    assert notices.holder is not None
    assert (notices.holder.id_, notices.holder.state, notices.holder.since) == (5, BatchState.LOST, 58)


@pytest.mark.parametrize("state", [BatchState.RECEIVED, BatchState.CAPTURED])
def test_what_is_on_its_way_is_never_to_be_settled(notices: Notices, told: list[str], state: BatchState) -> None:
    """Settling would drop a record that the job still has."""
    for second in (0, 40):
        notices.look(replace(QUIET, holder=(4, state)), second)
    assert len(told) == 1
    assert "waits for" in told[0]
    assert "settle" not in told[0]


@pytest.mark.parametrize("state", [BatchState.HELD, BatchState.LOST, BatchState.GAP])
def test_what_only_a_collector_or_an_operator_can_move_comes_with_the_command(
    notices: Notices, told: list[str], state: BatchState
) -> None:
    for second in (0, 40):
        notices.look(replace(QUIET, holder=(4, state)), second)
    assert "edgesocket settle JOB 4 --reason TEXT" in told[0]


def test_the_command_names_the_job(told: list[str]) -> None:
    notices = Notices(lambda event: told.append(describe(event)), "orders")
    for second in (0, 40):
        notices.look(replace(QUIET, holder=(4, BatchState.HELD)), second)
    assert "edgesocket settle orders 4 " in told[0]


def test_repeated_ids_and_replaced_bytes_are_told_as_they_grow(notices: Notices, told: list[str]) -> None:
    notices.look(replace(QUIET, repeated=3, last_repeated_id=8, replaced=1), 0)
    notices.look(replace(QUIET, repeated=3, last_repeated_id=8, replaced=1), 1)
    notices.look(replace(QUIET, repeated=5, last_repeated_id=9, replaced=4), 2)
    assert told == [
        "3 batches came under an id already used, with another payload (last: 8); each is one more record",
        "1 records were not UTF-8; bad bytes became U+FFFD",
        "2 batches came under an id already used, with another payload (last: 9); each is one more record",
        "3 records were not UTF-8; bad bytes became U+FFFD",
    ]


def test_a_reused_iv_is_told_as_it_happens(notices: Notices, told: list[str]) -> None:
    for count in (0, 1, 1, 3):
        notices.look(replace(QUIET, reused_ivs=count), 0)
    assert [text.split(" had an iv")[0] for text in told] == ["1 encrypted packets", "2 encrypted packets"]


def test_a_full_ledger_is_told_when_it_begins_and_when_it_ends(notices: Notices, told: list[str]) -> None:
    for overloaded in (False, True, True, False, False):
        notices.look(replace(QUIET, overloaded=overloaded), 0)
    assert [("QUEUE_FULL" in text, "again" in text) for text in told] == [(True, True), (False, True)]
