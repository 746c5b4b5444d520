"""The state store in a directory of the local (or a shared POSIX) file system.

A file is made in six steps: temp file in the same directory, write, fsync, link(2) to its name, unlink of the temp
file, fsync of the directory. link(2) refuses an existing name atomically, so of several processes exactly one makes
a file, and nobody ever sees half of one.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TypeVar
from zlib import crc32

from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.effects import Create, List, Procedure, Read, Remove, StoreEffect
from edgesocket.errors import DamagedStateError, StoreError
from edgesocket.store.durable import PRIVATE_FILE, make_directory, sync_directory, sync_file, write_all
from edgesocket.store.identity import host_identity

T = TypeVar("T")

LISTING_LIMIT_S = 1.0
"""A listing that took longer is done again: see commit_log.py, "what this asks of a store"."""
_LISTINGS = 100
_FOREIGN_TEMP_AGE_S = 24 * 3600

_NOT_A_FILE = {errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO}
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class LocalStore:
    """Performs the store's effects on files below one directory.

    Files are 0600, directories 0700; both are made as needed. Thread-safe. Opening it removes temp files of dead
    processes.

    Guarantees: `Create` is exclusive among all processes on the same file system, and durable when it returns.
    A file that another process has made but not yet synced becomes durable with our next `Create` in its directory.
    `Remove` is not synced: a removed file may be back after a power cut.

    Args:
        directory: where the files live.
        fault: for tests: called with a fault point and the file's name in one text (`create.linked log/7.json`);
            points are create.before, create.half-written, create.written, create.synced, create.linked, create.done.
    """

    def __init__(self, directory: Path, *, fault: Callable[[str], None] | None = None) -> None:
        self.directory = directory
        self._fault = fault
        self._counter = itertools.count()
        self._sync_lock = threading.Lock()
        self._unsynced: set[Path] = set()
        self._temp_prefix = f".tmp-{_host_tag()}-{os.getpid()}-{id(self):x}-"
        try:
            make_directory(directory)
            self._remove_dead_temp_files()
        except OSError as error:
            raise StoreError(f"{directory}: {_text(error)}") from error

    def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure of store effects to its end and return its result."""
        return drive(procedure, self.perform)

    def perform(self, effect: StoreEffect) -> bool | bytes | list[str] | None:
        """Do one effect.

        Returns:
            Create: whether it was made. Read: the bytes, or None. List: names as Read takes them. Remove: None.

        Raises:
            DamagedStateError: Read of something that is there but is no readable file; it is named.
            StoreError: the file system failed. After Create it is unknown whether the file is there.
        """
        match effect:
            case Create(name, data):
                return self._create(name, data)
            case Read(name):
                return self._read(name)
            case List(prefix):
                return self._list(prefix)
            case Remove(name):
                self._remove(name)
                return None
        raise TypeError(f"a store does not perform {effect!r}")

    def _create(self, name: str, data: bytes) -> bool:
        self._at("create.before", name)
        path = self._path(name)
        temp = path.with_name(f"{self._temp_prefix}{next(self._counter)}")
        try:
            make_directory(path.parent)
            self._sync_names(path.parent)
            try:
                self._write(temp, name, data)
                made = _link(temp, path)
                if made:
                    self._at("create.linked", name)
            finally:
                _unlink_quietly(temp)
            if made:
                sync_directory(path.parent)
                self._at("create.done", name)
        except BaseException as error:
            # The name may be there, but not durably: nobody may rely on what is in this directory before a sync.
            self._unsynced.add(path.parent)
            if isinstance(error, OSError):
                raise StoreError(f"{path}: cannot be created: {_text(error)}") from error
            raise
        return made

    def _write(self, temp: Path, name: str, data: bytes) -> None:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            if self._fault is None:
                write_all(fd, data)
            else:
                half = len(data) // 2
                write_all(fd, data[:half])
                self._at("create.half-written", name)
                write_all(fd, data[half:])
            self._at("create.written", name)
            sync_file(fd)
            self._at("create.synced", name)
        finally:
            os.close(fd)

    def _read(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            self._sync_names(path.parent)
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _NOT_A_FILE:
                raise DamagedStateError(name, f"cannot be read: {_text(error)}") from error
            raise StoreError(f"{path}: cannot be read: {_text(error)}") from error

    def _list(self, prefix: str) -> list[str]:
        path = self._path(prefix)
        try:
            self._sync_names(path)
            for _ in range(_LISTINGS):
                started = _clock()
                names = os.listdir(path)  # noqa: PTH208  this is per checkpoint, and half the cost of iterdir
                if _clock() - started <= LISTING_LIMIT_S:
                    start = f"{prefix}/" if prefix else ""
                    return sorted(start + name for name in names if not name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{path}: cannot be listed: {_text(error)}") from error
        raise StoreError(f"{path}: listing it takes longer than {LISTING_LIMIT_S} s")

    def _remove(self, name: str) -> None:
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be removed: {_text(error)}") from error

    def _sync_names(self, directory: Path) -> None:
        """After a failed create, nothing in the directory may be relied on before a sync has succeeded."""
        with self._sync_lock:
            if directory in self._unsynced and directory.is_dir():
                sync_directory(directory)
                self._unsynced.discard(directory)

    def _path(self, name: str) -> Path:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise ValueError(f"{name!r} is not a name inside the store")
        return self.directory / relative

    def _at(self, point: str, name: str) -> None:
        if self._fault is not None:
            self._fault(f"{point} {name}")

    def _remove_dead_temp_files(self) -> None:
        for directory, _, files in os.walk(self.directory):
            for file in files:
                path = Path(directory, file)
                if file.startswith(".tmp-") and _is_left_over(path):
                    path.unlink(missing_ok=True)


def _link(temp: Path, path: Path) -> bool:
    """Give the temp file its name. False where the name is taken."""
    try:
        path.hardlink_to(temp)
    except OSError as error:
        # A network file system may repeat a link whose answer was lost, and report the second one's failure.
        if temp.stat().st_nlink == 2:
            return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno in _NO_HARD_LINKS:
            raise StoreError(
                f"{path.parent}: this file system makes no hard links ({_text(error)}), and without them two "
                "processes could both believe that they own the job; choose another state directory"
            ) from error
        raise
    return True


def _unlink_quietly(temp: Path) -> None:
    """A temp file that stays behind does no harm; the next open of the store removes it."""
    try:
        temp.unlink(missing_ok=True)
    except OSError:
        pass


def _is_left_over(path: Path) -> bool:
    """Whether the process that was writing a temp file is dead. Removing a live one's only fails its create."""
    _, tag, pid, *_ = [*path.name.split("-"), "", ""]
    if tag == _host_tag() and pid.isdecimal():
        return not _is_alive(int(pid))
    try:
        return time.time() - path.stat().st_mtime > _FOREIGN_TEMP_AGE_S
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _host_tag() -> str:
    identity = host_identity()
    return f"{crc32(f'{identity.host} {identity.boot}'.encode()):08x}"


def _text(error: OSError) -> str:
    return error.strerror or str(error)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where there is a choice, the clock that goes on while the machine is suspended: others may have gone on, too."""


def _clock() -> float:
    return time.clock_gettime(_CLOCK)
