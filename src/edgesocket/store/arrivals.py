"""Writes and reads the segments of the arrival log: `arrivals/<epoch 20 digits>-<first sequence 20 digits>.log`.

A burst that `append` has taken is in the kernel: it survives kill -9 of the process. It survives a power cut once it is
synced: at the latest `sync_ms` later if somebody calls `sync_if_due`, or before `append` returns.

A burst that `append` refuses must not be answered. Whatever happens, no half record stays in front of good ones: a
write that failed is cut off again, and where even that fails, the next burst starts a new segment.

A failed fsync is not simply repeated: the kernel reports a lost write once, and calls the page clean. So what was
written since the last good sync is kept in memory, and after a failure the segment is written anew beside itself,
synced, and put in its place.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from edgesocket.checkpoint.arrival_log import (
    BurstEncoder,
    Segment,
    decode_segment,
    encode_header,
    first_sequence_of,
)
from edgesocket.errors import StoreError
from edgesocket.store.durable import PRIVATE_FILE, make_directory, sync_directory, sync_file, write_all

UNSYNCED_LIMIT_BYTES = 64 * 1024 * 1024
"""More than this waiting for a sync that does not succeed: nothing more is taken."""

_FILE_NAME = re.compile(r"(\d{20})-(\d{20})\.log", re.ASCII)
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class ArrivalWriter:
    """Appends bursts to the arrival log of one incarnation.

    Thread-safe; `append` never waits for a sync that another thread does, unless it asked for one.

    Attributes:
        bursts: gives the events their numbers and makes the bytes for `append`.

    Args:
        directory: the arrivals directory; made if missing.
        epoch: this incarnation's.
        first_sequence: number of the first event, above every one in the directory.
        sync_ms: what a power cut may take; 0 syncs every burst.
        clock: monotonic seconds, the clock of `sync_if_due`'s argument.
        fault: for tests: called with `arrivals.half-written` and `arrivals.written`, a space, and the file's name.
    """

    def __init__(
        self,
        directory: Path,
        epoch: int,
        first_sequence: int,
        sync_ms: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        fault: Callable[[str], None] | None = None,
    ) -> None:
        self.bursts = BurstEncoder(first_sequence)
        self._directory = directory
        self._epoch = epoch
        self._sync_ms = sync_ms
        self._clock = clock
        self._fault = fault
        # Lock order: _sync_lock, then _lock. Whoever closes or replaces a file holds both.
        self._sync_lock = threading.Lock()
        self._lock = threading.Lock()
        self._current: _OpenSegment | None = None
        self._open: list[_OpenSegment] = []
        self._unsynced_since: float | None = None
        try:
            make_directory(directory)
            for path in directory.glob(".rebuilt-*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _store_error(directory, "cannot be used", error) from error

    def append(self, burst: bytes, sync: bool = False) -> None:
        """Write one burst (what `bursts` made) with one write(2).

        Args:
            burst: one or more whole records; empty is nothing to do.
            sync: return only when it survives a power cut.

        Raises:
            StoreError: the burst may not be answered. It is not in the log, or (when only the sync failed) it is
                there although nothing was answered, which is harmless.
        """
        if not burst:
            return
        with self._lock:
            unsynced = 0
            for segment in self._open:
                unsynced += segment.size - segment.synced
            if unsynced > UNSYNCED_LIMIT_BYTES:
                raise StoreError(f"{self._directory}: syncs have failed for too long to take more")
            segment = self._current or self._start_segment(first_sequence_of(burst))
            try:
                segment.write(burst, self._fault)
            except OSError as error:
                if not segment.cut_back():
                    self._current = None
                raise _store_error(segment.path, "cannot be written", error) from error
            if self._unsynced_since is None:
                self._unsynced_since = self._clock()
        if sync or not self._sync_ms:
            self.sync()

    def sync_if_due(self, now: float) -> bool:
        """Sync if something has waited for `sync_ms` by `now`. Returns whether it did. Raises as `sync`."""
        since = self._unsynced_since
        if since is None or (now - since) * 1000 < self._sync_ms:
            return False
        self.sync()
        return True

    def sync(self) -> None:
        """Make everything appended so far survive a power cut.

        Raises:
            StoreError: it may not survive one; everything is still in the log and in memory, and the next call
                tries again.
        """
        with self._sync_lock:
            with self._lock:
                self._unsynced_since = None
                segments = list(self._open)
            try:
                for segment in segments:
                    self._sync_segment(segment)
            except OSError as error:
                with self._lock:
                    if self._unsynced_since is None:
                        self._unsynced_since = self._clock()
                raise _store_error(segment.path, "cannot be synced", error) from error

    def rotate(self) -> None:
        """Let the next burst start a new segment. Costs nothing; the old one is still synced when due."""
        with self._lock:
            self._current = None

    def delete_through(self, sequence: int) -> list[str]:
        """Remove whole segments, of this and earlier epochs, whose events all have numbers up to `sequence`.

        The segment in use stays. Returns the names removed.

        Raises:
            StoreError: the directory failed; a later call removes what is left.
        """
        with self._sync_lock, self._lock:
            try:
                keys = [key for key in _segment_keys(self._directory) if key[0] <= self._epoch]
                removed = []
                for position, key in enumerate(keys):
                    path = self._directory / _segment_name(*key)
                    if self._current is not None and path == self._current.path:
                        break
                    last = position + 1 == len(keys)
                    following = self.bursts.next_sequence if last else keys[position + 1][1]
                    if following > sequence + 1:
                        break
                    path.unlink(missing_ok=True)
                    removed.append(path.name)
                    self._forget(path)
            except OSError as error:
                raise _store_error(self._directory, "cannot be cleaned", error) from error
        return removed

    def close(self, *, clean: bool) -> None:
        """Release the files; call it once, at the end.

        Args:
            clean: sync first. False (fenced, or failed) writes and syncs nothing more.

        Raises:
            StoreError: the sync failed; the files are released all the same.
        """
        try:
            if clean:
                self.sync()
        finally:
            with self._sync_lock, self._lock:
                for segment in self._open:
                    os.close(segment.fd)
                self._open.clear()
                self._current = None

    def _start_segment(self, first_sequence: int) -> _OpenSegment:
        path = self._directory / _segment_name(self._epoch, first_sequence)
        try:
            segment = _OpenSegment(path, encode_header(self._epoch, first_sequence))
        except OSError as error:
            raise _store_error(path, "cannot be created", error) from error
        self._current = segment
        self._open.append(segment)
        return segment

    def _sync_segment(self, segment: _OpenSegment) -> None:
        with self._lock:
            size = segment.size
        try:
            if not segment.suspect and size > segment.synced:
                sync_file(segment.fd)
                if not segment.named:
                    sync_directory(self._directory)
                    segment.named = True
        except OSError:
            segment.suspect = True
        with self._lock:
            if segment.suspect:
                segment.rebuild()
                size = segment.size
            segment.mark_synced(size)
            if segment is not self._current:
                os.close(segment.fd)
                self._open.remove(segment)

    def _forget(self, path: Path) -> None:
        for segment in [segment for segment in self._open if segment.path == path]:
            os.close(segment.fd)
            self._open.remove(segment)


class _OpenSegment:
    """One file being written. The writer's locks guard it."""

    def __init__(self, path: Path, header: bytes) -> None:
        self.path = path
        self.fd = os.open(path, _NEW_FLAGS, PRIVATE_FILE)
        self.size = 0
        self.synced = 0
        self.named = False
        """Whether its name in the directory is durable."""
        self.suspect = False
        """Whether a sync has failed: its unsynced bytes may be lost although the next sync would succeed."""
        self._unsynced: deque[bytes] = deque()
        try:
            self.write(header, None)
        except OSError:
            os.close(self.fd)
            path.unlink(missing_ok=True)
            raise

    def write(self, data: bytes, fault: Callable[[str], None] | None) -> None:
        """Write all of `data`, or raise OSError with an unknown part of it written."""
        if fault is None:
            write_all(self.fd, data)
        else:
            half = len(data) // 2
            write_all(self.fd, data[:half])
            fault(f"arrivals.half-written {self.path.name}")
            write_all(self.fd, data[half:])
            fault(f"arrivals.written {self.path.name}")
        self.size += len(data)
        self._unsynced.append(data)

    def cut_back(self) -> bool:
        """Take away what a failed write left. False where that fails: the file must not be written any more."""
        try:
            os.ftruncate(self.fd, self.size)
        except OSError:
            return False
        return True

    def mark_synced(self, size: int) -> None:
        """The first `size` bytes are durable."""
        while self.synced < size:
            self.synced += len(self._unsynced.popleft())

    def rebuild(self) -> None:
        """Write the file anew from its durable bytes and memory, and put that in its place."""
        fresh = self.path.with_name(f".rebuilt-{self.path.name}")
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, _NEW_FLAGS, PRIVATE_FILE)
        try:
            write_all(fd, self.path.read_bytes()[: self.synced])
            write_all(fd, b"".join(self._unsynced))
            sync_file(fd)
            fresh.replace(self.path)
        except OSError:
            os.close(fd)
            raise
        os.close(self.fd)
        self.fd = fd
        self.named = False
        sync_directory(self.path.parent)
        self.named = True
        self.suspect = False


