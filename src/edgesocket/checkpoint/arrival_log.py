"""The arrival log: what the source has answered since the last checkpoint, as bytes.

Before a burst of replies goes out, one record with the id ranges behind them is appended. Events are numbered through
the whole life of a job (*sequence*), so a checkpoint can say up to where it covers them. The log is cut into
segments; a file is one header and records::

    header:  "ESAL"  version u16  0 u16  epoch u64  first sequence u64  CRC-32 of the 24 bytes before u32
    record:  length u32  CRC-32 u32  body (`length` bytes)
    body:    sequence of its first event u64, then events: kind u8  lo u64  hi u64 [commit-log index u64]

all little-endian. The length also goes into the record's checksum. Numbers rise from record to record; they may skip,
because the numbers of a burst that could not be written are not used again.

Reading stops at the first record that is not good. Either the file ends in the middle of it (`torn`: that burst was
never answered), or bytes that were answered are damaged, and the events behind them are not known any more.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from edgesocket.ids import MAX_BATCH_ID

VERSION = 1

_HEADER = struct.Struct("<4sHHQQ")
_CRC = struct.Struct("<I")
_PREFIX = struct.Struct("<II")
_SEQUENCE = struct.Struct("<Q")
_EVENT = struct.Struct("<BQQ")
_OPERATOR_EVENT = struct.Struct("<BQQQ")
_SINGLE_EVENT = struct.Struct("<QBQQ")

HEADER_BYTES = _HEADER.size + _CRC.size
_MAGIC = b"ESAL"
_MIN_BODY = _SINGLE_EVENT.size
_MAX_EVENTS_A_RECORD = 4096
_MAX_BODY = _SEQUENCE.size + _MAX_EVENTS_A_RECORD * _OPERATOR_EVENT.size


class EventKind(enum.IntEnum):
    """What happened to the ids lo..hi, in rising order."""

    ACCEPTED = 1
    """RECEIVED, one record each."""
    HELD = 2
    """Refused for now: QUEUE_FULL, RETRY or DECRYPT_FAILED."""
    SETTLED = 3
    """Refused for good: DECODE_FAILED."""
    RECOGNISED = 4
    """RECEIVED as a resend of what is there already; no record."""
    OPERATOR_SETTLED = 5
    """Settled by the operator, through the commit-log entry named."""
    UNCLEAN_ENDED = 6
    """The operator said, through the entry named, that nothing is missing after an unclean end; lo and hi are 1."""


_OPERATOR_KINDS = frozenset({EventKind.OPERATOR_SETTLED, EventKind.UNCLEAN_ENDED})


class Change(NamedTuple):
    """An event before it has a number. `log_index` is for operators' events: index of the entry in the commit log."""

    kind: EventKind
    lo: int
    hi: int
    log_index: int = 0


class Event(NamedTuple):
    """An event read back."""

    sequence: int
    kind: EventKind
    lo: int
    hi: int
    log_index: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """What can be read of one segment.

    Attributes:
        epoch: of the incarnation that wrote it, 0 where the header cannot be read.
        first_sequence: no event in it has a lower number.
        events: every event up to the first record that is not good.
        torn: the file ends inside its header or a record: a burst that was never answered.
        damage: what is wrong with bytes that were answered, empty for nothing.
        good_bytes: length of what was read.
        name: of its file, empty where it came from bytes.
    """

    epoch: int
    first_sequence: int
    events: list[Event] = field(default_factory=list)
    torn: bool = False
    damage: str = ""
    good_bytes: int = 0
    name: str = ""

    @property
    def next_sequence(self) -> int:
        """One above the highest number in use, as far as it can be read."""
        return self.events[-1].sequence + 1 if self.events else self.first_sequence


class BurstEncoder:
    """Numbers events and turns bursts of them into bytes for `ArrivalWriter.append`.

    Numbers are given out when a burst is encoded; those of a burst that is not written are lost, which is fine.

    Attributes:
        next_sequence: number of the next event; a checkpoint's position is the `next_sequence` at its cut.
    """

    __slots__ = ("next_sequence",)

    def __init__(self, next_sequence: int) -> None:
        self.next_sequence = next_sequence

    def accepted(self, lo: int, hi: int) -> bytes:
        """One record with the one event that nearly every burst is: ids lo..hi accepted."""
        body = _SINGLE_EVENT.pack(self.next_sequence, 1, lo, hi)
        self.next_sequence += 1
        return _PREFIX.pack(_MIN_BODY, crc32(body, _MIN_BODY)) + body

    def burst(self, changes: Sequence[Change]) -> bytes:
        """The events of one burst of replies, in order; empty bytes for none."""
        return b"".join(
            self._record(changes[i : i + _MAX_EVENTS_A_RECORD]) for i in range(0, len(changes), _MAX_EVENTS_A_RECORD)
        )

    def _record(self, changes: Iterable[Change]) -> bytes:
        parts = [_SEQUENCE.pack(self.next_sequence)]
        for kind, lo, hi, log_index in changes:
            self.next_sequence += 1
            if kind in _OPERATOR_KINDS:
                parts.append(_OPERATOR_EVENT.pack(kind, lo, hi, log_index))
            else:
                parts.append(_EVENT.pack(kind, lo, hi))
        body = b"".join(parts)
        return _PREFIX.pack(len(body), crc32(body, len(body))) + body


