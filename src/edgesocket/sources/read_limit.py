"""How fast records may be read out of the queue: `read_limit` of the env block. Pure: time comes in as an argument.

Two token buckets, one for records and one for payload bytes. Tokens come in at the rate; what is read takes some away,
perhaps more than there were (a record is never cut): the debt is waited out before the next read. Little is saved up,
so a pause is not followed by a burst that a destination would feel.
"""

from __future__ import annotations

from edgesocket.components.source import ReadLimit

BURST_S = 0.1
"""A bucket holds what comes in within this time."""

TICK_S = 0.01
"""Nothing is read before this much has come in: a read has a fixed price, so many small ones would be slow."""

_ROUNDING = 1e-6


class TokenBucket:
    """Tokens that come in at a rate.

    Args:
        rate: tokens a second, above 0.
        now: seconds of a steady clock. The bucket begins full.

    Attributes:
        worthwhile: so many tokens make a read worth its price.
    """

    def __init__(self, rate: float, now: float) -> None:
        self.worthwhile = max(1.0, rate * TICK_S)
        self._rate = rate
        self._most = max(1.0, rate * BURST_S)
        self._tokens = self._most
        self._now = now

    def count(self, now: float) -> int:
        """How many whole tokens there are; below 0 after a debt."""
        self._tokens = min(self._most, self._tokens + max(0.0, now - self._now) * self._rate)
        self._now = max(self._now, now)
        return int(self._tokens + _ROUNDING) if self._tokens > 0 else int(self._tokens)

    def take(self, tokens: int) -> None:
        """Use tokens up, perhaps more than there are."""
        self._tokens -= tokens

    def wait_s(self, now: float) -> float:
        """Seconds until a read is worthwhile, 0 if it is now."""
        self.count(now)
        missing = self.worthwhile - self._tokens
        return missing / self._rate if missing > _ROUNDING else 0.0


class ReadLimiter:
    """Says how much may be read.

    Args:
        limit: at least one of the two is set.
        now: seconds of a steady clock.
        most_records, most_bytes: of one read, where the limit says nothing.
    """

    def __init__(self, limit: ReadLimit, now: float, most_records: int, most_bytes: int) -> None:
        self._records = TokenBucket(limit.rows_per_second, now) if limit.rows_per_second else None
        self._bytes = TokenBucket(limit.bytes_per_second, now) if limit.bytes_per_second else None
        self._most = most_records, most_bytes

    def wait_s(self, now: float) -> float:
        """Seconds until something may be read, 0 if it may be now."""
        return max((bucket.wait_s(now) for bucket in (self._records, self._bytes) if bucket is not None), default=0.0)

    def most(self, now: float) -> tuple[int, int]:
        """The most records, and payload bytes, that may be read now; a last record may go beyond the bytes."""
        records, bytes_ = self._most
        if self._records is not None:
            records = max(0, min(records, self._records.count(now)))
        if self._bytes is not None:
            bytes_ = max(0, min(bytes_, self._bytes.count(now)))
        return records, bytes_

    def took(self, records: int, bytes_: int) -> None:
        """So much was read."""
        if self._records is not None:
            self._records.take(records)
        if self._bytes is not None:
            self._bytes.take(bytes_)
