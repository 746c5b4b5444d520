"""What is done when a spool is opened.

It costs one look at each segment's name, size and last 44 bytes, and a reading of the newest segment: nothing depends
on how many records there are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgesocket.collector.spool.files import Files, SegmentBytes
from edgesocket.collector.spool.frames import HEADER_BYTES, Header, Hole, Place, decode_seal, encode_seal
from edgesocket.collector.spool.marks import merge_marks
from edgesocket.collector.spool.names import SegmentName, parse_segment_name
from edgesocket.collector.spool.options import FsyncPolicy
from edgesocket.collector.spool.shelf import Segment, Shelf
from edgesocket.collector.spool.survey import Survey, survey_newest, survey_older
from edgesocket.errors import CollectorError

REWRITTEN_SUFFIX = ".rewritten"
"""What a file is called that takes a segment's place when it is complete."""


@dataclass(slots=True)
class Recovered:
    """What opening found, beside the segments on the shelf.

    Attributes:
        marks: the newest durable ones.
        next_number: number of the next segment.
        torn_bytes: what was cut away.
        headless: the newest segment has not all marks, so older ones are needed for them.
    """

    marks: dict[str, str]
    next_number: int
    torn_bytes: int
    headless: bool


def recover(shelf: Shelf, now_us: int, given_from: int) -> Recovered:
    """Put the segments on the shelf, end the newest one where it really ends, and find the newest marks.

    Args:
        shelf: an empty one.
        now_us: Unix time in microseconds.
        given_from: first id of the segment that got ids last, as far as is known.

    Raises:
        CollectorError: the disk does not keep what the last process had written.
        OSError: the directory cannot be read.
    """
    names = _names(shelf)
    next_number = names[-1].number + 1 if names else 1
    for name in names:
        _put(shelf, name)
    for segment in shelf.segments[:-1]:
        if not segment.size:
            shelf.forget(segment, "it is empty")
    torn_bytes = 0
    newest: Survey | None = None
    while shelf.segments:
        newest, cut = _end_newest(shelf, shelf.segments[-1], now_us)
        torn_bytes += cut
        if newest is not None:
            break
    marks, ids_from = _marks(shelf, newest)
    shelf.ids_from = max(shelf.ids_from, ids_from)
    with_ids = shelf.newest_with_ids()
    if with_ids is None or (with_ids.first_id or 0) < given_from:
        shelf.ids_from = max(shelf.ids_from, now_us, given_from)
    shelf.files.sync_directory(shelf.directory)
    headless = bool(marks) and (newest is None or newest.head is None)
    return Recovered(marks, next_number, torn_bytes, headless)


def look_up_seal(files: Files, path: Path, name: SegmentName, size: int) -> Header | None:
    """The seal of a segment; None where it has none, or cannot be read."""
    if size < HEADER_BYTES:
        return None
    try:
        fd = files.open(path)
    except OSError:
        return None
    try:
        offset = size - HEADER_BYTES
        return decode_seal(files.read(fd, offset, HEADER_BYTES), name.salt, offset)
    except OSError:
        return None
    finally:
        files.close(fd)


def rewrite(files: Files, path: Path, write: Callable[[int], None]) -> None:
    """Put a new file in the place of another one, durably. Raises OSError; the old one is there then."""
    fresh = path.with_name(path.name + REWRITTEN_SUFFIX)
    files.unlink(fresh)
    fd = files.create(fresh)
    try:
        write(fd)
        files.sync(fd)
        files.rename(fresh, path)
    except OSError:
        with suppress(OSError):
            files.unlink(fresh)
        raise
    finally:
        files.close(fd)
    files.sync_directory(path.parent)


def _names(shelf: Shelf) -> list[SegmentName]:
    """The segments that fit together: numbers rise, those with ids come first, and their ids rise."""
    names = []
    for text in shelf.files.names(shelf.directory):
        if text.endswith(REWRITTEN_SUFFIX):
            with suppress(OSError):
                shelf.files.unlink(shelf.directory / text)
        name = parse_segment_name(text)
        if name is not None and not _is_leftover(shelf, name):
            names.append(name)
    names.sort(key=lambda name: (name.number, name.first_id is None, name.salt))
    last_with_ids = max((name.number for name in names if name.first_id is not None), default=0)
    fitting: list[SegmentName] = []
    highest = 0
    for name in names:
        if name.first_id is None:
            strange = name.number <= last_with_ids
        else:
            strange = name.first_id < highest
            highest = max(highest, name.first_id)
        if strange or (fitting and fitting[-1].number == name.number):
            path = shelf.directory / name.text
            fate = shelf.quarantine.keep_file(path, 0)
            shelf.notice(f"spool segment {name.text} does not fit between the others: {fate}")
        else:
            fitting.append(name)
    return fitting


def _is_leftover(shelf: Shelf, name: SegmentName) -> bool:
    """Remove an empty segment without ids: one whose first sync failed, and whose removal did not survive."""
    path = shelf.directory / name.text
    try:
        if name.first_id is not None or shelf.files.size(path):
            return False
        shelf.files.unlink(path)
    except OSError:
        return False
    return True


