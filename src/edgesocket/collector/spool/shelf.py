"""The segments of a spool: which there are, which ids they have, and how they go.

Order is by number. Those that have ids come first: ids are given in order, when the sender first comes to a segment,
and the next one's begin where the last one's end. So the newest segment with ids says where ids go on, and it is kept
until another one has ids, also when all its records are done.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgesocket.collector.spool.files import Files, SegmentBytes
from edgesocket.collector.spool.names import SEGMENTS, SegmentName
from edgesocket.collector.spool.quarantine import Quarantine
from edgesocket.collector.spool.survey import survey_older
from edgesocket.errors import CollectorError
from edgesocket.ids import MAX_BATCH_ID


@dataclass(slots=True, eq=False)
class Segment:
    """One segment file, as far as it is known. Guarded by the shelf's lock.

    Attributes:
        name: as it is durably called.
        path: where it is.
        size: its bytes.
        records: those that can be read, as far as that is known.
        next_ordinal: one above its highest ordinal; None: not known before it has been read.
        visible: so many of its bytes may be read.
        visible_ordinal: the `next_ordinal` of that part.
        finished: nothing will be written to it any more.
        index: ordinals and offsets of some frames, rising; the reader's.
        holes: offsets of holes that have been reported; the reader's.
    """

    name: SegmentName
    path: Path
    size: int
    records: int = 0
    next_ordinal: int | None = 0
    visible: int = 0
    visible_ordinal: int = 0
    finished: bool = True
    index: list[tuple[int, int]] = field(default_factory=list)
    holes: set[int] = field(default_factory=set)

    @property
    def first_id(self) -> int | None:
        """The id of its record with ordinal 0, once ids are given."""
        return self.name.first_id

    @property
    def next_id(self) -> int | None:
        """The id behind its last; None: not known yet."""
        return None if self.first_id is None or self.next_ordinal is None else self.first_id + self.next_ordinal


class Shelf:
    """See the module's text. Methods take the lock themselves unless they say otherwise.

    Attributes:
        lock: guards everything here; not held while bytes are written or synced.
        segments: in order.
        ids_from: ids go on at this or above, whatever the segments say.
        lost_records: records that could not be read, as far as their number is known.
        dropped_oldest: records that were dropped with their segments.
        notice: is told, in words, what was lost.
        on_given: is told the first id of each segment that gets ids.
    """

    def __init__(self, files: Files, spool: Path, quarantine: Quarantine, on_notice: Callable[[str], None]) -> None:
        self.lock = threading.RLock()
        self.directory = spool / SEGMENTS
        self.files = files
        self.quarantine = quarantine
        self.notice = on_notice
        self.on_given: Callable[[int], None] = lambda _: None
        self.segments: list[Segment] = []
        self.ids_from = 1
        self.lost_records = 0
        self.dropped_oldest = 0
        self._done_below = 0

    @property
    def bytes(self) -> int:
        """The size of all segment files."""
        with self.lock:
            return sum(segment.size for segment in self.segments)

    @property
    def records(self) -> int:
        """Records that are not done, as far as their number is known."""
        with self.lock:
            count = 0
            for segment in self.segments:
                first_id = segment.first_id
                done = 0 if first_id is None else max(0, self._done_below - first_id)
                count += max(0, segment.records - done)
            return count

    def newest_with_ids(self) -> Segment | None:
        """The last one that has ids. Call with the lock."""
        return next((segment for segment in reversed(self.segments) if segment.first_id is not None), None)

    def ids(self) -> tuple[int, int]:
        """Lowest id that is kept and not done, and the one above every id that a durable record has."""
        with self.lock:
            newest = self.newest_with_ids()
            if newest is None or newest.first_id is None:
                return self.ids_from, self.ids_from
            above = newest.first_id + newest.visible_ordinal
            first = self.segments[0].first_id
            return min(above, max(self._done_below, above if first is None else first)), above

    def add(self, segment: Segment) -> None:
        """Put a new segment behind the others."""
        with self.lock:
            self.segments.append(segment)

    def view(self, segment: Segment) -> tuple[int, bool]:
        """How many of its bytes may be read, and whether that is all there will ever be."""
        with self.lock:
            return segment.visible, segment.finished

    def publish(self, segment: Segment) -> None:
        """Let everything that was written be read."""
        with self.lock:
            segment.visible, segment.visible_ordinal = segment.size, segment.next_ordinal or 0

    def find(self, batch_id: int) -> Segment | None:
        """Where to look for an id: the last segment with ids whose first is not above it, or the first one at all."""
        with self.lock:
            firsts = [segment.first_id for segment in self.segments if segment.first_id is not None]
            if not firsts:
                return self.give_ids(None)
            found = self.segments[max(0, bisect_right(firsts, batch_id) - 1)]
            if found.finished and found.next_id is not None and batch_id >= found.next_id:
                return self.after(found)
            return found

    def after(self, segment: Segment) -> Segment | None:
        """The segment behind one that is finished and wholly known, with ids; None where there is none, yet.

        Raises:
            CollectorError: there are no ids left.
            OSError: its ids could not be made durable. Ask again.
        """
        with self.lock:
            following = next((one for one in self.segments if one.name.number > segment.name.number), None)
            if following is None or following.first_id is not None:
                return following
            return self.give_ids(segment)

    def give_ids(self, behind: Segment | None) -> Segment | None:
        """Give ids to the first segment that has none, durably; they go on where those of `behind` end.

        Raises as `after`.
        """
        with self.lock:
            segment = next((one for one in self.segments if one.first_id is None), None)
            if segment is None or not segment.visible:
                return None
            name = segment.name.with_ids(self.next_first_id(behind))
            path = self.directory / name.text
            if segment.path != path:
                self.files.rename(segment.path, path)
                segment.path = path
            self.files.sync_directory(self.directory)
            segment.name = name
            self.on_given(name.first_id or 0)
            return segment

    def next_first_id(self, behind: Segment | None) -> int:
        """Where the ids of the next segment begin. Raises CollectorError where there are none left."""
        first_id = max(self.ids_from, 0 if behind is None else behind.next_id or 0)
        if first_id > MAX_BATCH_ID:
            raise CollectorError(
                f"batch ids have reached their end ({MAX_BATCH_ID}): send what is left, and begin with a new spool "
                "and an ingress that has no state"
            )
        return first_id

    def probable_first_id(self, segment: Segment) -> int | None:
        """The first id of the newest segment; before it has one, what it will be if all goes well, if that is known."""
        with self.lock:
            if segment.first_id is not None or len(self.segments) < 2 or self.segments[-1] is not segment:
                return segment.first_id
            return self.segments[-2].next_id

    def done(self, below_id: int) -> None:
        """Remove the segments whose records are all done, and that do not say where ids go on.

        Raises OSError where a file cannot be removed; call it again then.
        """
        with self.lock:
            self._done_below = max(self._done_below, below_id)
            newest = self.newest_with_ids()
            while self.segments and newest is not None and self.segments[0] is not newest:
                oldest, following = self.segments[0], self.segments[1]
                end = oldest.next_id if oldest.next_id is not None else following.first_id
                if end is None or end > self._done_below:
                    break
                # Not synced: a file that comes back after a power cut is confirmed a second time.
                self.files.unlink(oldest.path)
                self.segments.remove(oldest)

    def is_done(self, segment: Segment) -> bool:
        """Whether all its records are done, so that it is only kept for its marks and ids."""
        with self.lock:
            return segment.next_id is not None and segment.next_id <= self._done_below

    def can_drop(self) -> bool:
        """Whether there is a finished segment without ids."""
        with self.lock:
            return any(one.first_id is None and one.finished for one in self.segments)

    def drop_oldest(self) -> int | None:
        """Remove the oldest finished segment without ids. Returns how many records that cost; None: there is none.

        Raises OSError where it cannot be removed.
        """
        with self.lock:
            victim = next((one for one in self.segments if one.first_id is None and one.finished), None)
            if victim is None:
                return None
            records = victim.records if victim.next_ordinal is not None else self._count(victim)
            self.files.unlink(victim.path)
            self.segments.remove(victim)
            self.dropped_oldest += records
            return records

    def _count(self, segment: Segment) -> int:
        try:
            data = SegmentBytes(self.files, segment.path)
        except OSError:
            return segment.records
        try:
            return survey_older(data.read, segment.name.salt, segment.size).records
        finally:
            data.close()

    def forget(self, segment: Segment, reason: str) -> None:
        """Do without a segment that cannot be read: set its file aside, and never use its ids for anything else."""
        with self.lock:
            if segment not in self.segments:
                return
            known = segment.next_ordinal if segment.next_ordinal is not None else segment.size
            if segment.first_id is not None:
                self.ids_from = max(self.ids_from, segment.first_id + known)
            self.lost_records += segment.records
            there = segment.path.exists() or segment.path.is_symlink()
            fate = self.quarantine.keep_file(segment.path, segment.size) if there else "it is gone"
            self.segments.remove(segment)
            self.notice(f"spool segment {segment.path.name} cannot be read ({reason}): {fate}")
