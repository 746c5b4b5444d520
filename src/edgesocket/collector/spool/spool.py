"""The spool: records wait here, on disk, until they are confirmed.

One thread appends and syncs, one reads (it is a `BatchSource`); any may ask for the state. What is kept in memory does
not grow with the records that wait: it is a few hundred bytes a segment.

Guarantees:

- What `sync` has made durable (see `FsyncPolicy`) is offered to the sender, in order, each record once and always under
  the same id, until `done` says that it may go; through crashes, power cuts and full disks.
- Marks become durable together with the records they came with, never before.
- Damage costs the records it hits, no others: they are counted and named, and the parts are set aside.
- Records that have an id are never dropped. The segment files are never larger than `max_bytes` together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from edgesocket.collector.source import BatchRun
from edgesocket.collector.spool.files import Files, SpoolLock
from edgesocket.collector.spool.frames import Piece
from edgesocket.collector.spool.letter_box import LetterBox
from edgesocket.collector.spool.letters import DeadLetter
from edgesocket.collector.spool.names import LOCK, SEGMENTS
from edgesocket.collector.spool.note import Note
from edgesocket.collector.spool.options import AppendResult, FsyncPolicy, SpoolOptions, SpoolState, WhenFull
from edgesocket.collector.spool.quarantine import Quarantine
from edgesocket.collector.spool.reader import Reader
from edgesocket.collector.spool.recent import Recent
from edgesocket.collector.spool.recovery import recover
from edgesocket.collector.spool.shelf import Shelf
from edgesocket.collector.spool.writer import Writer
from edgesocket.errors import CollectorError, SpoolFullError
from edgesocket.protocol.replies import Reply

__all__ = ["Spool", "SpoolFullError"]

REPLACE_BYTES = 256 * 1024
"""A newest segment of this size (or an eighth of the spool) goes as soon as all its records are done.

