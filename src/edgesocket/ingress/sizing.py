"""How large queue and checkpoints become for payloads of a given size, and which `local_queue_capacity` fits them.

The rule of the reference: a checkpoint holds the whole queue, and at its peak three times (the queue, its bytes, a
replica), so `capacity x size x 3` should stay below 10 MB. This engine holds it once and writes it from where it lies,
so the rule leaves room to spare; what it really writes is estimated beside it.

Sizes are of *queued* payloads: what is left of a packet once it is decrypted, still compressed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from edgesocket.ingress.fingerprints import DIGEST_BYTES, FINGERPRINT_RECORDS, PINNED_BYTES
from edgesocket.ingress.record_queue import DEFAULT_QUEUE_MAX_BYTES, PINNED_SLACK_BYTES, high_water_mark

STATE_LIMIT_BYTES = 10_000_000
"""The reference's limit for a checkpoint's peak: 10 MB."""

PEAK_FACTOR = 3
"""The reference's factor: the queue, its serialised bytes and a replica."""

DEFAULT_CAPACITY = 1024
BUFFER_S = 1.0
"""A queue should hold what comes in so many seconds, so that a checkpoint or a slow moment refuses nothing."""

QUEUED_RECORD_BYTES = 40
"""Bytes a queued record takes in a state blob beside its payload: two offsets, and the header it arrived with."""

FINGERPRINT_BYTES = DIGEST_BYTES + 8
"""Bytes a remembered record takes in a state blob: its fingerprint and its id."""

RECORD_BYTES = 4096
"""Room for the commit record itself; it grows with gaps in the batch ids, not with records."""


class NoSamplesError(ValueError):
    """There is nothing to sum up."""


