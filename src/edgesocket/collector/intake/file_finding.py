"""Finds files: new ones, renamed ones, copies, compressed ones; and notices those that were cut or are gone."""

from __future__ import annotations

import os
import zlib
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path

from edgesocket.collector.intake.discovery import Ident, find_files, find_inode
from edgesocket.collector.intake.file_identity import PREFIX_BYTES, FileMark, compression_of, digest, is_rotation_of
from edgesocket.collector.intake.file_table import FileTable, Shadow
from edgesocket.collector.intake.framing import FramingState
from edgesocket.collector.intake.past_files import PastFile
from edgesocket.collector.intake.tailed_file import GzipStream, TailedFile

_BACKWARDS_BYTES = 64 * 1024
_COMPARED_BYTES = 256


class FileFinder(FileTable):
    """The part of a file input that looks at directories and files without taking a record."""

    def _poll(self, now: float) -> None:
        """Ask the system for news of every followed file."""
        self._next_poll = now + self._options.poll_s
        wall = self._wall_ns()
        for file in list(self._live.values()):
            had_more = file.has_more
            try:
                intact = file.look(wall)
            except FileNotFoundError:
                continue
            except OSError as problem:
                self._failed(file.path, problem)
                file.close()
                continue
            if not intact:
                self._cut(file, now)
            elif file.has_more and not had_more:
                self._turns.append(file)

    def _scan(self, now: float) -> None:
        """Look for files that are new, renamed, or gone."""
        self._next_scan = now + self._options.discover_s
        found = find_files(self._options.include, self._options.exclude)
        self._poll(now)  # before the names are taken down: what was cut was copied under its old name
        for ident, file in self._live.items():
            at = found.get(ident)
            file.missing = at is None
            if at is not None:
                file.path = at[0]
        lost = [past for past in self._past if self._starting and not past.mark.ended and past.ident not in found]
        for past in lost:
            if not past.mark.is_blank:
                self._follow_renamed(past, found, now)
        self._meet(found, now)
        for past in lost:
            if past.mark.is_blank:
                self._follow_renamed(past, found, now)
        self._passed_over = {ident: path for ident, path in self._passed_over.items() if ident in found}
        self._shadows = {ident: shadow for ident, shadow in self._shadows.items() if ident in found}
        self._find_renamed(now)
        self._let_go(now)
        for past in self._past.too_old(now, self._options.forget_after_s):
            if past.ident not in found or past.mark.ended:
                self._past.remove(past)
                self._marks[past.key] = ""
                self._counts["files_forgotten"] += 1
        self._limit_handles()

    def _meet(self, found: Mapping[Ident, tuple[str, os.stat_result]], now: float) -> None:
        """Take up the files that are not followed, the older ones first.

        In two rounds, for what was cut must be known when a copy of it is met, and the copy may have been given the
        inode of a file that is gone: first those that are what their inode held before, then all others.
        """
        known = {past.ident[1] for past in self._past if not (past.mark.ended or past.mark.is_blank)}
        failed: set[Ident] = set()
        for known_only in (True, False):
            for ident, (path, status) in sorted(found.items(), key=lambda at: at[1][1].st_mtime_ns):
                if ident in self._live or ident in failed or self._passed_over.get(ident) == path:
                    continue
                if known_only and ident[1] not in known:
                    continue
                try:
                    self._found(ident, path, status.st_size, found, now, known_only=known_only)
                except (OSError, zlib.error) as problem:
                    failed.add(ident)
                    self._failed(path, problem)

    def _found(
        self, ident: Ident, path: str, size: int, found: Container[Ident], now: float, *, known_only: bool
    ) -> None:
        """A file that is not followed: one from before, a copy of one, or a new one; `known_only`: only the first."""
        if not self._has_handle():
            return
        shadow = self._shadows.get(ident)
        file = self._new_file(path, ident)
        if not file.open(path):
            return
        try:
            head = file.head()
            ending = compression_of(path, head)
            if known_only:
                if not ending:
                    self._resume(file, now)
                return
            for past in self._past.of_inode(ident, path):
                if past.mark.is_blank:  # it is met like a new one
                    self._past.remove(past)
                    self._marks[past.key] = ""
            if ending:
                self._found_compressed(file, path, ending, now)
            elif not self._is_copy(file, head, shadow, found, now):
                self._begin(file, size, now)
        finally:
            if self._is_done(file):
                file.close()
            else:
                self._shadows.pop(ident, None)

    def _begin(self, file: TailedFile, size: int, now: float) -> None:
        """A new file."""
        if self._first_start and not self._options.from_beginning and size:
            self._skip_to_end(file)
        self._marks[file.key] = file.mark().text()
        self._counts["files_found"] += 1
        file.changed_at = now
        self._follow(file)

    def _skip_to_end(self, file: TailedFile) -> None:
        """Begin behind the last complete line; of a line that is not complete nothing is left out."""
        assert file.descriptor is not None
        size, found = file.size, 0
        framer = self._framer()
        start = os.pread(file.descriptor, 4, 0)
        encoding = framer.settle(start)
        at = size - size % encoding.unit
        while at > 0 and not found:
            low = max(0, at - _BACKWARDS_BYTES)
            found = encoding.end_of_lines(os.pread(file.descriptor, at - low, low))
            at = low + found if found else low
        file.begin_at(at)
        file.framer = self._framer(FramingState(at, encoding.name))

    def _resume(self, file: TailedFile, now: float) -> None:
        """Follow it from where it was left, if it is a file from before."""
        for past in self._past.of_inode(file.ident, file.path):
            if past.mark.is_blank:
                continue
            if file.adopt(past.mark):
                self._go_on(file, past, now)
                return
            # The inode was used again, or the file was cut while nobody looked.
            past.mark = _ended(past.mark)
            past.was_cut = True
            self._marks[past.key] = past.mark.text()
            if past.mark.path == file.path:
                self._counts["files_cut"] += 1

    def _go_on(self, file: TailedFile, past: PastFile, now: float) -> None:
        self._past.remove(past)
        file.key = past.key
        file.framer = self._framer(past.mark.state)
        file.changed_at = now
        self._marks[file.key] = file.mark().text()
        self._follow(file)

    # --- copies ----------------------------------------------------------------------------------

    def _is_copy(
        self, file: TailedFile, head: bytes, shadow: Shadow | None, found: Container[Ident], now: float
    ) -> bool:
        """Whether it is a copy of a file: then it waits, or goes on where that file ended."""
        if not head:
            return False
        candidates = [shadow.of] if shadow else list(self._live.values())
        for live in candidates:
            if self._is_done(live) or not live.prefix or live.zipped or not _named_like_copy(live, file):
                continue
            same = self._same_content(file, live)
            if live.descriptor is not None and not live.is_intact():
                self._cut(live, now)
            elif same:
                self._shadows[file.ident] = Shadow(file.path, live)
                return True
        for past in self._past.copied_to(file.path, head, found):
            offset = past.mark.state.offset
            if file.size >= offset:
                if not file.adopt(past.mark):
                    continue
                state = past.mark.state
            else:
                # The file grew on after it was copied: all of the copy has been read.
                file.begin_at(file.size)
                state = FramingState(file.size, past.mark.state.encoding)
            past.rest = None
            file.framer = self._framer(state)
            file.changed_at = now
            self._marks[file.key] = file.mark().text()
            self._follow(file)
            return True
        return False

    def _same_content(self, file: TailedFile, live: TailedFile) -> bool:
        """Whether what both hold is the same, as far as the shorter one goes and a look at its two ends tells."""
        if live.descriptor is None and not self._reopen_quietly(live):
            return False
        assert file.descriptor is not None
        assert live.descriptor is not None
        size = min(file.size, live.size)
        for at, length in ((0, min(size, PREFIX_BYTES)), (max(0, size - _COMPARED_BYTES), min(size, _COMPARED_BYTES))):
            if os.pread(file.descriptor, length, at) != os.pread(live.descriptor, length, at):
                return False
        return size > 0

    # --- compressed files ------------------------------------------------------------------------

    def _found_compressed(self, file: TailedFile, path: str, ending: str, now: float) -> None:
        if ending != ".gz" or not self._options.read_gzip:
            self._passed_over[file.ident] = path
            self._counts["compressed_passed_over"] += 1
            self._say(f"{path} is compressed ({ending}) and is not read")
            return
        assert file.descriptor is not None
        if os.fstat(file.descriptor).st_mtime_ns + 1_000_000_000 > self._wall_ns():
            return  # it may still be written
        for past in self._past.of_inode(file.ident, path):
            if self._wound(file, past.mark):
                self._go_on(file, past, now)
                return
        for live in self._live.values():
            made_of = live.path + ending == path or (live.missing and is_rotation_of(live.path, path))
            if made_of and live.zipped is None:
                return  # what it was made of is still being read
        for past in self._past:
            if not past.mark.prefix_bytes or not is_rotation_of(past.mark.path, path):
                continue
            if self._wound(file, past.mark):
                file.framer = self._framer(past.mark.state)
                past.rest = None
                break
        else:
            file.zipped = GzipStream()
            file.prefix = b""
            if self._first_start and not self._options.from_beginning:
                self._passed_over[file.ident] = path
                return
        self._marks[file.key] = file.mark().text()
        self._counts["files_found"] += 1
        file.changed_at = now
        self._follow(file)

    def _wound(self, file: TailedFile, mark: FileMark) -> bool:
        """Whether it holds what a mark tells of; it is then read on from there."""
        assert file.descriptor is not None
        stream = GzipStream()
        known = b""
        while len(known) < mark.prefix_bytes:
            data = stream.read(file.descriptor, mark.prefix_bytes - len(known))
            if not data:
                return False
            known += data
        if mark.prefix_bytes and digest(known) != mark.prefix:
            return False
        window = known
        if stream.position > mark.state.offset:
            stream, window = GzipStream(), b""
        while stream.position < mark.state.offset:
            data = stream.read(file.descriptor, min(1 << 20, mark.state.offset - stream.position))
            if not data:
                return False
            window = (window + data)[-PREFIX_BYTES:]
        if mark.anchor_bytes and digest(window[-mark.anchor_bytes :]) != mark.anchor:
            return False
        file.zipped, file.prefix = stream, known
        file.anchor, file.anchor_end = window[-mark.anchor_bytes :] if mark.anchor_bytes else b"", mark.state.offset
        return True

    def _find_renamed(self, now: float) -> None:
        """Files without a handle that the globs find no more may have been renamed in their directory."""
        for file in list(self._live.values()):
            if file.missing and file.descriptor is None:
                path = find_inode(str(Path(file.path).parent), file.ident)
                try:
                    if path is not None and file.open(path):
                        file.has_more = True
                        self._turns.append(file)
                        continue
                except OSError as problem:
                    self._failed(file.path, problem)
                self._past.add(PastFile(file.key, file.mark(), now))
                self._counts["files_gone"] += 1
                del self._live[file.ident]

    def _follow_renamed(self, past: PastFile, found: Container[Ident], now: float) -> None:
        """A file from before may have been renamed out of the globs: the rest of it is read. Only at the start: later
        ones had a handle, and were read to their end. Where it was empty, what has its inode may as well be a copy."""
        path = find_inode(str(Path(past.mark.path).parent), past.ident)
        if path is None or past.ident in self._live:
            return
        file = self._new_file(path, past.ident)
        try:
            if not (file.open(path) and file.adopt(past.mark)):
                return
            if not (past.mark.is_blank and self._is_copy(file, file.head(), None, found, now)):
                self._go_on(file, past, now)
            file.missing = True
        except OSError as problem:
            self._failed(path, problem)
        finally:
            if self._is_done(file):
                file.close()

    def _let_go(self, now: float) -> None:
        """Files that are gone from the globs and were silent for long are ended at the next read."""
        for file in self._live.values():
            idle = now >= file.changed_at + self._options.rotated_idle_s
            file.finishing = file.missing and idle and not file.has_more and not file.unstored


def _ended(mark: FileMark) -> FileMark:
    return replace(mark, ended=True)


def _named_like_copy(live: TailedFile, file: TailedFile) -> bool:
    """A rotation's name, or the same name where the followed file has lost it."""
    return is_rotation_of(live.path, file.path) or (live.path == file.path and live.missing)
