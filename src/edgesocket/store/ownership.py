"""Who runs a job whose state is a directory: a lock file and a heartbeat, so that a second start refuses politely.

This is courtesy, not the fence: two processes may both believe that they own the job (a stopped one that wakes up, a
shared directory without working locks), and the commit log decides (checkpoint/commit_log.py). What is here keeps
that from happening by accident, names the holder, and lets a starter take over from a dead one without waiting.

- `lock` is held with flock(2) for as long as the process lives; the file stays, the lock does not.
- `beat` is written over every second, padded to one size, so that a full disk does not stop it. Who reads it in that
  very moment may find what is no beat, and looks again.

The rules are in lease.py.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from edgesocket.errors import StoreError
from edgesocket.store.durable import PRIVATE_FILE, make_directory, write_all
from edgesocket.store.identity import HostIdentity
from edgesocket.store.lease import LEASE_MS, Beat, LeasedOwner, encode_beat, parse_beat, wall_clock_ms

__all__ = ["LEASE_MS", "Beat", "Owner", "read_beat"]

_BEAT_BYTES = 1024
_READS = 3
_LOOK_AGAIN_S = 0.005


def read_beat(directory: Path) -> Beat | None:
    """The newest beat in a state directory; None where there is none, or no readable one."""
    for _ in range(_READS):
        data = _read_bytes(directory / "beat")
        beat = parse_beat(data)
        if beat is not None or data is None:
            return beat
        time.sleep(_LOOK_AGAIN_S)
    return None


class Owner(LeasedOwner):
    """One process's hold on a job's state directory; see LeasedOwner.

    A child made by fork shares the lock and keeps it alive.

    Args:
        directory: the state directory; made if missing.
        job, host, pid, wall_ms: see LeasedOwner.
    """

    def __init__(
        self,
        directory: Path,
        job: str,
        *,
        host: HostIdentity | None = None,
        pid: int | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        super().__init__(job, host=host, pid=pid, wall_ms=wall_ms)
        self._lock_path = directory / "lock"
        self._beat_path = directory / "beat"
        self._lock: int | None = None
        try:
            make_directory(directory)
        except OSError as error:
            raise StoreError(f"{directory}: {error.strerror or error}") from error

    @property
    def has_lock(self) -> bool:
        """Whether the lock file is held; an owner that took over from a stopped process gets it later."""
        return self._lock is not None

    def _held_this_lock(self, last: Beat) -> bool:
        return self._host.same_kernel(last.boot)

    def _read(self) -> bytes | None:
        return _read_bytes(self._beat_path)

    def _write(self, beat: Beat) -> None:
        data = encode_beat(beat).ljust(_BEAT_BYTES)
        try:
            try:
                # Written over: that needs no room on a full disk, and a fraction of the time that a new file takes.
                _write_file(self._beat_path, 0, data)
            except FileNotFoundError:
                self._write_first(data)
        except OSError as error:
            raise StoreError(f"{self._beat_path}: cannot be written: {error.strerror or error}") from error

    def _write_first(self, data: bytes) -> None:
        """Make the file, whole from its first moment on."""
        fresh = self._beat_path.with_name(f".beat-{os.getpid()}-{id(self):x}")
        try:
            _write_file(fresh, os.O_CREAT | os.O_TRUNC, data)
            fresh.replace(self._beat_path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise

    def _try_lock(self) -> None:
        if self._lock is None:
            self._lock = lock_file(self._lock_path)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def lock_file(path: Path) -> int | None:
    """Take a lock that lives as long as its descriptor. None: another has it, or the file system knows no locks.

    Raises:
        StoreError: the file cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened: {error.strerror or error}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # Held by another, or a file system without locks: then the beat alone decides.
        os.close(fd)
        return None
    return fd


def _write_file(path: Path, flags: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, PRIVATE_FILE)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def _read_bytes(path: Path) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 2 * _BEAT_BYTES)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