@dataclass(frozen=True, slots=True)
class PayloadSizes:
    """Sizes of sampled payloads, in bytes.

    Attributes:
        count: how many.
        total: their sum.
        median, p99: so many of them are not larger than this.
        largest: the largest.
    """

    count: int
    total: int
    median: int
    p99: int
    largest: int

    @property
    def average(self) -> int:
        """Rounded up."""
        return -(-self.total // self.count)

    @classmethod
    def of(cls, lengths: Iterable[int]) -> PayloadSizes:
        """Sum the lengths up. Memory grows with the number of different lengths only.

        Raises:
            NoSamplesError: there are none.
        """
        counts = Counter(lengths)
        count = counts.total()
        if not count:
            raise NoSamplesError("no samples")
        total = sum(length * times for length, times in counts.items())
        ordered = sorted(counts.items())
        return cls(count, total, _rank(ordered, count, 50), _rank(ordered, count, 99), ordered[-1][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a job says, or would say.

    Attributes:
        capacity: `local_queue_capacity`.
        ratio: `queue_backpressure_watermark_ratio` as it is written.
        queue_max_bytes: `local_queue_max_bytes`.
        checkpoint_interval_ms: `checkpoint.interval`.
        rate: records a second, None where nobody knows.
    """

    capacity: int = DEFAULT_CAPACITY
    ratio: str = "0.9"
    queue_max_bytes: int = DEFAULT_QUEUE_MAX_BYTES
    checkpoint_interval_ms: int = 10_000
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a payload size means, in bytes, with a full queue.

    Attributes:
        payload: the size.
        allowed: the largest capacity that the reference's rule allows.
        queue: the payloads in the queue.
        peak: the reference's estimate of a checkpoint at its peak.
        blob: what this engine writes for a checkpoint, fingerprints included.
        memory: the most memory that queue and fingerprints keep.
    """

    payload: int
    allowed: int
    queue: int
    peak: int
    blob: int
    memory: int


@dataclass(frozen=True, slots=True)
class Sizing:
    """The whole answer.

    Attributes:
        sizes: of the samples.
        settings: that were asked about.
        average, p99: with payloads that large.
        recommended: `local_queue_capacity` to set.
        high_water_mark: records after which QUEUE_FULL is answered, with the capacity asked about.
        fingerprints: bytes of the blob that are fingerprints; they do not depend on the queue.
        buffer_s: how long records at `rate` fit into the queue when no sink takes any; None without a rate.
        records_an_interval: records between two checkpoints; None without a rate.
        bytes_an_hour: of state written; each checkpoint counts as the largest there can be.
        advice: one line.
    """

    sizes: PayloadSizes
    settings: Settings
    average: Estimate
    p99: Estimate
    recommended: int
    high_water_mark: int
    fingerprints: int
    buffer_s: float | None
    records_an_interval: int | None
    bytes_an_hour: int
    advice: str


def allowed_capacity(payload_bytes: int) -> int:
    """The largest capacity with which `capacity x size x 3` stays within 10 MB; at least 1."""
    return max(1, STATE_LIMIT_BYTES // PEAK_FACTOR // max(1, payload_bytes))


def recommended_capacity(payload_bytes: int, rate: float | None) -> int:
    """A power of two within the rule: the default where it fits, more where the rate needs it.

    Args:
        payload_bytes: the size to plan for.
        rate: records a second; None plans for the default.
    """
    wanted = DEFAULT_CAPACITY
    while rate is not None and wanted < rate * BUFFER_S and wanted < 1 << 30:
        wanted *= 2
    allowed = allowed_capacity(payload_bytes)
    return wanted if wanted <= allowed else 1 << (allowed.bit_length() - 1)


def size_job(sizes: PayloadSizes, settings: Settings) -> Sizing:
    """Work everything out for the sampled sizes."""
    recommended = recommended_capacity(sizes.p99, settings.rate)
    mark = high_water_mark(settings.capacity, settings.ratio)
    fingerprints = FINGERPRINT_RECORDS * FINGERPRINT_BYTES
    average, p99 = _estimate(sizes.average, settings), _estimate(sizes.p99, settings)
    records = interval_records(settings)
    checkpoints_an_hour = 3_600_000 / settings.checkpoint_interval_ms
    return Sizing(
        sizes=sizes,
        settings=settings,
        average=average,
        p99=p99,
        recommended=recommended,
        high_water_mark=mark,
        fingerprints=fingerprints,
        buffer_s=mark / settings.rate if settings.rate else None,
        records_an_interval=records,
        bytes_an_hour=math.ceil(average.blob * checkpoints_an_hour),
        advice=_advice(sizes, settings, recommended),
    )


def interval_records(settings: Settings) -> int | None:
    """Records between two checkpoints at the rate; None without one."""
    if settings.rate is None:
        return None
    return math.ceil(settings.rate * settings.checkpoint_interval_ms / 1000)


def _estimate(payload: int, settings: Settings) -> Estimate:
    capacity = settings.capacity
    full = max(1, settings.queue_max_bytes // payload) if payload else capacity
    records = min(capacity, full)
    queue = records * payload
    return Estimate(
        payload=payload,
        allowed=allowed_capacity(payload),
        queue=queue,
        peak=PEAK_FACTOR * queue,
        blob=queue + records * QUEUED_RECORD_BYTES + FINGERPRINT_RECORDS * FINGERPRINT_BYTES + RECORD_BYTES,
        memory=2 * queue + PINNED_SLACK_BYTES + PINNED_BYTES + FINGERPRINT_RECORDS * FINGERPRINT_BYTES,
    )


def _advice(sizes: PayloadSizes, settings: Settings, recommended: int) -> str:
    capacity, allowed = settings.capacity, allowed_capacity(sizes.p99)
    short = settings.rate is not None and recommended < settings.rate * BUFFER_S
    if short:
        return (
            f"set local_queue_capacity = {recommended}; it holds less than {BUFFER_S:g} s of records at that rate, so "
            "make payloads smaller (compression) or expect QUEUE_FULL while a checkpoint is made"
        )
    if capacity > allowed:
        return f"lower local_queue_capacity from {capacity} to {recommended}: a checkpoint may pass 10 MB at its peak"
    if capacity < recommended:
        return f"raise local_queue_capacity from {capacity} to {recommended}: checkpoints stay small enough"
    return f"local_queue_capacity = {capacity} fits these payloads"


def _rank(ordered: list[tuple[int, int]], count: int, percent: int) -> int:
    """The length that `percent` of all are not longer than (nearest rank)."""
    rank, seen = -(-count * percent // 100), 0
    for length, times in ordered:
        seen += times
        if seen >= rank:
            return length
    return ordered[-1][0]
