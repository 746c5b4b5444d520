"""Sizing: the reference's rule and table, and that the estimates are those of the engine's own encoders."""

from __future__ import annotations

import random

import pytest

from edgesocket.ingress.fingerprints import FINGERPRINT_RECORDS
from edgesocket.ingress.sizing import (
    FINGERPRINT_BYTES,
    NoSamplesError,
    PayloadSizes,
    Settings,
    allowed_capacity,
    recommended_capacity,
    size_job,
)
from edgesocket.ingress.snapshot import encode_blocks
from edgesocket.testing.sink_story import received_block


def same(size: int, count: int = 100) -> PayloadSizes:
    return PayloadSizes.of([size] * count)


def test_samples_are_summed_up_by_nearest_rank() -> None:
    lengths = list(range(1, 101))
    random.Random(1).shuffle(lengths)
    assert PayloadSizes.of(lengths) == PayloadSizes(count=100, total=5050, median=50, p99=99, largest=100)
    assert PayloadSizes.of(lengths).average == 51, "rounded up"


@pytest.mark.parametrize(
    ("lengths", "median", "p99"), [([7], 7, 7), ([1, 9], 1, 9), ([0, 0, 5], 0, 5), ([3] * 98 + [8, 9], 3, 8)]
)
def test_ranks_of_few_samples(lengths: list[int], median: int, p99: int) -> None:
    sizes = PayloadSizes.of(lengths)
    assert (sizes.median, sizes.p99) == (median, p99)


def test_no_samples_have_no_size() -> None:
    with pytest.raises(NoSamplesError):
        PayloadSizes.of([])


@pytest.mark.parametrize(
    ("size", "allowed"), [(1000, 3333), (10_000, 333), (3_333_333, 1), (50_000_000, 1), (1, 3_333_333), (0, 3_333_333)]
)
def test_the_rule_of_the_reference(size: int, allowed: int) -> None:
    assert allowed_capacity(size) == allowed
    assert allowed == 1 or allowed * size * 3 <= 10_000_000


@pytest.mark.parametrize(
    ("size", "recommended"), [(100, 1024), (256, 1024), (1024, 1024), (2048, 1024), (5120, 512), (10_240, 256)]
)
def test_the_table_of_the_reference_where_its_rule_agrees(size: int, recommended: int) -> None:
    assert recommended_capacity(size, None) == recommended


def test_a_fast_collector_gets_a_larger_queue_as_far_as_the_rule_allows() -> None:
    assert recommended_capacity(100, 1000) == 1024
    assert recommended_capacity(100, 5000) == 8192
    assert recommended_capacity(1000, 5000) == 2048


def test_a_capacity_is_at_least_one() -> None:
    assert recommended_capacity(100_000_000, 1e9) == 1


def test_the_state_is_estimated_from_above_and_closely() -> None:
    """Compared with what the queue's encoder writes for records with long ids."""
    capacity, size = 2000, 300
    sizing = size_job(same(size), Settings(capacity=capacity))
    block = received_block([b"x" * size] * capacity, first_id=1_769_851_800_250_000)
    written = sum(len(part) for part in encode_blocks([block])) + FINGERPRINT_RECORDS * FINGERPRINT_BYTES
    assert written <= sizing.average.blob <= written * 1.05


def test_the_byte_limit_of_the_queue_bounds_the_estimates() -> None:
    sizing = size_job(same(1_000_000), Settings(capacity=1024, queue_max_bytes=10_000_000))
    assert sizing.average.queue == 10_000_000
    assert sizing.average.peak == 30_000_000


def test_the_average_and_the_99th_percentile_are_told_apart() -> None:
    sizing = size_job(PayloadSizes.of([100] * 90 + [10_000] * 10), Settings())
    assert (sizing.average.payload, sizing.p99.payload) == (1090, 10_000)
    assert (sizing.average.peak, sizing.p99.peak) == (1024 * 1090 * 3, 1024 * 10_000 * 3)
    assert sizing.recommended == 256, "planned for the large ones"


def test_a_rate_tells_what_an_interval_holds() -> None:
    sizing = size_job(same(100), Settings(rate=1000, checkpoint_interval_ms=5000, ratio="0.5"))
    assert sizing.records_an_interval == 5000
    assert sizing.high_water_mark == 512
    assert sizing.buffer_s == pytest.approx(0.512)
    assert sizing.bytes_an_hour == 720 * sizing.average.blob


def test_without_a_rate_nothing_is_said_of_time() -> None:
    sizing = size_job(same(100), Settings())
    assert sizing.records_an_interval is None
    assert sizing.buffer_s is None


@pytest.mark.parametrize(
    ("size", "settings", "advice"),
    [
        (100, Settings(), "local_queue_capacity = 1024 fits"),
        (10_000, Settings(), "lower local_queue_capacity from 1024 to 256"),
        (100, Settings(capacity=10), "raise local_queue_capacity from 10 to 1024"),
        (100, Settings(rate=5000), "raise local_queue_capacity from 1024 to 8192"),
        (10_000, Settings(rate=5000), "holds less than 1 s of records"),
        (0, Settings(), "fits"),
    ],
)
def test_the_advice_is_one_line(size: int, settings: Settings, advice: str) -> None:
    found = size_job(same(size), settings).advice
    assert advice in found
    assert "\n" not in found