def _put(shelf: Shelf, name: SegmentName) -> None:
    path = shelf.directory / name.text
    try:
        size = shelf.files.size(path)
    except OSError as error:
        shelf.add(Segment(name, path, 0))
        shelf.forget(shelf.segments[-1], error.strerror or "unreadable")
        return
    segment = Segment(name, path, size, next_ordinal=None, visible=size)
    seal = look_up_seal(shelf.files, path, name, size)
    if seal is not None:
        segment.records, segment.next_ordinal, segment.visible_ordinal = seal.records, seal.ordinal, seal.ordinal
    shelf.add(segment)


def _end_newest(shelf: Shelf, segment: Segment, now_us: int) -> tuple[Survey | None, int]:
    """Make the newest segment fit to be built on. Returns what is in it (None: it is gone), and how much was cut."""
    try:
        data = SegmentBytes(shelf.files, segment.path)
    except OSError as error:
        shelf.forget(segment, error.strerror or "unreadable")
        return None, 0
    try:
        found = survey_newest(data.read, segment.name.salt, segment.size)
        if found.torn is not None:
            _report_torn(shelf, segment, found.torn, data)
    except OSError as error:
        shelf.forget(segment, error.strerror or "unreadable")
        return None, 0
    finally:
        data.close()
    cut = 0 if found.torn is None else found.torn.length
    if not found.end:
        if segment.first_id is not None:
            shelf.ids_from = max(shelf.ids_from, segment.first_id + segment.size, now_us)
        with suppress(OSError):
            shelf.files.unlink(segment.path)
        shelf.segments.remove(segment)
        return None, cut
    segment.records = found.records + found.lost_records
    segment.next_ordinal = _next_ordinal(segment, found, now_us)
    if found.seal is None or found.torn is not None:
        _seal(shelf, segment, found)
    segment.visible, segment.visible_ordinal = segment.size, segment.next_ordinal
    return found, cut


def _next_ordinal(segment: Segment, found: Survey, now_us: int) -> int:
    """Where its ordinals end, so that the ids behind are surely new.

    What was cut away may once have been durable, and sent (when the disk is what failed): as many records as it has
    bytes at most. And where a power cut can take records that were sent, nothing is left to count them by. The time is
    above every id that was ever given, as long as no more than a million records a second were.
    """
    if segment.first_id is None:
        return found.next_ordinal
    cut = 0 if found.torn is None else found.torn.length
    unsure = found.head is None or found.head.policy == FsyncPolicy.NEVER.value
    if cut or (unsure and found.seal is None):
        return max(found.next_ordinal + cut, now_us - segment.first_id)
    return found.next_ordinal


def _seal(shelf: Shelf, segment: Segment, found: Survey) -> None:
    """Cut what is torn, make the rest durable, and seal it."""
    files = shelf.files
    assert segment.next_ordinal is not None
    try:
        fd = files.open(segment.path, write=True)
    except OSError as error:
        raise CollectorError(f"spool segment {segment.path} cannot be written: {error.strerror}") from error
    end = found.end if found.seal is None else found.end - HEADER_BYTES
    try:
        if end < segment.size:
            files.truncate(fd, end)
            segment.size = end
        try:
            files.sync(fd)
        except OSError:
            # What the kernel could not write it calls clean from now on: only writing it again helps.
            data = files.read(fd, 0, segment.size)
            rewrite(files, segment.path, lambda fresh: files.write(fresh, [data]))
            files.close(fd)
            fd = files.open(segment.path, write=True)
        place = Place(segment.name.salt, segment.size, segment.next_ordinal, segment.size)
        seal = encode_seal(place, segment.records)
        try:
            files.write(fd, [seal])
            segment.size += len(seal)
            files.sync(fd)
        except OSError:  # no space: it is read through when it is looked at the next time
            with suppress(OSError):
                files.truncate(fd, end)
            segment.size = end
    except OSError as error:
        raise CollectorError(f"spool segment {segment.path} cannot be made durable: {error.strerror}") from error
    finally:
        files.close(fd)


def _report_torn(shelf: Shelf, segment: Segment, torn: Hole, data: SegmentBytes) -> None:
    fate = shelf.quarantine.keep_part(segment.name, torn, data.read)
    what = f"the last {torn.length} bytes of spool segment {segment.path.name}"
    shelf.notice(f"{what} were not written to their end ({torn.reason}) and are cut off: {fate}")


def _marks(shelf: Shelf, newest: Survey | None) -> tuple[dict[str, str], int]:
    """The newest marks, and above which ids were given. The head of one segment is enough, unless it is damaged."""
    later: list[dict[str, str]] = []
    ids_from = 1
    found = newest
    for segment in reversed(shelf.segments):
        if found is None:
            found = _survey(shelf, segment)
        if found is not None:
            later.append(found.marks)
            if found.head is not None:
                ids_from = found.head.ids_from
                break
        found = None
    marks: dict[str, str] = {}
    for some in reversed(later):
        merge_marks(marks, some)
    return marks, ids_from


def _survey(shelf: Shelf, segment: Segment) -> Survey | None:
    try:
        data = SegmentBytes(shelf.files, segment.path)
    except OSError:
        return None
    try:
        return survey_older(data.read, segment.name.salt, segment.size)
    except OSError:
        return None
    finally:
        data.close()