def first_sequence_of(burst: bytes) -> int:
    """The lowest number in bytes that an encoder made."""
    sequence: int = _SEQUENCE.unpack_from(burst, _PREFIX.size)[0]
    return sequence


def encode_header(epoch: int, first_sequence: int) -> bytes:
    """The first bytes of a segment."""
    header = _HEADER.pack(_MAGIC, VERSION, 0, epoch, first_sequence)
    return header + _CRC.pack(crc32(header))


def decode_segment(data: bytes) -> Segment:
    """Read a segment as far as it is good. Never raises, and never returns an event that was not written."""
    header, crc = data[: _HEADER.size], data[_HEADER.size : HEADER_BYTES]
    if len(data) < HEADER_BYTES:
        return Segment(0, 0, torn=True)
    if crc != _CRC.pack(crc32(header)):
        torn = not any(data)
        return Segment(0, 0, torn=torn, damage="" if torn else "the header's checksum does not match")
    magic, version, _, epoch, first_sequence = _HEADER.unpack(header)
    if magic != _MAGIC or version != VERSION:
        return Segment(0, 0, damage=f"written in a format this EdgeSocket does not know ({magic!r}, {version})")
    events: list[Event] = []
    position, expected = HEADER_BYTES, first_sequence
    while found := _record_at(data, position, expected):
        events += found
        position += _PREFIX.size + _PREFIX.unpack_from(data, position)[0]
        expected = events[-1].sequence + 1
    torn, damage = _judge_rest(data, position, expected)
    return Segment(epoch, first_sequence, events, torn, damage, position)


def _record_at(data: bytes, position: int, expected: int) -> list[Event]:
    """The events of the record at `position`; none where no good record with numbers from `expected` up is there."""
    start = position + _PREFIX.size
    if start > len(data):
        return []
    length, crc = _PREFIX.unpack_from(data, position)
    if not _MIN_BODY <= length <= min(_MAX_BODY, len(data) - start):
        return []
    (sequence,) = _SEQUENCE.unpack_from(data, start)
    if sequence < expected:
        return []
    body = memoryview(data)[start : start + length]
    return _decode_events(body, sequence) if crc32(body, length) == crc else []


def _decode_events(body: memoryview, sequence: int) -> list[Event]:
    events: list[Event] = []
    position = _SEQUENCE.size
    try:
        while position < len(body):
            if body[position] in _OPERATOR_KINDS:
                kind, lo, hi, log_index = _OPERATOR_EVENT.unpack_from(body, position)
                position += _OPERATOR_EVENT.size
            else:
                kind, lo, hi = _EVENT.unpack_from(body, position)
                log_index = 0
                position += _EVENT.size
            if not 1 <= lo <= hi <= MAX_BATCH_ID:
                return []
            events.append(Event(sequence + len(events), EventKind(kind), lo, hi, log_index))
    except (struct.error, ValueError):
        return []
    return events


def _judge_rest(data: bytes, position: int, expected: int) -> tuple[bool, str]:
    """Whether what comes after the last good record was never finished (torn), or was, and is damaged."""
    rest = len(data) - position
    if not any(data[position:]):
        # Nothing, or length that reached the disk without its bytes.
        return rest > 0, ""
    if _was_finished(data, position, rest, expected):
        return False, f"bytes from {position} on are damaged"
    return True, ""


def _was_finished(data: bytes, position: int, rest: int, expected: int) -> bool:
    if rest >= _PREFIX.size + _MAX_BODY:
        return True
    if any(_record_at(data, later, expected) for later in range(position + 1, len(data))):
        return True
    if rest < _PREFIX.size + _MIN_BODY:
        return False
    length, crc = _PREFIX.unpack_from(data, position)
    there = rest - _PREFIX.size
    # The last clause: a whole record of which only the length is wrong.
    return not there < length <= _MAX_BODY or crc32(data[position + _PREFIX.size :], there) == crc