def make_durable(directory: Path) -> None:
    """Sync every segment that is there, and the directory.

    What a killed process had written may be with the kernel only. An incarnation that builds on it must make it durable
    before it writes anything of its own: after a power cut its own notes could be there, and those before them not.

    Raises:
        StoreError: the file system failed.
    """
    try:
        for key in _segment_keys(directory):
            descriptor = os.open(directory / _segment_name(*key), os.O_RDONLY | os.O_CLOEXEC)
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)
        if directory.exists():
            sync_directory(directory)
    except (IsADirectoryError, PermissionError):
        return  # it cannot be read either, and counts as damaged
    except OSError as error:
        raise _store_error(directory, "cannot be synced", error) from error


def read_segments(directory: Path) -> list[Segment]:
    """Every segment in `directory`, in order of epochs and numbers; none where there is no directory.

    What cannot be opened as a file is a segment with `damage`.

    Raises:
        StoreError: the file system failed.
    """
    try:
        return [_read_segment(directory, *key) for key in _segment_keys(directory)]
    except OSError as error:
        raise _store_error(directory, "cannot be read", error) from error


def with_kept(segments: list[Segment], kept: Iterable[tuple[str, bytes]]) -> list[Segment]:
    """The segments of this directory, and what was kept elsewhere of incarnations that have none here, in order.

    An incarnation that wrote here has all its notes here. One that ran on another machine has left what it kept.

    Args:
        segments: of the directory.
        kept: names and bytes of segments.
    """
    here = {segment.epoch for segment in segments}
    elsewhere = [segment for segment in (_decode_kept(*one) for one in kept) if segment.epoch not in here]
    return sorted([*segments, *elsewhere], key=lambda segment: (segment.epoch, segment.first_sequence))


