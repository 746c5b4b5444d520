"""Appends frames to the newest segment, and makes them durable.

What can go wrong, and what is done about it:

- *A write fails* (no space, or worse): what it left is cut off again. The append did not happen and may be repeated.
- *A sync fails*: the kernel reports a lost write once, and calls the page clean. So the file is never trusted beyond
  its last good sync: it is cut there, and everything since, which is kept in memory until it is durable, is written to
  a new segment. The records are in the spool meanwhile; whether they are durable is in doubt, and `sync` says so.
- *A crash*: no process appends to a segment of another one, so what a torn end leaves is never written behind.

The head of a new segment has all marks that are durable by then, and never more: it may become durable before the
frames behind it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from edgesocket.collector.spool.frames import (
    HEADER_BYTES,
    Piece,
    Place,
    append_bytes,
    cut_pieces,
    encode_append,
    encode_head,
    encode_seal,
)
from edgesocket.collector.spool.marks import encode_marks, merge_marks, size_of_marks
from edgesocket.collector.spool.names import SegmentName
from edgesocket.collector.spool.options import FsyncPolicy, SpoolOptions
from edgesocket.collector.spool.recent import Recent
from edgesocket.collector.spool.shelf import Segment, Shelf
from edgesocket.collector.spool.survey import HeadInfo
from edgesocket.protocol.ended_lines import EndedLines

UNSYNCED_LIMIT_BYTES = 16 * 1024 * 1024
"""So much is kept in memory until it is synced; more is synced at once."""
_HEAD_BYTES = HEADER_BYTES + 128
"""At most so much is a head without marks."""


@dataclass(slots=True)
class _Active:
    """The segment that is written to."""

    segment: Segment
    fd: int
    head_bytes: int
    named: bool = False
    synced: int = 0
    synced_ordinal: int = 0
    synced_records: int = 0


class Writer:
    """One thread at a time.

    Attributes:
        marks: the marks that are durable, or that replaced them without a record (see `note`).
    """

    def __init__(
        self, shelf: Shelf, recent: Recent, options: SpoolOptions, marks: Mapping[str, str], next_number: int
    ) -> None:
        self._shelf = shelf
        self._recent = recent
        self._files = shelf.files
        self._options = options
        self._next_number = next_number
        self._active: _Active | None = None
        self._unsynced: list[tuple[Sequence[bytes], Mapping[str, str]]] = []
        self._unsynced_bytes = 0
        self._unsynced_marks_bytes = 0
        self._noted: dict[str, str] = {}
        self._marks_size = size_of_marks(marks)
        self._distrusted = False
        self._cut_due = False
        self.marks = dict(marks)

    @property
    def unsynced_records(self) -> int:
        """Records that are not durable yet."""
        return sum(len(lines) for lines, _ in list(self._unsynced))

    @property
    def reserve_bytes(self) -> int:
        """What has to stay free so that this segment can always be ended and another one begun."""
        return 2 * HEADER_BYTES + _HEAD_BYTES + self._marks_size + self._unsynced_marks_bytes

    def cost(self, pieces: Sequence[Piece], marks: bytes) -> int:
        """How many bytes an append makes the files larger, at most."""
        need = append_bytes(pieces, marks)
        active = self._active
        return need + self.reserve_bytes if active is None or self._is_full(active, need) else need

    def prepare(self, lines: Sequence[bytes], marks: Mapping[str, str]) -> tuple[list[Piece], bytes]:
        """What `append` writes for these. Raises ValueError for what no spool takes."""
        return cut_pieces(lines), encode_marks({**self._noted, **marks} if self._noted else marks)

    def note(self, marks: Mapping[str, str]) -> None:
        """Let marks go with the next append that is made."""
        for name, text in marks.items():
            self._noted.pop(name, None)
            self._noted[name] = text

    def append(
        self, lines: Sequence[bytes], marks: Mapping[str, str], prepared: tuple[list[Piece], bytes] | None = None
    ) -> None:
        """Write records and marks behind the others. Room is the caller's business.

        Raises:
            OSError: the files are as they were; append again.
        """
        self.settle()
        pieces, encoded = prepared or self.prepare(lines, marks)
        if self._unsynced_bytes > UNSYNCED_LIMIT_BYTES:
            self.sync()
        active = self._active
        if active is not None and self._is_full(active, append_bytes(pieces, encoded)):
            self.finish()
        active = self._active or self.begin()
        if self._noted:
            marks = {**self._noted, **marks}
        self._write(active, pieces, encoded, lines)
        self._noted = {}
        if self._options.fsync is FsyncPolicy.NEVER:
            self._marks_are(marks)
            self._shelf.publish(active.segment)
        else:
            self._unsynced.append((lines, marks))
            self._unsynced_bytes += append_bytes(pieces, encoded)
            self._unsynced_marks_bytes += len(encoded)

    def take_back(self) -> None:
        """Undo the last append, whose sync has just failed."""
        lines, marks = self._unsynced.pop()
        encoded = encode_marks(marks)
        self._unsynced_bytes -= append_bytes(cut_pieces(lines), encoded)
        self._unsynced_marks_bytes -= len(encoded)

    def sync(self) -> None:
        """Make everything appended so far durable, and let it be read.

        Raises:
            OSError: it is not. It is still in the spool; sync again.
        """
        self.settle()
        active = self._active
        if active is None or not self._unsynced:
            return
        self._sync(active)
        for _, marks in self._unsynced:
            self._marks_are(marks)
        self._unsynced.clear()
        self._unsynced_bytes = self._unsynced_marks_bytes = 0
        self._shelf.publish(active.segment)

    def settle(self) -> None:
        """Bring the files in line again after a failure. Raises OSError while that cannot be done."""
        active = self._active
        if self._cut_due and active is not None:
            self._files.truncate(active.fd, active.segment.size)
        self._cut_due = False
        if not self._distrusted:
            return
        if active is not None:
            self._cut_to_durable(active)
        if self._unsynced:
            fresh = self.begin()  # if its frames cannot all be written, it is cut like the one before
            for lines, marks in self._unsynced:
                self._write(fresh, cut_pieces(lines), encode_marks(marks), lines)
        self._distrusted = False

    def _cut_to_durable(self, active: _Active) -> None:
        # The cut has to be durable before the same records are written elsewhere, or they would come back twice.
        self._files.truncate(active.fd, active.synced)
        self._files.sync(active.fd)
        self._recent.forget(active.segment, active.synced)
        if not active.synced:
            self._discard(active)
            return
        with self._shelf.lock:
            segment = active.segment
            segment.size, segment.next_ordinal = active.synced, active.synced_ordinal
            segment.records = active.synced_records
        self._end(active)

    def begin(self, first_id: int | None = None) -> _Active:
        """Begin a segment. Raises OSError; there is none then."""
        name = SegmentName(self._next_number, secrets.randbits(32), first_id)
        path = self._shelf.directory / name.text
        head = encode_head(name.salt, encode_marks(self.marks), self._head_info().to_bytes())
        fd = self._files.create(path)
        active = _Active(Segment(name, path, len(head), finished=False), fd, len(head))
        self._shelf.add(active.segment)
        self._active = active
        self._next_number += 1
        try:
            self._files.write(fd, [head])
        except OSError:
            self._discard(active)
            raise
        return active

    def finish(self) -> None:
        """End the segment that is written to; nothing happens where there is none. Raises OSError as `sync`."""
        if self._options.fsync is not FsyncPolicy.NEVER:
            self.sync()
        if self._active is not None:
            self._end(self._active)

    def finish_droppable(self) -> None:
        """End the segment that is written to, if its records have no ids: it may be dropped. Raises as `finish`."""
        active = self._active
        if active is not None and active.segment.records and active.segment.first_id is None:
            self.finish()

    def secure_marks(self) -> None:
        """See to it that the newest segment durably has all marks, so that older ones may go.

        Raises:
            OSError: it has not.
        """
        self.sync()
        active = self._active or self.begin()
        if not active.named:
            self._sync(active)

    def replace_done(self) -> bool:
        """Begin a new segment, with ids, where all records of the newest one are done; then the old one can go.

        Returns whether it did.

        Raises:
            OSError: there is no new one.
        """
        with self._shelf.lock:
            newest = self._shelf.segments[-1] if self._shelf.segments else None
            if newest is None or self._unsynced or not newest.records or not self._shelf.is_done(newest):
                return False
            first_id = self._shelf.next_first_id(newest)
        self.finish()
        active = self.begin(first_id)
        try:
            self._sync(active)
        except OSError:
            self._discard(active)
            raise
        self._shelf.publish(active.segment)
        self._shelf.on_given(first_id)
        return True

    def close(self) -> None:
        """Make everything durable, whatever the policy, and release the files. Raises OSError when it is not."""
        active = self._active
        try:
            self.sync()
            active = self._active
            if active is not None and self._options.fsync is FsyncPolicy.NEVER:
                self._sync(active)
            if active is not None:
                self._end(active)
        finally:
            if self._active is not None:
                self._files.close(self._active.fd)
                self._active = None

    def _is_full(self, active: _Active, need: int) -> bool:
        written = active.segment.size - active.head_bytes
        return written > 0 and written + need > self._options.segment_limit

    def _write(self, active: _Active, pieces: Sequence[Piece], marks: bytes, lines: Sequence[bytes]) -> None:
        segment = active.segment
        ordinal = segment.next_ordinal or 0
        buffers = encode_append(pieces, marks, Place(segment.name.salt, segment.size, ordinal, active.synced))
        try:
            self._files.write(active.fd, buffers)
        except OSError:
            try:
                self._files.truncate(active.fd, segment.size)
            except OSError:
                self._cut_due = True
            raise
        offset = segment.size
        with self._shelf.lock:
            segment.size += append_bytes(pieces, marks)
            segment.next_ordinal = ordinal + len(lines)
            segment.records += len(lines)
        kept = lines if isinstance(lines, EndedLines) else list(lines)  # the caller may change its list later
        first_id = self._shelf.probable_first_id(segment)
        self._recent.put(segment, offset, ordinal, kept, None if first_id is None else first_id + ordinal)

    def _sync(self, active: _Active) -> None:
        segment = active.segment
        try:
            self._files.sync(active.fd)
            if not active.named:
                self._files.sync_directory(self._shelf.directory)
                active.named = True
        except OSError:
            self._distrusted = self._options.fsync is not FsyncPolicy.NEVER
            raise
        active.synced, active.synced_ordinal = segment.size, segment.next_ordinal or 0
        active.synced_records = segment.records

    def _end(self, active: _Active) -> None:
        """Seal it where that is possible: a segment without a seal is only slower to look at."""
        segment = active.segment
        place = Place(segment.name.salt, segment.size, segment.next_ordinal or 0, active.synced)
        seal = encode_seal(place, segment.records)
        try:
            self._files.write(active.fd, [seal])
        except OSError:
            with suppress(OSError):
                self._files.truncate(active.fd, segment.size)
        else:
            with self._shelf.lock:
                segment.size += len(seal)
            if active.synced:  # else a power cut could leave half a seal, which looks like damage
                with suppress(OSError):
                    self._files.sync(active.fd)
        with self._shelf.lock:
            self._shelf.publish(segment)
            segment.finished = True
        self._active = None
        self._files.close(active.fd)

    def _discard(self, active: _Active) -> None:
        """Take away a segment that was just begun, and nobody has seen."""
        with self._shelf.lock:
            self._shelf.segments.remove(active.segment)
        self._active = None
        self._files.close(active.fd)
        with suppress(OSError):
            self._files.unlink(active.segment.path)

    def _marks_are(self, marks: Mapping[str, str]) -> None:
        self._marks_size += merge_marks(self.marks, marks)

    def _head_info(self) -> HeadInfo:
        return HeadInfo(self._shelf.ids()[1], self._options.fsync.value)
