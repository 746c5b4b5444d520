"""Frames: what a segment of the spool is made of. Pure: bytes in, bytes out.

A segment is frames, one behind the other. A frame is there whole or not at all::

    magic "ESsf"   version u8   kind u8   flags u16
    body length u32   records u32   marks length u32
    ordinal u64       number of its first record within the segment, from 0
    synced u64        so many bytes of this segment were durable when the frame was written
    body CRC-32 u32   header CRC-32 u32
    body:             marks (see marks.py), then the records with a line feed between each two

all little-endian. Kinds: HEAD, the first frame, holds every mark there was; DATA; SEAL, the last, says how many records
there are (`records`) and which ordinal the next would have had, so that a look at the last 44 bytes is enough.

Why so:

- **ordinal**: a record's id is the segment's first id + its ordinal. What is lost in between shifts nobody's id.
- **synced**: after a power cut pages may be missing in front of pages that made it. A hole that no later frame calls
  durable was never promised to anybody: the segment ends there (`survey.py`). A hole that one does is damage, and
  reading goes on behind it.
- **salt and offset** are mixed into the checksums. So bytes of another segment, or of another place, are never taken
  for a frame, not even where a record holds a copy of one: after damage, reading goes on at the next place where a
  frame checks, and nobody who can write a log line can choose what is found there.
- An append larger than `FRAME_BYTES` becomes several frames; all but the last say `MORE`, and the last has the marks.
  At the end of a segment, frames whose last one is missing count as torn.
"""

from __future__ import annotations

import enum
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import contains
from typing import NamedTuple
from zlib import crc32

from edgesocket.protocol.ended_lines import EndedLines

VERSION = 1
MAGIC = b"ESsf"
MORE = 1
"""Flag: the next frame belongs to the same append."""

_HEADER = struct.Struct("<4sBBHIIIQQI")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size

FRAME_BYTES = 256 * 1024
"""An append is cut into frames of about this size."""
MAX_RECORD_BYTES = 32 * 1024 * 1024
"""A larger record is refused."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""No frame has a larger body."""
READ_BYTES = 256 * 1024
"""So much of a file is read at a time."""
_SPREAD = 0x9E3779B1
_FEED = 0x0A
_LONG_LINE_BYTES = 64


class FrameKind(enum.IntEnum):
    """What a frame is for."""

    HEAD = 1
    DATA = 2
    SEAL = 3


_KINDS = frozenset(int(kind) for kind in FrameKind)


class Piece(NamedTuple):
    """Records that will be one frame: joined by line feeds, and how many."""

    joined: bytes | memoryview
    records: int


class Header(NamedTuple):
    """A frame's header, checked.

    Attributes:
        offset, end: where the frame begins, and the byte behind it.
    """

    offset: int
    end: int
    kind: int
    flags: int
    records: int
    marks_bytes: int
    ordinal: int
    synced: int
    body_crc: int


class Frame(NamedTuple):
    """A good frame."""

    header: Header
    body: bytes

    @property
    def marks_data(self) -> bytes:
        """Its marks as bytes."""
        return self.body[: self.header.marks_bytes]

    @property
    def joined(self) -> bytes:
        """What is behind the marks: the records, with a line feed between each two."""
        marks_bytes = self.header.marks_bytes
        return self.body[marks_bytes:] if marks_bytes else self.body

    def lines(self) -> EndedLines:
        """Its records."""
        return EndedLines.between(self.joined, self.header.records)


class Hole(NamedTuple):
    """Bytes that are no good frame."""

    offset: int
    end: int
    reason: str

    @property
    def length(self) -> int:
        """How many bytes: at least as many as records are lost in it."""
        return self.end - self.offset


@dataclass(frozen=True, slots=True)
class Place:
    """Where a frame goes: the segment's salt, the offset, the ordinal of its first record, what is durable by then."""

    salt: int
    offset: int
    ordinal: int
    synced: int


