"""One job a port, also in the time when its listener is closed.

While a collector is connected the listening socket is closed, and another process could bind the port; two jobs would
then take turns in stealing it. So each job holds a lock on a file named after the port for as long as it lives. The
lock is the kernel's (`flock`): it ends with the process, however that dies. What the file says (pid and job of the
holder) only serves the error text of the one who comes second.

The file lies in one directory for all users of the host, because they share its ports, and can be written by all of
them (mode 0666), because whoever comes next has to put its own name in. Nothing in it is secret or trusted. As anyone
may put anything under that name, it is opened without following links or waiting for a pipe, and must be a plain file
with one name. Ports belong to a network namespace, so its number is part of the name: containers that share the
directory but not the network do not meet.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import string
from pathlib import Path

_OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HOLDER_CHARS = frozenset(string.ascii_letters + string.digits + " _-.,:/")
_MAX_HOLDER_CHARS = 200


class PortHeldError(OSError):
    """Another live job holds the port. An `EADDRINUSE` like the one of bind(), and retried like it."""

    def __init__(self, holder: str) -> None:
        super().__init__(errno.EADDRINUSE, f"the port belongs to another EdgeSocket job{holder and f' ({holder})'}")


class LockUnusableError(OSError):
    """The lock file cannot be used at all: read-only directory, no `flock`, something odd under its name."""


class PortLock:
    """The right to use one port on this host.

    Not thread-safe. Take a new object after a fork: a forked child shares its parent's lock.
    """

    def __init__(self, directory: str, job: str) -> None:
        self._directory = Path(directory)
        self._job = job
        self._fd = -1
        self._path = Path()

    @property
    def held(self) -> bool:
        """Whether this object holds its lock now."""
        return self._fd >= 0

    def acquire(self, port: int) -> None:
        """Take the lock of `port`, without waiting. Does nothing when it is held already.

        Raises:
            PortHeldError: another live process, or another server of this one, has it.
            LockUnusableError: nobody can have it here.
        """
        if self.held:
            return
        path = self._directory / f"edgesocket-port-{port}{_network()}.lock"
        try:
            while not self._try(path):
                pass
        except PortHeldError:
            raise
        except OSError as error:
            raise LockUnusableError(error.errno, f"{path}: {error.strerror}") from error

    def refresh(self) -> None:
        """Show that the file is in use, so that cleaners of temporary directories let it be."""
        if self.held:
            try:
                os.utime(self._fd)
            except OSError:
                pass

    def release(self) -> None:
        """Give the lock back and remove its file (where the directory allows it)."""
        if not self.held:
            return
        fd, self._fd = self._fd, -1
        try:
            # Still locked, so this is our file: whoever opens it from now on sees that its name is gone.
            self._path.unlink()
        except OSError:
            pass
        finally:
            os.close(fd)

    def _try(self, path: Path) -> bool:
        """One try. False when the file was removed under our hands, so that the lock would guard nothing."""
        fd = _open(path)
        try:
            _check_plain(fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PortHeldError(_read_holder(fd)) from None
            if not _is_at(fd, path):
                return False
            _write_holder(fd, f"pid {os.getpid()}, job {self._job or '-'}\n")
            self._fd, self._path, fd = fd, path, -1
            return True
        finally:
            if fd >= 0:
                os.close(fd)


def _network() -> str:
    """`-net<number>` of this process's network namespace; empty where there are none."""
    try:
        return f"-net{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return ""


def _open(path: Path) -> int:
    """Open the file, making it where needed.

    Existing files are opened without O_CREAT: Linux refuses to "create" another user's file in a shared directory.
    """
    while True:
        try:
            return os.open(path, os.O_RDWR | _OPEN_FLAGS)
        except FileNotFoundError:
            pass
        except PermissionError:
            return os.open(path, os.O_RDONLY | _OPEN_FLAGS)  # enough to lock, not to leave our name
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o666)
        except FileExistsError:
            continue
        os.fchmod(fd, 0o666)  # nosec B103 - the umask does not know that this file is shared
        return fd


def _check_plain(fd: int) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise OSError(errno.EINVAL, "not a plain file")


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def _write_holder(fd: int, text: str) -> None:
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode(), 0)
    except OSError:
        pass  # a file of another user, or a full disk: the lock holds without the name


def _read_holder(fd: int) -> str:
    """What the holder wrote, made harmless for a log line: any user of the host can write there."""
    try:
        text = os.pread(fd, _MAX_HOLDER_CHARS, 0).decode("ascii", errors="replace")
    except OSError:
        return ""
    return "".join(c if c in _HOLDER_CHARS else "?" for c in text.rstrip("\n"))
