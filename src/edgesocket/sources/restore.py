"""What the EdgeSocket source writes into checkpoints, and how it takes it over again.

The commit record carries the ledger and, for the queue, only the numbers of the queued records and their ids; the
records themselves and the fingerprints lie in blobs of their own. A restore starts from record N. If N's own blob is
damaged, an older one gives the records that it still shares with N's queue (records are numbered in arrival order),
and what is missing is lost: its collector will be told to send it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from edgesocket.checkpoint.arrival_log import Segment
from edgesocket.components.source import RestoredSource, SourceCut
from edgesocket.errors import DecodeError
from edgesocket.ids import IdRange
from edgesocket.ingress.ledger import LedgerImage
from edgesocket.ingress.service import IngressCut, IngressService, NoteKind
from edgesocket.ingress.snapshot import decode_blocks, encode_blocks
from edgesocket.records import RecordBlock
from edgesocket.telemetry.events import (
    ArrivalNotesMissing,
    ArrivalSegmentDamaged,
    ArrivalsUnknown,
    FingerprintsUnreadable,
    QueuedRecordsLost,
    QueueUnreadable,
)

QUEUE = "queue"
FINGERPRINTS = "fingerprints"


def encode_cut(cut: IngressCut) -> SourceCut:
    """The cut as the engine wants it. Runs nothing expensive: the blobs are encoded later."""
    image = cut.ledger
    state: dict[str, Any] = {
        "ledger": {name: getattr(image, name) for name in LedgerImage.__dataclass_fields__},
        "queue": {
            "head": cut.queue.head,
            "generation": cut.queue.generation,
            "runs": [list(run) for run in cut.queue.runs()],
        },
        "arrival_sequence": cut.arrival_sequence,
    }

    def encode() -> dict[str, list[bytes | memoryview]]:
        return {QUEUE: encode_blocks(cut.queue.blocks), FINGERPRINTS: [cut.fingerprints.encode()]}

    return SourceCut(state, encode, cut.settled_through)


def restore_service(
    service: IngressService, restored: RestoredSource, segments: Iterable[Segment], report: Callable[[object], None]
) -> int:
    """Bring a new service to where the job was.

    Args:
        service: fresh.
        restored: what the commit log knows.
        segments: all of the arrival log, in order.
        report: told what a person should know.

    Returns:
        The highest sequence number in use: new notes are numbered above it.
    """
    state = restored.state
    position = 0
    if state is not None:
        position = state["arrival_sequence"]
        _restore_state(service, state, restored, report)
    if restored.rolled_back:
        service.ledger.ended_unclean()
    last = _replay(service, segments, position, restored.unclean_floors, report)
    if not restored.previous_end_known:
        service.ledger.ended_unclean()
        if service.ledger.unclean_floor is not None:
            report(ArrivalsUnknown(service.ledger.unclean_floor))
    service.start_sequence(last)
    for settlement in restored.settlements:
        if settlement.log_index > service.settled_through:
            for first, last_id in settlement.ranges:
                service.settle(first, last_id, settlement.log_index)
            if settlement.ends_unclean:
                service.end_unclean(settlement.log_index)
    service.ledger.session_started()
    return last


def _restore_state(
    service: IngressService, state: dict[str, Any], restored: RestoredSource, report: Callable[[object], None]
) -> None:
    queued = state["queue"]
    runs = [(first, last) for first, last in queued["runs"]]
    blocks = _decode_queue(restored, report)
    blocks, missing = queued_records(state, restored.blob_state, blocks)
    found = [run for block in blocks for run in block.runs()]
    service.ledger.restore(LedgerImage(**state["ledger"]), found)
    for first, last in missing:
        service.ledger.mark_lost(first, last)
    if missing:
        report(QueuedRecordsLost(sum(last - first + 1 for first, last in missing)))
    head = queued["head"] + sum(last - first + 1 for first, last in runs) - sum(block.count for block in blocks)
    service.queue.restore(blocks, head, queued["generation"] + bool(missing))
    try:
        if FINGERPRINTS in restored.blobs:
            service.fingerprints.restore(restored.blobs[FINGERPRINTS])
    except DecodeError as error:
        report(FingerprintsUnreadable(str(error)))


def _decode_queue(restored: RestoredSource, report: Callable[[object], None]) -> list[RecordBlock]:
    try:
        return decode_blocks(restored.blobs[QUEUE]) if QUEUE in restored.blobs else []
    except DecodeError as error:
        report(QueueUnreadable(str(error)))
        return []


def queued_records(
    state: dict[str, Any], blob_state: dict[str, Any] | None, blocks: list[RecordBlock]
) -> tuple[list[RecordBlock], list[IdRange]]:
    """The records that `state` calls queued and `blocks` (of `blob_state`) hold, and the id runs that are missing.

    Records are numbered in arrival order, so both queues are number ranges; the first is compared with the second.
    """
    queued = state["queue"]
    wanted_first = queued["head"]
    runs = [(first, last) for first, last in queued["runs"]]
    wanted = sum(last - first + 1 for first, last in runs)
    if blob_state is None or blob_state["queue"]["generation"] != queued["generation"]:
        return [], runs
    have_first = blob_state["queue"]["head"]
    have = sum(block.count for block in blocks)
    skip = max(0, wanted_first - have_first)
    stop = min(have, wanted_first + wanted - have_first)
    kept = _slice(blocks, skip, stop) if have_first <= wanted_first else []
    found = sum(block.count for block in kept)
    return kept, _tail_of(runs, wanted - found)


def _slice(blocks: list[RecordBlock], start: int, stop: int) -> list[RecordBlock]:
    kept: list[RecordBlock] = []
    position = 0
    for block in blocks:
        low, high = max(start - position, 0), min(stop - position, block.count)
        if low < high:
            kept.append(block.part(low, high))
        position += block.count
    return kept


def _tail_of(runs: list[IdRange], count: int) -> list[IdRange]:
    """The last `count` ids of `runs`."""
    tail: list[IdRange] = []
    for first, last in reversed(runs):
        if count <= 0:
            break
        tail.append((max(first, last - count + 1), last))
        count -= last - first + 1
    return tail[::-1]


def _replay(
    service: IngressService,
    segments: Iterable[Segment],
    position: int,
    unclean_floors: dict[int, int | None],
    report: Callable[[object], None],
) -> int:
    """Take over every event above `position`, and how each incarnation since then found the one before it.

    An incarnation that wrote no segment counts too: what it knew of the end before it is only in its `Started`.

    Numbers without a gap say that nothing is missing in the middle. After a loss of power a newer segment may be there
    although the end of the one before it is not: files reach a disk in any order. What was noted between them is not
    known then, and what it was passed over by counts as lost.

    Returns:
        The highest sequence number seen.
    """
    last = position
    incarnations = sorted(unclean_floors.items())
    for segment in segments:
        while incarnations and incarnations[0][0] <= segment.epoch:
            _enter_epoch(service, incarnations.pop(0)[1])
        for event in segment.events:
            if event.sequence > last + 1:
                report(ArrivalNotesMissing(segment.name, event.sequence - last - 1, event.sequence))
                service.ledger.ended_unclean()
            if event.sequence > position:
                service.replay(NoteKind(event.kind), event.lo, event.hi, event.log_index)
            last = max(last, event.sequence)
        if segment.damage:
            report(ArrivalSegmentDamaged(segment.name, segment.damage))
            service.ledger.ended_unclean()
    for _, k in incarnations:
        _enter_epoch(service, k)
    return last


def _enter_epoch(service: IngressService, k: int | None) -> None:
    """The next events are of an incarnation that started with this K."""
    ledger = service.ledger
    if k is not None and k != ledger.unclean_floor:
        ledger.ended_unclean()
    ledger.unclean_floor = k
