"""What a restore makes of an arrival log with something missing in the middle."""

from __future__ import annotations

import pytest

from edgesocket.checkpoint.arrival_log import Event, EventKind, Segment
from edgesocket.components.source import RestoredSource
from edgesocket.ingress.admission import RawCodec
from edgesocket.ingress.batch_states import BatchState
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue
from edgesocket.ingress.service import AdmissionRules, IngressService
from edgesocket.sources.restore import restore_service


def segment(*events: tuple[int, int, int]) -> Segment:
    """A segment of (sequence, first id, last id), all accepted."""
    noted = [Event(sequence, EventKind.ACCEPTED, first, last) for sequence, first, last in events]
    return Segment(1, noted[0].sequence, noted, name=f"from {noted[0].sequence}")


def restored(*segments: Segment) -> tuple[Ledger, list[str]]:
    service = IngressService(AdmissionRules(), Ledger(), RecordQueue(10, 10), RawCodec())
    reports: list[str] = []
    restore_service(service, RestoredSource(), segments, lambda event: reports.append(str(event)))
    return service.ledger, reports


def test_ids_passed_over_by_notes_behind_missing_ones_are_lost() -> None:
    ledger, reports = restored(segment((1, 1, 2)), segment((4, 9, 9)))

    assert [ledger.state(id_) for id_ in (2, 3, 8, 9)] == [BatchState.LOST] * 4
    assert ledger.unclean_floor == 2
    assert reports == ["from 4: the 2 notes before number 4 are gone"]


def test_ids_passed_over_by_notes_without_a_missing_number_are_a_gap() -> None:
    ledger, reports = restored(segment((1, 1, 2), (2, 5, 5)), segment((3, 9, 9)))

    assert [ledger.state(id_) for id_ in (3, 4, 6, 8)] == [BatchState.GAP] * 4
    assert ledger.unclean_floor is None
    assert reports == []


@pytest.mark.parametrize("first", [2, 7])
def test_what_is_missing_before_the_first_note_counts_too(first: int) -> None:
    ledger, reports = restored(segment((first, 5, 5)))

    assert len(reports) == 1
    assert ledger.state(5) is BatchState.LOST
