"""The local directory of an arrival log whose state lies in a bucket: whose notes are they, and is anybody at work?

`lock` is held with flock(2) by the process that owns the job here. It also holds a random word, which the holder puts
into its beat: so a starter that finds a beat in the bucket knows whether its writer held this very file (the same
kernel is not enough: two containers on one machine have two directories).

`arrivals/marks` names the incarnations whose notes lie beside it. An incarnation adds its own mark before the commit
log learns of it, so whenever the newest mark in the log is one of these, the notes are those of that incarnation,
whole as far as the kernel has them. In every other case (a fresh disk, a stay from before the job moved away and back,
the job of another life) they belong to a branch of history that has no future, and go before a note is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tempfile
from pathlib import Path

from edgesocket.errors import StoreError
from edgesocket.store.durable import PRIVATE_FILE, make_directory, sync_directory, sync_file, write_all
from edgesocket.store.ownership import lock_file

SCRATCH_VARIABLE = "EDGESOCKET_SCRATCH"
"""Environment variable that names the directory in which arrival logs lie whose states are in a bucket."""

LOG_AGE_MS = 3600 * 1000
"""A listing in a bucket shows what there is and is over in seconds, so entries of the commit log need not be kept for a
day against listings that do neither; every entry less makes a start and a listing faster."""

_LOCK_WORD_BYTES = 32


def scratch_directory(name: str, identity: str) -> Path:
    """Where the arrival log of a job lies whose state does not lie here.

    Args:
        name: of the job, for people.
        identity: of the place of its state: another place, another directory.
    """
    root = os.environ.get(SCRATCH_VARIABLE) or _default_root()
    tag = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return Path(root).absolute() / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:64]}-{tag}"


def _default_root() -> str:
    home = os.environ.get("XDG_STATE_HOME") or (os.environ.get("HOME") and f"{os.environ['HOME']}/.local/state")
    return f"{home}/edgesocket" if home else f"{tempfile.gettempdir()}/edgesocket-{os.getuid()}"


class ScratchDirectory:
    """See components.state.Scratch. One object a process and place; one owner at a time uses it."""

    log_age_ms = LOG_AGE_MS

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.word = ""
        """The word in the lock file while it is held by this process."""
        self.word_before = ""
        """The word that the holder before had put there."""
        self._lock: int | None = None

    @property
    def directory(self) -> Path:
        """See Scratch."""
        return self._directory

    @property
    def locked(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock is not None

    def try_lock(self) -> None:
        """Take the lock if it is free. Raises StoreError."""
        if self._lock is not None:
            return
        try:
            make_directory(self.directory)
        except OSError as error:
            raise self._failed(error) from error
        fd = lock_file(self.directory / "lock")
        if fd is None:
            return
        try:
            self.word_before = os.pread(fd, _LOCK_WORD_BYTES, 0).decode("ascii", "replace")
            self.word = secrets.token_hex(_LOCK_WORD_BYTES // 2)
            os.pwrite(fd, self.word.encode(), 0)
        except OSError as error:
            os.close(fd)
            raise self._failed(error) from error
        self._lock = fd

    def unlock(self) -> None:
        """Let go of the lock, if it is held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def marks(self) -> frozenset[str]:
        """See Scratch."""
        if not self.locked:
            return frozenset()
        try:
            found = json.loads(self._marks_path.read_bytes())
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise self._failed(error) from error
        except ValueError:
            return frozenset()
        return (
            frozenset(mark for mark in found if isinstance(mark, str) and mark)
            if isinstance(found, list)
            else frozenset()
        )

    def begin(self, mark: str, *, goes_on_from: str | None) -> None:
        """See Scratch."""
        arrivals = self._marks_path.parent
        try:
            make_directory(arrivals)
            if goes_on_from is None:
                for path in arrivals.iterdir():
                    path.unlink(missing_ok=True)
                sync_directory(arrivals)
            self._write_marks([*([goes_on_from] if goes_on_from else []), mark])
        except OSError as error:
            raise self._failed(error) from error

    @property
    def _marks_path(self) -> Path:
        return self.directory / "arrivals" / "marks"

    def _write_marks(self, marks: list[str]) -> None:
        fresh = self._marks_path.with_name(f".marks-{os.getpid()}")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            write_all(fd, json.dumps(marks).encode())
            sync_file(fd)
        finally:
            os.close(fd)
        fresh.replace(self._marks_path)
        sync_directory(self._marks_path.parent)

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(f"{self.directory}: {error.strerror or error}")