ReadAt = Callable[[int, int], bytes]
"""(offset, length) -> bytes there, fewer only at the end of the file."""


def cut_pieces(lines: Sequence[bytes]) -> list[Piece]:
    """Make pieces of about `FRAME_BYTES` out of records; none of none.

    Raises:
        ValueError: a record holds a line feed, or is larger than `MAX_RECORD_BYTES`.
    """
    if not lines:
        return []
    joined: bytes | memoryview
    if isinstance(lines, EndedLines):
        joined = lines.joined
    else:
        joined = b"\n".join(lines)
        if _has_feed(lines, joined):
            raise ValueError("a record holds a line feed")
    if len(joined) <= FRAME_BYTES:
        return [Piece(joined, len(lines))]
    ends = list(accumulate(len(line) + 1 for line in lines))
    pieces = []
    start = 0
    while start < len(lines):
        begin = ends[start - 1] if start else 0
        stop = max(bisect_right(ends, begin + FRAME_BYTES + 1, start), start + 1)
        if ends[stop - 1] - 1 - begin > max(MAX_RECORD_BYTES, FRAME_BYTES):
            raise ValueError(f"a record has {ends[stop - 1] - 1 - begin} bytes; at most {MAX_RECORD_BYTES} are kept")
        pieces.append(Piece(joined[begin : ends[stop - 1] - 1], stop - start))
        start = stop
    return pieces


def append_bytes(pieces: Sequence[Piece], marks: bytes) -> int:
    """How many bytes `encode_append` makes."""
    return HEADER_BYTES * max(1, len(pieces)) + sum(len(piece.joined) for piece in pieces) + len(marks)


def encode_append(pieces: Sequence[Piece], marks: bytes, place: Place) -> list[bytes | memoryview]:
    """The frames of one append, as buffers to be written one behind the other."""
    buffers: list[bytes | memoryview] = []
    offset, ordinal = place.offset, place.ordinal
    last = len(pieces) - 1
    for number, piece in enumerate(pieces or (Piece(b"", 0),)):
        ended = number >= last
        own_marks = marks if ended else b""
        at = Place(place.salt, offset, ordinal, place.synced)
        header = encode_header(FrameKind.DATA, at, piece.records, own_marks, piece.joined, flags=0 if ended else MORE)
        buffers += [header, own_marks, piece.joined] if own_marks else [header, piece.joined]
        offset += HEADER_BYTES + len(own_marks) + len(piece.joined)
        ordinal += piece.records
    return buffers


def encode_header(
    kind: FrameKind, place: Place, records: int, marks: bytes, rest: bytes | memoryview, flags: int = 0
) -> bytes:
    """The header of a frame whose body is `marks + rest`."""
    body_crc = crc32(rest, crc32(marks, place.salt))
    length = len(marks) + len(rest)
    if length > MAX_BODY_BYTES:
        raise ValueError(f"a frame of {length} bytes; at most {MAX_BODY_BYTES} are written")
    start = _HEADER.pack(
        MAGIC, VERSION, kind, flags, length, records, len(marks), place.ordinal, place.synced, body_crc
    )
    return start + _CRC.pack(crc32(start, _seed(place.salt, place.offset)))


def encode_head(salt: int, marks: bytes, info: bytes) -> bytes:
    """The first frame of a segment: every mark, and what else it says about itself."""
    return encode_header(FrameKind.HEAD, Place(salt, 0, 0, 0), 0, marks, info) + marks + info


def encode_seal(place: Place, records: int) -> bytes:
    """The last frame: `place.ordinal` is that of the record that would have come next."""
    return encode_header(FrameKind.SEAL, place, records, b"", b"")


