"""Makes a damaged spool whole, while no agent uses it.

Opening a spool does what is needed to go on. This does the rest: damaged parts are taken out of the segments, so that
nothing meets them again. Ids stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgesocket.collector.spool.files import Files, SegmentBytes, SpoolLock
from edgesocket.collector.spool.frames import (
    HEADER_BYTES,
    Frame,
    FrameKind,
    Hole,
    Place,
    encode_header,
    encode_seal,
    walk,
)
from edgesocket.collector.spool.letter_box import letter_files, read_letters
from edgesocket.collector.spool.letters import DeadLetter
from edgesocket.collector.spool.names import DEAD_LETTERS, LOCK, letters_name
from edgesocket.collector.spool.options import MIB, SpoolOptions
from edgesocket.collector.spool.quarantine import Quarantine
from edgesocket.collector.spool.recent import Recent
from edgesocket.collector.spool.recovery import recover, rewrite
from edgesocket.collector.spool.shelf import Segment, Shelf
from edgesocket.collector.spool.spool import Spool
from edgesocket.collector.spool.survey import Survey, survey_older
from edgesocket.collector.spool.writer import Writer
from edgesocket.errors import CollectorError

RESEND_BYTES = 4 * MIB
"""So much is appended between two syncs."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done.

    Attributes:
        segments: how many were written anew.
        lost_records: records that were in the damaged parts, as far as that is known.
        torn_bytes: cut from the end of the newest.
    """

    segments: int
    lost_records: int
    torn_bytes: int


def repair(directory: Path, now_us: int, on_notice: Callable[[str], None]) -> Repaired:
    """Do what opening does, and take damaged parts out of all segments.

    Raises:
        CollectorError: an agent uses it, or the disk does not work.
    """
    files = Files()
    lock = SpoolLock(directory / LOCK)
    try:
        quarantine = Quarantine(files, directory, SpoolOptions().damaged_bytes)
        shelf = Shelf(files, directory, quarantine, on_notice)
        shelf.on_given = lock.note_given
        found = recover(shelf, now_us, lock.given_from)
        if found.headless:
            writer = Writer(shelf, Recent(0), SpoolOptions(), found.marks, found.next_number)
            writer.secure_marks()
            writer.close()
        written = sum(_repair_segment(shelf, segment) for segment in list(shelf.segments))
        return Repaired(written, shelf.lost_records, found.torn_bytes)
    except OSError as error:
        raise CollectorError(f"the spool {directory} cannot be repaired: {error}") from error
    finally:
        lock.release()


def take_dead_letters(directory: Path, take: Callable[[DeadLetter], None]) -> None:
    """Hand over all dead letters, oldest first, and then remove them.

    Raises:
        CollectorError: an agent uses the spool, or the disk does not work.
    """
    lock = SpoolLock(directory / LOCK)
    try:
        numbers = letter_files(Files(), directory / DEAD_LETTERS)
        for number in numbers:
            for letter in read_letters(directory / DEAD_LETTERS / letters_name(number)):
                take(letter)
        _remove(directory, numbers)
    except OSError as error:
        raise CollectorError(f"the dead letters in {directory} cannot be removed: {error}") from error
    finally:
        lock.release()


def resend_dead_letters(directory: Path) -> int:
    """Append the dead letters again, as new records with new ids, and remove them. Returns how many.

    A crash in between may leave them in both places.

    Raises:
        CollectorError: an agent uses the spool, it is full, or the disk does not work.
    """
    count = 0
    try:
        spool = Spool.open(directory)
        try:
            numbers = letter_files(Files(), directory / DEAD_LETTERS)
            for payloads in _payloads(directory, numbers):
                spool.append(payloads)
                spool.sync(0.0)
                count += len(payloads)
            _remove(directory, numbers)
        finally:
            spool.close()
    except OSError as error:
        raise CollectorError(f"the dead letters in {directory} cannot be appended again: {error}") from error
    return count


def _remove(directory: Path, numbers: list[int]) -> None:
    files = Files()
    for number in numbers:
        files.unlink(directory / DEAD_LETTERS / letters_name(number))
    if numbers:
        files.sync_directory(directory / DEAD_LETTERS)


def _payloads(directory: Path, numbers: list[int]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for number in numbers:
        for letter in read_letters(directory / DEAD_LETTERS / letters_name(number)):
            some.append(letter.payload)
            size += len(letter.payload) + 1
            if size >= RESEND_BYTES:
                yield some
                some, size = [], 0
    if some:
        yield some


def _repair_segment(shelf: Shelf, segment: Segment) -> bool:
    try:
        data = SegmentBytes(shelf.files, segment.path)
    except OSError as error:
        shelf.forget(segment, error.strerror or "unreadable")
        return False
    try:
        found = survey_older(data.read, segment.name.salt, segment.size)
        if not found.holes:
            return False
        shelf.lost_records += found.lost_records
        for hole in found.holes:
            fate = shelf.quarantine.keep_part(segment.name, hole, data.read)
            shelf.notice(f"bytes {hole.offset} to {hole.end} of {segment.path.name} ({hole.reason}): {fate}")
        frames = walk(data.read, segment.name.salt, 0, segment.size)
        rewrite(shelf.files, segment.path, lambda fd: _write_good(shelf.files, fd, segment.name.salt, frames, found))
        return True
    finally:
        data.close()


def _write_good(files: Files, fd: int, salt: int, frames: Iterator[Frame | Hole], found: Survey) -> None:
    offset = 0
    for item in frames:
        if isinstance(item, Hole) or item.header.kind == FrameKind.SEAL:
            continue
        old = item.header
        place = Place(salt, offset, old.ordinal, offset)
        header = encode_header(FrameKind(old.kind), place, old.records, item.marks_data, item.joined, old.flags)
        files.write(fd, [header, item.body])
        offset += HEADER_BYTES + len(item.body)
    files.write(fd, [encode_seal(Place(salt, offset, found.next_ordinal, offset), found.records)])
