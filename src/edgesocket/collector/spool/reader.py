"""Finds the records behind ids. The sender's thread only.

What was appended a moment ago is taken from memory. Else reading in order costs one read of the file for 256 KiB, and
a split a frame. A step back looks up the nearest place in an index (one entry for 64 KiB), and reads from there.

Damage that is met on the way is set aside and counted, once, and reading goes on behind it: ids that are lost there are
simply not offered.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from edgesocket.collector.source import BatchRun
from edgesocket.collector.spool.files import SegmentBytes
from edgesocket.collector.spool.frames import Frame, FrameKind, Hole, walk
from edgesocket.collector.spool.recent import Recent, RecentAppend
from edgesocket.collector.spool.shelf import Segment, Shelf
from edgesocket.collector.spool.survey import lost_between
from edgesocket.errors import CollectorError
from edgesocket.ids import MAX_BATCH_ID, IdRanges
from edgesocket.protocol.ended_lines import fitting, joined_lines, payload_bytes

INDEX_BYTES = 64 * 1024
"""How far apart the places are that are remembered."""

_UNREADABLE = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.EIO, errno.ENXIO})


class Reader:
    """See the module's text."""

    def __init__(self, shelf: Shelf, recent: Recent, spent: IdRanges) -> None:
        """Args: the segments, what is still in memory of them, and ids that are never offered (dead letters)."""
        self._shelf = shelf
        self._recent = recent
        self._spent = spent
        self._segment: Segment | None = None
        self._data: SegmentBytes | None = None
        self._walk: Iterator[Frame | Hole] = iter(())
        self._offset = 0
        self._ordinal = 0
        self._hole: Hole | None = None
        self._from = 0  # ids from here up to the frame are not in the segment
        self._first = 0
        self._lines: Sequence[bytes] = ()

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        """As `BatchSource.read`. Raises OSError and CollectorError as `Shelf.after`."""
        parts: list[Sequence[bytes]] = []
        first = count = 0
        wanted = max(at_least_id, 1)
        while count < most_batches and self._come_to(wanted):
            run_first, lines = self._offered(wanted, most_batches - count)
            if not lines:
                wanted = run_first
                continue
            total = payload_bytes(lines)
            if parts and (run_first != first + count or total > most_bytes):
                break  # what was appended together stays together, where it can: nothing has to be taken apart
            if total > most_bytes:
                lines = lines[: fitting(lines, most_bytes) or 1]
            first = first or run_first
            parts.append(lines)
            count += len(lines)
            most_bytes -= total
            wanted = first + count
            if most_bytes <= 0 or wanted > MAX_BATCH_ID:
                break
        return BatchRun(first, joined_lines(parts)) if parts else None

    def close(self) -> None:
        """Let go of the file."""
        if self._data is not None:
            self._data.close()
        self._data, self._segment, self._lines = None, None, ()

    def _offered(self, wanted: int, most: int) -> tuple[int, Sequence[bytes]]:
        """Records of the current frame from an id on; none: go on from the id that is returned."""
        start = max(wanted - self._first, 0)
        first = self._first + start
        lines = self._lines[start : start + most]
        if first + len(lines) - 1 > MAX_BATCH_ID:
            lines = lines[: max(0, MAX_BATCH_ID - first + 1)]
            if not lines:
                raise CollectorError(f"batch ids have reached their end ({MAX_BATCH_ID}): begin with a new spool")
        if self._spent:
            free = self._spent.missing(first, first + len(lines) - 1)
            if not free:
                return first + len(lines), ()
            lines = lines[free[0][0] - first : free[0][1] - first + 1]
            first = free[0][0]
        return first, lines

    def _come_to(self, wanted: int) -> bool:
        """Make the current frame the first one with records at or above an id. False: there is none, yet."""
        segment = self._segment
        if segment is None or wanted < self._from or self._is_behind(segment, wanted):
            segment = self._shelf.find(wanted)
            if segment is None:
                return False
            self._enter(segment, wanted)
        while not self._lines or wanted >= self._first + len(self._lines):
            if not self._next_frame():
                return False
        return True

    def _is_behind(self, segment: Segment, wanted: int) -> bool:
        return segment.finished and segment.next_id is not None and wanted >= segment.next_id

    def _enter(self, segment: Segment | None, wanted: int) -> None:
        """Go to the place in a segment from which an id is found reading on; a segment that cannot be read is left."""
        while segment is not None and segment is not self._segment:
            self.close()
            try:
                self._data = SegmentBytes(self._shelf.files, segment.path)
                break
            except OSError as error:
                if error.errno not in _UNREADABLE:
                    raise
                self._shelf.forget(segment, error.strerror or "unreadable")
            segment = self._shelf.find(wanted)
        self._segment = segment
        self._lines = ()
        if segment is None or segment.first_id is None:
            return
        ordinal = max(0, wanted - segment.first_id)
        place = bisect_right(segment.index, (ordinal, 1 << 63)) - 1
        self._ordinal, self._offset = segment.index[place] if place >= 0 else (0, 0)
        self._from = segment.first_id + self._ordinal
        self._walk = iter(())
        self._hole = None

    def _next_frame(self) -> bool:
        """Go to the next frame that has records, in this segment or the next one. False: there is none, yet."""
        while True:
            segment = self._segment
            if segment is None:
                return False
            limit, finished = self._shelf.view(segment)
            recent = self._recent.take(segment, self._offset, limit) if self._hole is None else None
            if recent is not None:
                if self._take_recent(segment, recent):
                    return True
                continue
            item = next(self._walk, None)
            if item is None:
                if self._offset < limit:
                    assert self._data is not None
                    self._walk = walk(self._data.read, segment.name.salt, self._offset, limit)
                    continue
                if not finished or not self._next_segment(segment):
                    return False
            elif isinstance(item, Hole):
                self._take_hole(segment, item)
            elif self._take_frame(segment, item):
                return True

    def _take_frame(self, segment: Segment, frame: Frame) -> bool:
        header = frame.header
        self._offset = header.end
        if header.kind == FrameKind.HEAD:
            return False
        if self._hole is not None:
            self._count_lost(segment, self._hole, lost_between(header.ordinal, self._ordinal, self._hole))
        self._hole = None
        lines = () if header.kind == FrameKind.SEAL else frame.lines()
        return self._take_lines(segment, header.offset, header.ordinal, lines)

    def _take_recent(self, segment: Segment, append: RecentAppend) -> bool:
        self._walk = iter(())
        self._offset = append.end
        return self._take_lines(segment, append.offset, append.ordinal, append.lines)

    def _take_lines(self, segment: Segment, offset: int, ordinal: int, lines: Sequence[bytes]) -> bool:
        """Make these the current records, if there are any."""
        assert segment.first_id is not None
        self._from = segment.first_id + self._ordinal
        self._ordinal = ordinal + len(lines)
        if not lines:
            return False
        index = segment.index
        if not index or offset >= index[-1][1] + INDEX_BYTES:
            index.append((ordinal, offset))
        self._first, self._lines = segment.first_id + ordinal, lines
        return True

    def _take_hole(self, segment: Segment, hole: Hole) -> None:
        self._offset = hole.end
        self._hole = hole
        if hole.offset in segment.holes:
            return
        assert self._data is not None
        fate = self._shelf.quarantine.keep_part(segment.name, hole, self._data.read)
        where = f"bytes {hole.offset} to {hole.end} of spool segment {segment.path.name}"
        self._shelf.notice(f"{where} are damaged ({hole.reason}): {fate}")

    def _count_lost(self, segment: Segment, hole: Hole, lost: int) -> None:
        if hole.offset in segment.holes:
            return
        segment.holes.add(hole.offset)
        with self._shelf.lock:
            self._shelf.lost_records += lost
            segment.records = max(0, segment.records - lost)
        if lost:
            first = (segment.first_id or 0) + self._ordinal
            self._shelf.notice(f"{lost} records are lost there: ids {first} to {first + lost - 1} will not be sent")

    def _next_segment(self, segment: Segment) -> bool:
        if segment.next_ordinal is None:
            behind = self._hole.length if self._hole is not None else 0  # it may have held so many
            with self._shelf.lock:
                segment.next_ordinal = segment.visible_ordinal = self._ordinal + behind
        if self._hole is not None:
            segment.holes.add(self._hole.offset)
        following = self._shelf.after(segment)
        if following is None:
            return False
        assert following.first_id is not None
        self._enter(following, following.first_id)
        return True