def decode_header(data: bytes, at: int, salt: int, offset: int) -> Header | None:
    """The header at `data[at:]`, which is at `offset` in its file; None where there is none that checks."""
    if len(data) - at < HEADER_BYTES or data[at : at + 4] != MAGIC:
        return None
    (crc,) = _CRC.unpack_from(data, at + _HEADER.size)
    if crc != crc32(data[at : at + _HEADER.size], _seed(salt, offset)):
        return None
    _, version, kind, flags, length, records, marks, ordinal, synced, body_crc = _HEADER.unpack_from(data, at)
    if version != VERSION or kind not in _KINDS or length > MAX_BODY_BYTES or marks > length:
        return None
    return Header(offset, offset + HEADER_BYTES + length, kind, flags, records, marks, ordinal, synced, body_crc)


def decode_seal(data: bytes, salt: int, offset: int) -> Header | None:
    """The SEAL that the last `HEADER_BYTES` of a segment are; None where they are something else."""
    header = decode_header(data, 0, salt, offset)
    return header if header is not None and header.kind == FrameKind.SEAL and header.end == offset + len(data) else None


def is_whole(header: Header, body: bytes, salt: int) -> bool:
    """Whether the body is the one the header was written for."""
    return len(body) == header.end - header.offset - HEADER_BYTES and crc32(body, salt) == header.body_crc


def walk(read: ReadAt, salt: int, start: int, limit: int) -> Iterator[Frame | Hole]:
    """The frames of a segment and the holes between them, in order, from `start` (where one begins) to `limit`.

    Holds one frame and `READ_BYTES` in memory; behind damage, the rest of the segment once.
    """
    window = _Window(read, limit)
    at = start
    while at < limit:
        frame, reason = _frame_at(window, salt, at)
        if frame is not None:
            yield frame
            at = frame.header.end
            continue
        behind = _next_good(window, salt, at)
        yield Hole(at, behind, reason)
        at = behind


class _Window:
    """The piece of a file that is being looked at."""

    def __init__(self, read: ReadAt, limit: int) -> None:
        self._read = read
        self.limit = limit
        self._data = b""
        self._base = 0

    def get(self, offset: int, length: int) -> bytes:
        """The bytes there, fewer at the limit."""
        begin = offset - self._base
        if begin < 0 or begin + length > len(self._data):
            length = min(length, self.limit - offset)
            kept = self._data[begin:] if 0 <= begin < len(self._data) else b""
            wanted = min(max(length, READ_BYTES), self.limit - offset) - len(kept)
            self._data = kept + (self._read(offset + len(kept), wanted) if wanted > 0 else b"")
            self._base = offset
            begin = 0
        return self._data[begin : begin + length]


def _frame_at(window: _Window, salt: int, at: int) -> tuple[Frame | None, str]:
    header = decode_header(window.get(at, HEADER_BYTES), 0, salt, at)
    if header is None:
        return None, "no frame begins here"
    body = window.get(at + HEADER_BYTES, header.end - at - HEADER_BYTES)
    if len(body) < header.end - at - HEADER_BYTES:
        return None, "the frame ends early"
    if not is_whole(header, body, salt):
        return None, "the frame fails its checksum"
    return Frame(header, body), ""


def _next_good(window: _Window, salt: int, at: int) -> int:
    """The lowest offset above `at` where a good frame begins; the limit where there is none."""
    header = decode_header(window.get(at, HEADER_BYTES), 0, salt, at)
    if header is not None and _frame_at(window, salt, header.end)[0] is not None:
        return header.end
    limit = window.limit
    rest = window.get(at, limit - at)
    found = rest.find(MAGIC, 1)
    while found >= 0:
        header = decode_header(rest, found, salt, at + found)
        if header is not None and is_whole(header, rest[found + HEADER_BYTES : header.end - at], salt):
            return at + found
        found = rest.find(MAGIC, found + 1)
    return limit


def _has_feed(lines: Sequence[bytes], joined: bytes) -> bool:
    if len(joined) < _LONG_LINE_BYTES * len(lines):
        return joined.count(b"\n") != len(lines) - 1
    return any(map(contains, lines, repeat(_FEED)))  # much faster for long ones


def _seed(salt: int, offset: int) -> int:
    return salt ^ (offset * _SPREAD & 0xFFFFFFFF)
