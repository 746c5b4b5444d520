"""The options of a spool, and what it says about itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass

MIB = 1024 * 1024
LEAST_SEGMENT_BYTES = 4096
LEAST_SEGMENTS = 4
"""A spool has room for at least so many segments."""
USUAL_SEGMENTS = 16
USUAL_SEGMENT_BYTES = 8 * MIB


class FsyncPolicy(enum.Enum):
    """When what was appended survives a power cut. A crash of the process loses nothing under any of them."""

    EACH = "each"
    """When `append` returns."""
    GROUP = "group"
    """When `sync` returns: several appends share one sync."""
    INTERVAL = "interval"
    """At the latest `interval_s` later, as long as `sync` is called."""
    NEVER = "never"
    """When the system gets to it."""


class WhenFull(enum.Enum):
    """What happens to records that do not fit below `max_bytes`. Records that have ids are never dropped."""

    BLOCK = "block"
    """`append` raises SpoolFullError: nothing more is read until there is room."""
    DROP_OLDEST = "drop_oldest"
    """The oldest segment without ids goes, as a whole; where there is none, the new records."""
    DROP_NEWEST = "drop_newest"
    """The new records go."""


@dataclass(frozen=True, slots=True)
class SpoolOptions:
    """How a spool behaves.

    Attributes:
        max_bytes: its segment files are never larger than this together.
        segment_bytes: a file is ended at about this size; 0: 8 MiB, or a sixteenth of `max_bytes` where that is less.
        fsync: when records are durable.
        interval_s: for FsyncPolicy.INTERVAL.
        when_full: what happens to records beyond `max_bytes`.
        dead_letter_bytes: dead letters beyond this make the oldest file of them go, counted.
        damaged_bytes: damaged parts beyond this are not kept, only counted.
    """

    max_bytes: int = 1024 * MIB
    segment_bytes: int = 0
    fsync: FsyncPolicy = FsyncPolicy.GROUP
    interval_s: float = 1.0
    when_full: WhenFull = WhenFull.BLOCK
    dead_letter_bytes: int = 64 * MIB
    damaged_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that cannot work."""
        if self.segment_bytes and self.segment_bytes < LEAST_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes must be at least {LEAST_SEGMENT_BYTES}")
        if self.max_bytes < LEAST_SEGMENTS * max(self.segment_bytes, LEAST_SEGMENT_BYTES):
            raise ValueError(f"max_bytes must be at least {LEAST_SEGMENTS} segments of {LEAST_SEGMENT_BYTES} or more")
        if self.interval_s <= 0 or self.dead_letter_bytes < 1 or self.damaged_bytes < 0:
            raise ValueError("interval_s and dead_letter_bytes must be above 0, damaged_bytes 0 or more")

    @property
    def segment_limit(self) -> int:
        """`segment_bytes`, or what it is by default."""
        return self.segment_bytes or max(
            LEAST_SEGMENT_BYTES, min(USUAL_SEGMENT_BYTES, self.max_bytes // USUAL_SEGMENTS)
        )


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What became of an append.

    Attributes:
        taken: records that are in the spool now.
        dropped: records that `when_full` cost, older ones or these.
    """

    taken: int
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class SpoolState:
    """A spool at one moment. Counters are totals since it was opened.

    Attributes:
        bytes: size of its segment files.
        records: records that are not done.
        unsynced_records: of them, those that are not durable yet.
        segments: how many files.
        first_id: lowest id that is kept, or `next_id` where none is.
        next_id: above every id that a record has.
        dropped_oldest_records, dropped_newest_records: lost to `when_full`.
        damaged_parts, damaged_bytes: parts that could not be read.
        lost_records: records in them, as far as that is known.
        torn_bytes: what an earlier process had begun to write, and was cut away.
        dead_letters: how many are kept now.
        dead_letters_dropped: how many their own limit has cost.
        full_since_us: Unix time since when there has been no room, or None.
    """

    bytes: int
    records: int
    unsynced_records: int
    segments: int
    first_id: int
    next_id: int
    dropped_oldest_records: int
    dropped_newest_records: int
    damaged_parts: int
    damaged_bytes: int
    lost_records: int
    torn_bytes: int
    dead_letters: int
    dead_letters_dropped: int
    full_since_us: int | None
