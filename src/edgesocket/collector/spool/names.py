"""What the files of a spool are called, and what their names say.

::

    segments/<number 12 digits>-<salt 8 hex>.seg                            its records have no ids yet
    segments/<number 12 digits>-<salt 8 hex>-<first id 19 digits>.seg       they have

Giving a segment its ids is one rename and a sync of the directory: the ids live and end with the records, no second
file can disagree, and no damage inside a file can move them.

The salt goes into every checksum of the segment (see frames.py). It is in the name because damage in the file cannot
reach it there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

SEGMENTS = "segments"
DAMAGED = "damaged"
DEAD_LETTERS = "dead-letters"
LOCK = "lock"
NOTE = "note"

_SEGMENT = re.compile(r"(\d{12})-([0-9a-f]{8})(?:-(\d{19}))?\.seg", re.ASCII)
_LETTERS = re.compile(r"(\d{12})\.jsonl", re.ASCII)
_MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """A segment's name, taken apart. They sort by number.

    Attributes:
        number: rises from segment to segment.
        salt: 32 random bits.
        first_id: id of the record with ordinal 0, or None where no ids are given yet.
    """

    number: int
    salt: int
    first_id: int | None = None

    @property
    def text(self) -> str:
        """The name of the file."""
        ids = "" if self.first_id is None else f"-{self.first_id:019d}"
        return f"{self.number:012d}-{self.salt:08x}{ids}.seg"

    def with_ids(self, first_id: int) -> SegmentName:
        """The name once ids are given."""
        return replace(self, first_id=first_id)

    def part(self, offset: int, end: int) -> str:
        """The name of a damaged part of it that is set aside."""
        return f"{self.number:012d}-{self.salt:08x}.{offset}-{end}.part"


def parse_segment_name(text: str) -> SegmentName | None:
    """A segment's name taken apart; None for any other name."""
    match = _SEGMENT.fullmatch(text)
    if match is None:
        return None
    first_id = None if match[3] is None else int(match[3])
    if first_id is not None and not 1 <= first_id <= _MAX_ID:
        return None
    return SegmentName(int(match[1]), int(match[2], 16), first_id)


def letters_name(number: int) -> str:
    """The name of a file of dead letters."""
    return f"{number:012d}.jsonl"


def parse_letters_name(text: str) -> int | None:
    """The number in such a name; None for any other name."""
    match = _LETTERS.fullmatch(text)
    return None if match is None else int(match[1])