def _decode_kept(name: str, data: bytes) -> Segment:
    segment = decode_segment(data)
    match = _FILE_NAME.fullmatch(name)
    if not segment.epoch and match is not None:
        return replace(segment, epoch=int(match[1]), first_sequence=int(match[2]), name=name)
    return replace(segment, name=name)


def _read_segment(directory: Path, epoch: int, first_sequence: int) -> Segment:
    name = _segment_name(epoch, first_sequence)
    try:
        segment = decode_segment((directory / name).read_bytes())
    except (IsADirectoryError, PermissionError) as error:
        segment = Segment(0, 0, damage=f"cannot be read: {error.strerror}")
    if not segment.epoch:
        return replace(segment, epoch=epoch, first_sequence=first_sequence, name=name)
    if (segment.epoch, segment.first_sequence) != (epoch, first_sequence):
        damage = f"was written as {_segment_name(segment.epoch, segment.first_sequence)}"
        return Segment(epoch, first_sequence, damage=damage, name=name)
    return replace(segment, name=name)


def _segment_name(epoch: int, first_sequence: int) -> str:
    return f"{epoch:020d}-{first_sequence:020d}.log"


def _segment_keys(directory: Path) -> list[tuple[int, int]]:
    if not directory.exists():
        return []
    matches = (_FILE_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted((int(match[1]), int(match[2])) for match in matches if match)


def _store_error(path: Path, what: str, error: OSError) -> StoreError:
    return StoreError(f"{path}: {what}: {error.strerror or error}")
