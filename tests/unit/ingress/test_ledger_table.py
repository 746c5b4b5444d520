"""The (state x event) table of the ledger, cell by cell, against a table written by hand.

Rows are the state an id is in, columns the event. `-` is a cell that cannot happen. For a lost id the state below
the overlay matters only where it shows, so the rows `lost/...` name it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.ingress.batch_states import TRANSITIONS, BatchEvent, BatchState
from edgesocket.ingress.ledger import Ledger, LedgerImage

ID = 50

EXPECTED = """
state          accepted  recognised  refused_for_now  refused_for_good  settled    found_lost  passed_over
gap            received  -           held             settled           settled    lost        lost
received       received  received    received         received          settled    lost        received
captured       received  captured    captured         captured          settled    -           captured
confirmed      received  confirmed   confirmed        confirmed         confirmed  lost        confirmed
held           received  -           held             settled           settled    lost        held
settled        received  -           held             settled           settled    lost        settled
lost/gap       received  -           lost             settled           settled    lost        lost
lost/received  received  received    lost             received          settled    lost        lost
lost/confirmed received  confirmed   lost             confirmed         confirmed  lost        lost
"""


def _ledger() -> Ledger:
    """Nothing happened to ID yet; ids 1 and 100 were offered, so that ID is a gap above the watermark."""
    ledger = Ledger()
    ledger.accept(1, 1)
    ledger.accept(100, 100)
    return ledger


def _received(ledger: Ledger) -> None:
    ledger.accept(ID, ID)


def _captured(ledger: Ledger) -> None:
    ledger.accept(ID, ID)
    ledger.emit([(ID, ID)])


def _confirmed(ledger: Ledger) -> None:
    _captured(ledger)
    ledger.cut()
    ledger.complete()


def _restored(below: str) -> Ledger:
    image = LedgerImage(floor=0, highest_offered=100, highest_accepted=100, watermark=0)
    queued = [(1, 1)]
    if below == "confirmed":
        image.confirmed = [[ID, ID]]
    elif below == "received":
        queued.append((ID, ID))
    ledger = Ledger()
    ledger.restore(image, queued)
    ledger.replay_accepted(ID, ID)
    assert ledger.state(ID) is BatchState.LOST
    return ledger


def _in_state(name: str) -> Ledger:
    if name.startswith("lost/"):
        return _restored(name.removeprefix("lost/"))
    ledger = _ledger()
    prepare: dict[str, Callable[[Ledger], object]] = {
        "gap": lambda ledger: None,
        "received": _received,
        "captured": _captured,
        "confirmed": _confirmed,
        "held": lambda ledger: ledger.hold(ID, ID),
        "settled": lambda ledger: ledger.refuse(ID),
    }
    prepare[name](ledger)
    assert ledger.state(ID).value == name
    return ledger


def _pass_over(ledger: Ledger) -> None:
    ledger.unclean_floor = 10
    ledger.ended_unclean()


EVENTS: dict[str, Callable[[Ledger], object]] = {
    "accepted": lambda ledger: ledger.accept(ID, ID),
    "recognised": lambda ledger: ledger.recognise(ID),
    "refused_for_now": lambda ledger: ledger.hold(ID, ID),
    "refused_for_good": lambda ledger: ledger.refuse(ID),
    "settled": lambda ledger: ledger.settle(ID, ID),
    "found_lost": lambda ledger: ledger.replay_accepted(ID, ID),
    "passed_over": _pass_over,
}


def _cells() -> list[tuple[str, str, str]]:
    header, *rows = [line.split() for line in EXPECTED.strip().splitlines()]
    return [(row[0], event, after) for row in rows for event, after in zip(header[1:], row[1:], strict=True)]


@pytest.mark.parametrize(("state", "event", "after"), _cells())
def test_every_cell(state: str, event: str, after: str) -> None:
    ledger = _in_state(state)
    if after == "-":
        with pytest.raises(LocalProtocolError):
            EVENTS[event](ledger)
        return

    EVENTS[event](ledger)

    assert ledger.state(ID).value == after


def test_the_table_names_every_state_and_event() -> None:
    cells = _cells()
    assert {state.split("/")[0] for state, _, _ in cells} == {state.value for state in BatchState}
    assert len({event for _, event, _ in cells}) == len(BatchEvent) - 2, "emitted and covered have tests below"
    assert {state for state, _ in TRANSITIONS} == set(BatchState) - {BatchState.LOST}


@pytest.mark.parametrize("state", ["gap", "captured", "confirmed", "held", "settled"])
def test_only_a_received_batch_is_emitted(state: str) -> None:
    below = next(s for s in BatchState if s.value == state)
    assert (below, BatchEvent.EMITTED) not in TRANSITIONS


def test_a_received_batch_is_captured_when_its_last_record_is_emitted() -> None:
    ledger = _ledger()
    ledger.accept(ID, ID)
    ledger.accept(ID, ID)

    ledger.emit([(ID, ID)])
    assert ledger.state(ID) is BatchState.RECEIVED

    ledger.emit([(ID, ID)])
    assert ledger.state(ID) is BatchState.CAPTURED


def test_a_captured_batch_is_confirmed_only_by_the_checkpoint_that_captured_it() -> None:
    ledger = _ledger()
    ledger.accept(ID, ID)
    ledger.cut()
    ledger.emit([(ID, ID)])

    ledger.complete()
    assert ledger.state(ID) is BatchState.CAPTURED

    ledger.cut()
    ledger.complete()
    assert ledger.state(ID) is BatchState.CONFIRMED


def test_a_batch_accepted_again_after_the_cut_is_not_confirmed_by_it() -> None:
    ledger = _ledger()
    _captured(ledger)
    ledger.cut()
    ledger.accept(ID, ID)

    ledger.complete()

    assert ledger.state(ID) is BatchState.RECEIVED


def test_an_aborted_checkpoint_gives_what_it_captured_to_the_next() -> None:
    ledger = _ledger()
    _captured(ledger)
    ledger.cut()
    ledger.abort()
    assert ledger.state(ID) is BatchState.CAPTURED

    ledger.cut()
    ledger.complete()

    assert ledger.state(ID) is BatchState.CONFIRMED


def test_one_checkpoint_at_a_time() -> None:
    ledger = _ledger()
    ledger.cut()
    with pytest.raises(LocalProtocolError):
        ledger.cut()
    ledger.abort()
    for end in (ledger.complete, ledger.abort):
        with pytest.raises(LocalProtocolError):
            end()
