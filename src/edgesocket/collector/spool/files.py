"""Every call to the file system that a spool makes. Tests put failures in its place."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgesocket.errors import CollectorError
from edgesocket.store.durable import PRIVATE_FILE, make_directory, sync_directory, sync_file, write_all

_BUFFERS_A_WRITE = 512
_BLOCK_BYTES = 4096
_LOCK_TRIES = 5
_LOCK_WAIT_S = 0.02
_UNREADABLE = (errno.EIO, errno.EUCLEAN) if hasattr(errno, "EUCLEAN") else (errno.EIO,)


class Files:
    """The real file system. Every method raises OSError as the system call does. Thread-safe."""

    def make_directory(self, directory: Path) -> None:
        """Make a directory, durably; one that is there is fine."""
        make_directory(directory)

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted; none where there is no directory."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def create(self, path: Path, *, append: bool = True) -> int:
        """Make a file that is not there yet, to append to (or to write anywhere)."""
        mode = os.O_APPEND if append else 0
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | mode, PRIVATE_FILE)

    def open(self, path: Path, *, write: bool = False) -> int:
        """Open a plain file that is there."""
        return os.open(path, (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW)

    def close(self, fd: int) -> None:
        """Close a file."""
        os.close(fd)

    def size(self, path: Path) -> int:
        """Size of a plain file. Anything else under that name is an OSError too."""
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EISDIR, "it is no plain file")
        return found.st_size

    def write(self, fd: int, buffers: Sequence[bytes | memoryview]) -> None:
        """Append every byte of the buffers, or raise with an unknown part of them written."""
        for start in range(0, len(buffers), _BUFFERS_A_WRITE):
            some = buffers[start : start + _BUFFERS_A_WRITE]
            written = os.writev(fd, some)
            if written < sum(map(len, some)):
                write_all(fd, memoryview(b"".join(some))[written:])

    def write_at(self, fd: int, offset: int, data: bytes) -> None:
        """Put bytes at a place, or raise with an unknown part of them written."""
        written = 0
        while written < len(data):
            written += os.pwrite(fd, data[written:], offset + written)

    def read(self, fd: int, offset: int, length: int) -> bytes:
        """The bytes there, fewer only at the end of the file."""
        return os.pread(fd, length, offset)

    def sync(self, fd: int) -> None:
        """Make a file's bytes durable."""
        sync_file(fd)

    def sync_directory(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        sync_directory(directory)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name; one that is there under the new name is replaced."""
        old.rename(new)

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing one is no error."""
        path.unlink(missing_ok=True)


class SegmentBytes:
    """An open segment as `frames.walk` reads it. Parts that the disk cannot read come as zeros: they fail as frames."""

    def __init__(self, files: Files, path: Path) -> None:
        """Raises OSError where it cannot be opened."""
        self._files = files
        self._fd: int | None = files.open(path)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file."""
        assert self._fd is not None
        try:
            return self._read_all(offset, length)
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
        parts = []
        for start in range(offset, offset + length, _BLOCK_BYTES):
            wanted = min(_BLOCK_BYTES, offset + length - start)
            try:
                parts.append(self._read_all(start, wanted))
            except OSError as error:
                if error.errno not in _UNREADABLE:
                    raise
                parts.append(bytes(wanted))
        return b"".join(parts)

    def _read_all(self, offset: int, length: int) -> bytes:
        assert self._fd is not None
        data = self._files.read(self._fd, offset, length)
        while 0 < len(data) < length:
            more = self._files.read(self._fd, offset + len(data), length - len(data))
            if not more:
                break
            data += more
        return data

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None


_GIVEN = re.compile(r"^ids given from (\d{1,19})$", re.MULTILINE | re.ASCII)


class SpoolLock:
    """The right to change a spool. The kernel's (flock): it ends with the process, however that dies.

    The file says who has it, and which segment got ids last: so it shows when that one is gone.

    Attributes:
        given_from: first id of that segment, 0 for none.
    """

    def __init__(self, path: Path) -> None:
        """Take it without waiting.

        Raises:
            CollectorError: another process, or another spool of this one, has it; or it cannot be had here.
        """
        directory = path.parent
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
        except OSError as error:
            raise CollectorError(f"the spool {directory} cannot be used: {path}: {error.strerror}") from error
        try:
            self._take()
        except OSError as error:
            holder = _read_text(self._fd).partition("\n")[0] if is_held(error) else ""
            os.close(self._fd)
            if is_held(error):
                by = f" by {holder}" if holder else ""
                raise CollectorError(f"the spool {directory} is in use{by}: two agents cannot share one") from None
            raise CollectorError(f"the spool {directory} cannot be locked: {error.strerror}") from error
        given = _GIVEN.search(_read_text(self._fd))
        self.given_from = 0 if given is None else int(given[1])
        self._write()

    def note_given(self, first_id: int) -> None:
        """Note which segment got ids last. A help after somebody removed files, so it need not be durable."""
        self.given_from = first_id
        self._write()

    def _write(self) -> None:
        text = f"process {os.getpid()} on {socket.gethostname()}\nids given from {self.given_from}\n".encode()
        with suppress(OSError):  # a full disk
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))

    def _take(self) -> None:
        for _ in range(_LOCK_TRIES):  # whoever looks at a spool holds the lock for a moment
            try:
                return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if not is_held(error):
                    raise
            time.sleep(_LOCK_WAIT_S)
        return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Let go of it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_held(error: OSError) -> bool:
    """Whether somebody else has the lock."""
    return error.errno in (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)


def lock_holder(path: Path) -> str | None:
    """Who has the lock, as its file says; None for nobody. Changes nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return (_read_text(fd).partition("\n")[0] or "somebody") if is_held(error) else None
    finally:
        os.close(fd)
    return None


def _read_text(fd: int) -> str:
    try:
        return os.pread(fd, 500, 0).decode("utf-8", "replace")
    except OSError:
        return ""
