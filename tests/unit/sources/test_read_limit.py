"""`read_limit`: never more than the rate over any stretch of time, and no slower than the rate either."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.components.source import ReadLimit
from edgesocket.sources.read_limit import BURST_S, ReadLimiter, TokenBucket
from edgesocket.testing.sinks import ListStorage
from tests.support.rig import Rig

MOST = (65_536, 16 << 20)


def _read(limit: ReadLimit, seconds: float, record_bytes: int = 10) -> list[tuple[float, int]]:
    """When how many records are read by somebody who always wants more; time moves by what the limiter says."""
    now, reads = 100.0, []
    limiter = ReadLimiter(limit, now, *MOST)
    while now < 100.0 + seconds:
        wait_s = limiter.wait_s(now)
        if wait_s:
            now += wait_s
            continue
        records, bytes_ = limiter.most(now)
        assert records > 0
        assert bytes_ > 0
        count = min(records, -(-bytes_ // record_bytes))  # the last record may go beyond the bytes
        limiter.took(count, count * record_bytes)
        reads.append((now, count))
    return reads


@pytest.mark.parametrize("rate", [1, 3, 100, 12_345, 2_000_000])
def test_records_come_at_the_rate(rate: int) -> None:
    total = sum(count for _, count in _read(ReadLimit(rows_per_second=rate), seconds=20))
    assert total == pytest.approx(20 * rate, rel=0.06, abs=2)
    assert total <= 20 * rate + max(1, rate * BURST_S) + 1


def test_bytes_come_at_the_rate_and_the_stricter_limit_counts() -> None:
    bytes_alone = sum(count for _, count in _read(ReadLimit(bytes_per_second=1000), 20, record_bytes=10))
    assert bytes_alone == pytest.approx(2000, rel=0.02)
    both = sum(count for _, count in _read(ReadLimit(rows_per_second=50, bytes_per_second=1000), 20, record_bytes=10))
    assert both == pytest.approx(1000, rel=0.02)


def test_a_record_larger_than_a_second_of_the_limit_is_read_and_its_debt_waited_out() -> None:
    reads = _read(ReadLimit(bytes_per_second=100), seconds=100, record_bytes=1000)
    assert [count for _, count in reads] == [1] * len(reads)
    assert len(reads) == pytest.approx(10, abs=1)


def test_little_is_saved_up_while_nothing_is_read() -> None:
    bucket = TokenBucket(1000, now=0.0)
    assert bucket.count(3600.0) == 1000 * BURST_S


def test_a_read_is_not_worth_its_price_before_some_tokens_are_there() -> None:
    limiter = ReadLimiter(ReadLimit(rows_per_second=1_000_000), 0.0, *MOST)
    limiter.took(100_000, 0)
    assert limiter.wait_s(0.000_5) > 0.009
    assert limiter.wait_s(0.010_1) == 0
    assert limiter.most(0.010_1)[0] == 10_100


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(100, now=5.0)
    bucket.take(10)
    assert bucket.count(5.0) == bucket.count(4.0) == 0
    assert bucket.count(5.1) == 10


def _rig(tmp_path: Path, limit: ReadLimit, **options: object) -> Rig:
    return Rig(tmp_path, ListStorage(), options=options, plan={"read_limit": limit})


def test_a_source_that_is_held_back_fills_up_and_answers_queue_full(tmp_path: Path) -> None:
    rig = _rig(tmp_path, ReadLimit(rows_per_second=1), local_queue_capacity=10).start()
    assert [rig.offer(n) for n in range(1, 11)] == ["RECEIVED"] * 9 + ["QUEUE_FULL:500"]
    assert [rig.pump(), rig.pump()] == [1, 0], "one is in the bucket at first, the next comes in a second"
    assert [rig.offer(n) for n in (10, 11)] == ["RECEIVED", "QUEUE_FULL:500"]


def test_bytes_hold_a_source_back_too_and_cut_large_blocks(tmp_path: Path) -> None:
    rig = _rig(tmp_path, ReadLimit(bytes_per_second=1000)).start()
    for n in range(1, 21):
        rig.offer(n, b"x" * 40)
    assert [rig.pump(), rig.pump()] == [3, 0], "a tenth of a second: 100 bytes, and the record that goes beyond"


def test_a_stop_lifts_the_limit_so_that_what_is_queued_is_written(tmp_path: Path) -> None:
    rig = _rig(tmp_path, ReadLimit(rows_per_second=1)).start()
    for n in range(1, 51):
        rig.offer(n)
    assert rig.pump() == 1
    rig.source.stop(0.0)
    assert rig.pump() == 49