A smaller one waits for the next one, or for an append that needs its room."""


class Spool:
    """See the module's text. Made by `open`."""

    def __init__(
        self, directory: Path, options: SpoolOptions, now_us: int, files: Files, on_notice: Callable[[str], None]
    ) -> None:
        self._options = options
        self._now_us = _now_us
        self._writing = threading.Lock()
        self._full_since_us: int | None = None
        self._dropped_newest = 0
        self._unsynced_since: float | None = None
        self._appended = False
        self._dead_lock = threading.Lock()
        self._lock = SpoolLock(directory / LOCK)
        try:
            self._shelf = Shelf(files, directory, Quarantine(files, directory, options.damaged_bytes), on_notice)
            self._shelf.on_given = self._lock.note_given
            found = recover(self._shelf, now_us, self._lock.given_from)
            self._torn_bytes = found.torn_bytes
            self._recent = Recent()
            self._writer = Writer(self._shelf, self._recent, options, found.marks, found.next_number)
            if found.headless:
                with suppress(OSError):  # no space: the next append does the same
                    self._writer.secure_marks()
            self._letters = LetterBox(files, directory, options.dead_letter_bytes, on_notice)
            self._note = Note(files, directory)
            self._reader = Reader(self._shelf, self._recent, self._letters.spent)
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    def open(
        cls,
        directory: Path,
        options: SpoolOptions | None = None,
        now_us: int | None = None,
        *,
        files: Files | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> Spool:
        """Open a spool, or make one.

        Args:
            directory: where it lies; made if it is missing.
            options: how it behaves.
            now_us: Unix time in microseconds: where the ids of a new spool begin. None: the time it is.
            files: the file system, for tests.
            on_notice: is told, in words, what was lost, cut or set aside; None: the log.

        Raises:
            CollectorError: another process has it open, or the disk does not work.
        """
        files = files or Files()
        try:
            files.make_directory(directory / SEGMENTS)
            now = _now_us() if now_us is None else now_us
            notice = logging.getLogger(__name__).warning if on_notice is None else on_notice
            return cls(directory, options or SpoolOptions(), now, files, notice)
        except OSError as error:
            raise CollectorError(f"the spool {directory} cannot be opened: {error}") from error

    @property
    def marks(self) -> dict[str, str]:
        """name -> text of the durable marks."""
        return dict(self._writer.marks)

    def room_bytes(self) -> int:
        """About so many bytes of records fit now; records need one byte each beside their own."""
        reserve = 2 * self._writer.reserve_bytes + _ROOM_MARGIN_BYTES
        return max(0, self._options.max_bytes - self._shelf.bytes - reserve)

    def append(self, lines: Sequence[bytes], marks: Mapping[str, str] | None = None) -> AppendResult:
        """Put records, and the marks that are reached by them, behind the others: as one, or not at all.

        They are in the spool when this returns, and durable when `sync` has returned (with FsyncPolicy.EACH: now). Do
        not change `lines` before that. Marks of records that were dropped, and marks alone that do not fit, are kept in
        memory and become durable with the next append.

        Raises:
            SpoolFullError: there is no room (WhenFull.BLOCK). Nothing has changed.
            OSError: the disk is full, or failed. Nothing has changed: append again.
            ValueError: a record holds a line feed, or is too large, or there are too many marks. Nothing has changed.
        """
        marks = marks or {}
        if not lines and not marks:
            return AppendResult(0)
        with self._writing:
            prepared = self._writer.prepare(lines, marks)
            dropped = self._make_room(prepared)
            if dropped is None and self._writer.replace_done():
                self._shelf.done(0)  # the newest segment was all there was, and is not needed any more
                dropped = self._make_room(prepared)
            if dropped is None:
                return self._refuse(lines, marks)
            self._writer.append(lines, marks, prepared)
            self._appended = True
            if self._options.fsync is FsyncPolicy.EACH:
                self._sync_appended()
            if lines:
                self._full_since_us = None
        return AppendResult(len(lines), dropped)

    def sync(self, now: float) -> bool:
        """Make what was appended durable, as the policy says. What is durable is offered to the sender.

        Args:
            now: seconds on a steady clock.

        Returns:
            Whether everything is; False only with FsyncPolicy.INTERVAL, before its time has come.

        Raises:
            OSError: it is not durable, but still in the spool: sync again, and do not append it again.
        """
        with self._writing:
            if self._options.fsync is FsyncPolicy.INTERVAL:
                since = self._unsynced_since
                if since is None and self._appended:
                    self._unsynced_since = since = now
                if since is not None and now - since < self._options.interval_s:
                    return False
            self._writer.sync()
            self._unsynced_since, self._appended = None, False
        return True

    def sync_time(self) -> float | None:
        """When `sync` has to be called next although nothing was appended; None: it has not."""
        since = self._unsynced_since
        return None if since is None else since + self._options.interval_s

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        """As `BatchSource.read`; ids in the dead letters are not offered again.

        Raises:
            CollectorError: there are no ids left.
            OSError: ids could not be made durable, or the disk failed. Read again.
        """
        return self._reader.read(at_least_id, most_batches, most_bytes)

    def let_sender_come(self, timeout_s: float) -> None:
        """Wait a moment for the sender if it takes records, but cannot take them as fast as they are appended.

        What it takes soon is still in memory; what lies for longer has to be read back from the disk. Appending goes on
        without loss if this is never called.
        """
        self._recent.let_reader_come(timeout_s)

    def refused(self, batch_id: int, payload: bytes, reply: Reply | str) -> None:
        """As `BatchSource.refused`.

        Args:
            reply: what it was refused with, or another reason in words.

        Raises:
            OSError: it is not in the dead letters. Call this again.
        """
        reason = reply if isinstance(reply, str) else str(reply.kind.value)
        with self._dead_lock:
            self._letters.put(DeadLetter(batch_id, self._now_us(), reason, payload))

    def done(self, below_id: int) -> None:
        """As `BatchSource.done`. Raises OSError where a file cannot be removed; a later call removes it."""
        self._shelf.done(below_id)
        if not self._writing.acquire(blocking=False):
            return  # whoever writes makes the newest segment larger; it goes another time
        try:
            newest = self._shelf.segments[-1] if self._shelf.segments else None
            if newest is not None and newest.size >= min(REPLACE_BYTES, self._options.max_bytes // 8):
                with suppress(OSError):  # no space for a new one: the old one stays for now
                    self._writer.replace_done()
        finally:
            self._writing.release()
        self._shelf.done(below_id)

    def recall(self) -> str:
        """As `BatchSource.recall`."""
        return self._note.text

    def remember(self, text: str, durable: bool) -> None:
        """As `BatchSource.remember`. Raises OSError: call it again."""
        self._note.put(text, durable)

    def state(self) -> SpoolState:
        """Where it stands. Any thread; a moment later it may be different."""
        shelf = self._shelf
        with shelf.lock:
            first_id, next_id = shelf.ids()
            return SpoolState(
                bytes=shelf.bytes,
                records=shelf.records,
                unsynced_records=self._writer.unsynced_records,
                segments=len(shelf.segments),
                first_id=first_id,
                next_id=next_id,
                dropped_oldest_records=shelf.dropped_oldest,
                dropped_newest_records=self._dropped_newest,
                damaged_parts=shelf.quarantine.parts,
                damaged_bytes=shelf.quarantine.bytes,
                lost_records=shelf.lost_records,
                torn_bytes=self._torn_bytes,
                dead_letters=self._letters.kept,
                dead_letters_dropped=self._letters.dropped,
                full_since_us=self._full_since_us,
            )

    def close(self) -> None:
        """Make everything durable, whatever the policy, and let go of the spool. Both threads must have ended.

        Raises:
            OSError: what was appended last is not durable. The spool is closed all the same.
        """
        with self._writing:
            try:
                self._writer.close()
            finally:
                self._reader.close()
                self._letters.close()
                self._note.close()
                self._lock.release()

    def _sync_appended(self) -> None:
        try:
            self._writer.sync()
        except OSError:
            self._writer.take_back()
            raise

    def _make_room(self, prepared: tuple[list[Piece], bytes]) -> int | None:
        """Drop what may be dropped until an append fits. Returns how many records went; None: it does not fit."""
        dropped = 0
        secured = False
        while self._shelf.bytes + self._writer.cost(*prepared) + self._writer.reserve_bytes > self._options.max_bytes:
            if self._options.when_full is not WhenFull.DROP_OLDEST or not self._may_ever_fit(prepared):
                return None
            if not secured:
                if not self._shelf.can_drop():
                    self._writer.finish_droppable()
                if not self._shelf.can_drop():
                    return None
                self._writer.secure_marks()
                secured = True
            gone = self._shelf.drop_oldest()
            if gone is None:
                return None
            dropped += gone
        return dropped

    def _may_ever_fit(self, prepared: tuple[list[Piece], bytes]) -> bool:
        need = sum(len(piece.joined) for piece in prepared[0]) + len(prepared[1]) + 2 * self._writer.reserve_bytes
        return need + _ROOM_MARGIN_BYTES <= self._options.max_bytes

    def _refuse(self, lines: Sequence[bytes], marks: Mapping[str, str]) -> AppendResult:
        """What happens to an append for which there is no room."""
        if not lines:
            self._writer.note(marks)
            return AppendResult(0)
        if self._full_since_us is None:
            self._full_since_us = self._now_us()
        if self._options.when_full is WhenFull.BLOCK:
            raise SpoolFullError(
                f"the spool is full: {self._shelf.bytes} of {self._options.max_bytes} bytes wait for confirmation"
            )
        self._dropped_newest += len(lines)
        self._writer.note(marks)
        return AppendResult(0, len(lines))


_ROOM_MARGIN_BYTES = 4096
"""For headers of frames and marks, where room is told in advance."""


def _now_us() -> int:
    return time.time_ns() // 1000
