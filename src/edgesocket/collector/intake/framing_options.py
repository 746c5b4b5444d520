"""How bytes become records: the options of framing, where it is in a stream, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgesocket.collector.intake.encodings import encoding_name
from edgesocket.collector.intake.multiline import MultilineRule

MAX_LINE_BYTES = 1 << 20
IDLE_FLUSH_S = 5.0
LEAST_MAX_LINE_BYTES = 16


class LongLines(Enum):
    """What happens to a line above the limit."""

    SPLIT = "split"
    """It becomes several records, none longer than the limit. Nothing is lost."""
    CUT = "cut"
    """Its beginning is a record; the rest is thrown away and counted."""
    SKIP = "skip"
    """All of it is thrown away and counted."""


class InvalidBytes(Enum):
    """What happens to bytes that are no text of the encoding."""

    KEEP = "keep"
    """They stay as they are (in UTF-16 and UTF-32: lone surrogates stay, as three bytes each)."""
    REPLACE = "replace"
    """Each becomes U+FFFD; the lines are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FramingOptions:
    """How a stream is cut into records.

    Attributes:
        encoding: a Python name of the encoding.
        invalid: what happens to bytes that are no text.
        max_line_bytes: the longest line, in bytes of the stream; at least 16.
        long_lines: what happens to a longer one.
        skip_empty: empty records are left out.
        multiline: which lines go together; None: every line is a record.
        idle_flush_s: after so long without news the caller should `flush`; None: it should not. The framer does not
            look at it.
    """

    encoding: str = "utf-8"
    invalid: InvalidBytes = InvalidBytes.KEEP
    max_line_bytes: int = MAX_LINE_BYTES
    long_lines: LongLines = LongLines.SPLIT
    skip_empty: bool = False
    multiline: MultilineRule | None = None
    idle_flush_s: float | None = IDLE_FLUSH_S

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: says what is wrong.
        """
        encoding_name(self.encoding)
        if self.max_line_bytes < LEAST_MAX_LINE_BYTES:
            raise ValueError(f"max_line_bytes must be at least {LEAST_MAX_LINE_BYTES}")
        if self.idle_flush_s is not None and self.idle_flush_s <= 0:
            raise ValueError("idle_flush_s must be above 0")


@dataclass(frozen=True, slots=True)
class FramingState:
    """How far a stream is done with.

    Attributes:
        offset: bytes of the stream, from its start, that are in returned records (or were thrown away).
        encoding: Python's name of the encoding once its byte order is settled, else empty.
        in_line: what follows is the rest of a line whose beginning was a record.
        skipping: what follows up to the next line end is thrown away.
    """

    offset: int = 0
    encoding: str = ""
    in_line: bool = False
    skipping: bool = False


@dataclass(slots=True)
class FramingCounts:
    """Totals; one object may serve many framers."""

    lines_split: int = 0
    lines_cut: int = 0
    lines_skipped: int = 0
    bytes_skipped: int = 0
    """Bytes of cut and skipped lines that were thrown away."""
    lines_invalid: int = 0
    """Lines with bytes that are no text of the encoding (in UTF-8 counted only with `replace`)."""
    records_capped: int = 0
    """Multiline records that a cap ended."""

    def as_dict(self) -> dict[str, int]:
        """By name, for the metrics."""
        return {name: getattr(self, name) for name in self.__slots__}
