"""Input file: follows files, each line at least once into the spool, exactly once across restarts of the agent.

A file is known by what it is (`file_identity`), never by its name. Its handle stays open until its end was read and is
durable, so a rotation or a deletion takes nothing away. The position of a file and the records before it become durable
in one step (marks); after a crash exactly what was not durable is read again.

Theory. Three kinds of files are kept apart:

- *live*: followed, by device and inode. One of them may be missing from the globs: renamed out of them, or deleted.
- *past*: remembered by their marks only: their file was cut and written anew, is gone, or the agent has just started.
- *shadows*: copies of a live file, as a rotation by copying makes them before it cuts the file. They wait: when the
  file is cut, a shadow goes on where the file's reading ended; so what was written in between is not lost, and nothing
  is read twice.

What is lost by nature when a file is cut in place (copytruncate) and the copy is not under the globs: what was written
after the last read before the cut. That a file was cut is counted and said.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.discovery import watched_directories
from edgesocket.collector.intake.file_finding import FileFinder
from edgesocket.collector.intake.file_identity import FileMark
from edgesocket.collector.intake.file_options import COPY_WAIT_S
from edgesocket.collector.intake.file_watch import FileWatch
from edgesocket.collector.intake.past_files import PastFile
from edgesocket.collector.intake.tailed_file import TailedFile
from edgesocket.protocol.ended_lines import joined_lines

_STARTED = "started"


class FileTail(FileFinder):
    """See the module's text. `FileTable` says what it is made with."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self._name

    @property
    def counts(self) -> Mapping[str, int]:
        """Totals, and how many files are open and followed now."""
        opened = sum(file.descriptor is not None for file in self._live.values())
        return {
            **self._framing_counts.as_dict(),
            **self._counts,
            "files_followed": len(self._live),
            "files_open": opened,
        }

    @property
    def ended(self) -> bool:
        """Never: files may always grow."""
        return False

    def open(self, marks: Mapping[str, str], now: float) -> None:
        """Begin after the marks. Never fails: files that cannot be read are said and tried again."""
        self._first_start = not marks
        if self._first_start:
            self._marks[f"{self._name}/{_STARTED}"] = "1"
        for key, text in marks.items():
            number = key.rpartition("/")[2]
            if number == _STARTED:
                continue
            try:
                self._past.add(PastFile(key, FileMark.read(text), now))
                self._next_key = max(self._next_key, int(number) + 1)
            except ValueError as problem:
                self._say(f"{key}: {problem}; the file is read from its start")
                self._marks[key] = ""
        self._start_watch()
        self._starting = True
        self._scan(now)
        self._first_start = self._starting = False

    def descriptors(self) -> Sequence[int]:
        """One, where the system tells of changes."""
        return [self._watch.descriptor] if self._watch else []

    def next_time(self, now: float) -> float | None:
        """Now, while there is something to read; else when files are to be looked at, or a line is to be ended."""
        if self._marks or self._turns:
            return now
        flushes = [file.flush_at for file in self._live.values() if file.flush_at is not None]
        return min([self._next_poll, self._next_scan, *flushes])

    def discover(self, now: float) -> None:
        """Look at the followed files and, less often, for others."""
        news = self._watch is not None and self._watch.taken()
        if now >= self._next_scan or news:
            self._scan(now)
        elif now >= self._next_poll:
            self._poll(now)

    def read(self, budget_bytes: int, now: float) -> Intake | None:
        """Take from the files in turn, about `budget_bytes` in all."""
        lines: list[Sequence[bytes]] = []
        marks, self._marks = self._marks, {}
        touched: list[TailedFile] = []
        left = budget_bytes
        for _ in range(len(self._turns)):
            if left <= 0:
                break
            file = self._turns.popleft()
            if not self._wants_turn(file):
                continue
            records, size = self._take(file, left, now)
            left -= size
            if size:
                self._give(file, records, lines, marks, touched)
            if self._wants_turn(file):
                self._turns.append(file)
        self._flush_idle(now, lines, marks, touched)
        marks |= self._marks
        self._marks = {}
        if not (lines or marks):
            return None
        for file in touched:
            file.unstored += 1
        return Intake(joined_lines(lines), marks, touched)

    def stored(self, intake: Intake, now: float) -> None:  # noqa: ARG002
        """What was read is durable; handles that waited for that are closed."""
        touched = intake.token
        assert isinstance(touched, list)
        for file in touched:
            file.unstored -= 1
        self._close_left()

    def close(self, now: float) -> Intake | None:  # noqa: ARG002
        """Let go of all handles. What is not complete is read again at the next start."""
        if self._watch:
            self._watch.close()
            self._watch = None
        lines: list[bytes] = []
        marks: dict[str, str] = {}
        for past in self._past:
            if past.rest is not None:
                lines += self._rest_of(past)
                marks[past.key] = past.mark.text()
        for file in [*self._live.values(), *self._left]:
            file.close()
        self._live = {}
        self._left = []
        self._turns.clear()
        return Intake(lines, marks, []) if lines else None

    # --- reading ---------------------------------------------------------------------------------

    def _take(self, file: TailedFile, size: int, now: float) -> tuple[Sequence[bytes], int]:
        """The next records of a file, and how many bytes were read for them."""
        start = file.framer.read_offset
        try:
            if file.descriptor is None and not self._reopen(file):
                return [], 0
            back = 0 if file.zipped is not None else file.framer.rereadable_bytes
            size = size if size > 2 * back else size + back
            data, intact = file.read(size, back)
            file.has_more = len(data) == size or (bool(data) and file.zipped is not None)
            if back and intact and file.framer.unread(data):
                start -= back
            else:
                data = data[back:]
            records = file.framer.feed_lines(data)
            if data:
                file.remember(start, data)
        except (OSError, zlib.error) as problem:
            self._failed(file.path, problem)
            file.close()
            file.has_more = False
            return [], 0
        if data:
            file.changed_at = now
            idle = self._options.framing.idle_flush_s
            file.flush_at = now + idle if file.framer.pending_bytes and idle is not None else None
        if not intact:
            self._cut(file, now)
        return records, len(data)

    def _give(
        self,
        file: TailedFile,
        records: Sequence[bytes],
        lines: list[Sequence[bytes]],
        marks: dict[str, str],
        touched: list[TailedFile],
    ) -> None:
        """Put records of a file, and how far it is done with, into the intake."""
        if self._envelope is not None and records:
            records = self._envelope.wrap_file(records, file.path, file.framer.starts)
        if records:
            lines.append(records)
        touched.append(file)
        if not self._is_done(file):
            marks[file.key] = file.mark().text()

    def _flush_idle(
        self, now: float, lines: list[Sequence[bytes]], marks: dict[str, str], touched: list[TailedFile]
    ) -> None:
        """End the lines that nothing was added to for long, and let go of files that are gone for long."""
        for file in list(self._live.values()):
            due = file.flush_at is not None and now >= file.flush_at
            if file.has_more or not (due or file.finishing):
                continue
            try:
                if file.finishing and self._has_news(file):
                    continue
                records = self._flushed(file, final=file.finishing)
            except OSError as problem:
                self._failed(file.path, problem)
                file.flush_at = now + self._options.poll_s if due else None
                continue
            file.flush_at = None
            self._give(file, records, lines, marks, touched)
            if file.finishing:
                self._end(file, now, marks)
        for past in self._past:
            if past.rest is not None and past.since + COPY_WAIT_S <= now:
                lines.append(self._rest_of(past))
                marks[past.key] = past.mark.text()

    def _has_news(self, file: TailedFile) -> bool:
        """A last look at a file before it is let go."""
        if file.descriptor is None or file.zipped is not None or file.size == file.framer.read_offset:
            return False
        file.finishing = False
        file.has_more = True
        self._turns.append(file)
        return True

    def _flushed(self, file: TailedFile, *, final: bool) -> list[bytes]:
        start, size = file.framer.state.offset, file.framer.pending_bytes
        if not size or file.descriptor is None or file.zipped is not None:
            return file.framer.flush(final=final)
        data = os.pread(file.descriptor, size, start)  # before the flush: it may fail, and is then done again
        records = file.framer.flush(final=final)
        file.remember(start, data)
        return records

    def _rest_of(self, past: PastFile) -> list[bytes]:
        """The beginning of a line that no copy has come for."""
        assert past.rest is not None
        records = past.rest.flush(final=True)
        if self._envelope is not None and records:
            records = self._envelope.wrap_file(records, past.mark.path, past.rest.starts)
        past.rest = None
        return records

    def _end(self, file: TailedFile, now: float, marks: dict[str, str]) -> None:
        """A file that is gone was read to its end: remember it, and close it when that is durable."""
        self._counts["files_gone"] += 1
        mark = file.mark(ended=file.is_deleted)
        marks[file.key] = mark.text()
        self._past.add(PastFile(file.key, mark, now))
        del self._live[file.ident]
        self._left.append(file)

    def _close_left(self) -> None:
        for file in [file for file in self._left if not file.unstored]:
            file.close()
            self._left.remove(file)

    def _start_watch(self) -> None:
        directories = watched_directories(self._options.include)
        if not self._options.watch or not directories:
            return
        try:
            self._watch = FileWatch(directories, self._say)
        except ImportError:
            pass  # looking at intervals does
