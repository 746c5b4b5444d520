"""What an EdgeSocket source says of itself, as JSON. The fields stand in docs/metrics.md, with the metrics of them."""

from __future__ import annotations

from typing import Any

from edgesocket.ingress.arrival_times import ArrivalTimes
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue
from edgesocket.ingress.service import IngressService
from edgesocket.sources.notices import Holder


def describe_ingress(service: IngressService, times: ArrivalTimes, now: float) -> dict[str, Any]:
    """Ids, queue and replies, as of one moment: the caller holds the lock of the service."""
    return {
        **describe_ledger(service.ledger, times, now),
        "queue": describe_queue(service.queue),
        "replies": service.reply_counts(),
        "payload_bytes": service.payload_byte_counts(),
        "resends": service.resends,
        "repeated_ids": service.repeated_with_other_payload,
        "reused_ivs": service.reused_ivs,
    }


def describe_ledger(ledger: Ledger, times: ArrivalTimes, now: float) -> dict[str, Any]:
    """What is confirmed, and what is not yet."""
    oldest = ledger.oldest_unconfirmed
    return {
        "watermark": ledger.watermark,
        "ack_number": ledger.ack_number,
        "highest_offered": ledger.highest_offered,
        "unclean_floor": ledger.unclean_floor,
        "overloaded": ledger.overloaded,
        "batches": ledger.counts(),
        "oldest_unconfirmed": None if oldest is None else {"id": oldest, "age_s": round(times.age_s(oldest, now), 1)},
    }


def describe_queue(queue: RecordQueue) -> dict[str, Any]:
    """How full the queue is, and how full it may be."""
    return {
        "records": queue.records,
        "bytes": queue.payload_bytes,
        "capacity": queue.capacity,
        "high_water_mark": queue.mark,
        "max_bytes": queue.max_bytes,
        "most_records": queue.most_records,
    }


def describe_holder(holder: Holder | None, now: float) -> dict[str, Any] | None:
    """What holds the watermark, and since when; None where nothing does."""
    if holder is None:
        return None
    return {"id": holder.id_, "state": holder.state.value, "since_s": round(now - holder.since, 1)}
