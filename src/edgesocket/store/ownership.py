"""Who runs a job: a lock file and a heartbeat, so that a second start refuses politely.

This is courtesy, not the fence: two processes may both believe that they own the job (a stopped one that wakes up, a
shared directory without working locks), and the commit log decides (checkpoint/commit_log.py). What is here keeps
that from happening by accident, names the holder, and lets a starter take over from a dead one without waiting.

- `lock` is held with flock(2) for as long as the process lives; the file stays, the lock does not.
- `beat` is replaced every second: host, kernel, pid, epoch, a counter, since when; padded to one size, so that a full
  disk does not stop it.

A starter that gets the lock, on the kernel where the last beat came from a lock holder, knows that the holder is dead.
Any other starter watches the beat for the lease, on its own clock: no two clocks are ever compared.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from edgesocket.errors import FencedError, NotOwnerError, StoreError
from edgesocket.store.durable import PRIVATE_FILE, make_directory, write_all
from edgesocket.store.identity import HostIdentity, host_identity

LEASE_MS = 3000
BEAT_MS = 1000
_LOOKS_A_LEASE = 30
_BEAT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Beat:
    """What the owner says of itself.

    Attributes:
        counter: changes with every beat.
        since_ms: Unix time in ms at which it became the owner.
        locked: whether it holds the lock file, and knows that no earlier owner is at work: only then does its death
            say that nobody is.
        closed: it has ended and said so.
    """

    job: str
    host: str
    boot: str
    pid: int
    epoch: int
    counter: int
    since_ms: int
    locked: bool
    closed: bool = False

    @property
    def holder(self) -> str:
        """Pid, host and since when, for people."""
        since = datetime.fromtimestamp(self.since_ms / 1000, tz=UTC)
        return f"pid {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"


def read_beat(directory: Path) -> Beat | None:
    """The newest beat in a state directory; None where there is none, or no readable one."""
    return _parse_beat(_read_bytes(directory / "beat"))


class Owner:
    """One process's hold on a job's state directory.

    Use: `watch`, then claim through the commit log, then `start(epoch)`, then `beat` every `BEAT_MS`; `close` at the
    end. One thread beats; `wait_until_alone` and `is_overdue` may be called beside it. A child made by fork shares the
    lock and keeps it alive.

    Args:
        directory: the state directory; made if missing.
        job: the job's name, for messages.
        host: this host; for tests.
        pid: this process; for tests.
        wall_ms: Unix time in ms.
    """

    def __init__(
        self,
        directory: Path,
        job: str,
        *,
        host: HostIdentity | None = None,
        pid: int | None = None,
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        host = host or host_identity()
        self._host = host
        self._lock_path = directory / "lock"
        self._beat_path = directory / "beat"
        self._wall_ms = wall_ms
        self._lock: int | None = None
        self._lease_s = LEASE_MS / 1000
        self._clock: Callable[[], float] = time.monotonic
        self._sleep: Callable[[float], None] = time.sleep
        self._beaten_at: float | None = None
        self._before: Beat | None = None
        self._alone = False
        self._mine = Beat(job, host.host, host.boot, pid or os.getpid(), 0, 0, 0, locked=False)
        try:
            make_directory(directory)
        except OSError as error:
            raise StoreError(f"{directory}: {error.strerror or error}") from error

    @property
    def has_lock(self) -> bool:
        """Whether the lock file is held; an owner that took over from a stopped process gets it later."""
        return self._lock is not None

    def watch(
        self,
        lease_ms: int = LEASE_MS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        take_over: bool = False,
    ) -> None:
        """Find out whether the job may be claimed; takes `lease_ms` unless the last owner is known to be gone.

        Args:
            lease_ms: how long a live owner may be silent.
            clock: monotonic seconds; also the clock of `beat` and `is_overdue`.
            sleep: waits a number of seconds.
            take_over: claim without watching; a live owner is fenced by the claim (see `wait_until_alone`).

        Raises:
            NotOwnerError: a live owner beats. Nothing was touched, the lock is not held.
            StoreError: the directory failed.
        """
        self._lease_s = lease_ms / 1000
        self._clock, self._sleep = clock, sleep
        first = _read_bytes(self._beat_path)
        seen, started = first, clock()
        while True:
            self._try_lock()
            self._alone = self._last_owner_is_gone(_parse_beat(seen))
            if take_over or self._alone:
                break
            if seen != first:
                self._unlock()
                raise self._not_owner(_parse_beat(seen))
            if clock() - started >= self._lease_s:
                self._alone = True
                break
            sleep(self._lease_s / _LOOKS_A_LEASE)
            seen = _read_bytes(self._beat_path)
        self._before = _parse_beat(seen)
        self._mine = replace(self._mine, since_ms=self._wall_ms())
        if self.has_lock:
            # Who starts at the same moment on this host sees a beat, and learns by whom.
            self._write_beat(self._next_beat())

    def start(self, epoch: int) -> None:
        """The claim with `epoch` is in the log: beat as its owner from here on. Raises as `beat`."""
        self._mine = replace(self._mine, epoch=epoch)
        self.beat()

    def wait_until_alone(self) -> None:
        """After `start`, return when no earlier owner can answer a collector any more.

        Returns at once unless a live owner was taken over. That one goes on until it notices: when it beats, it sees
        the beat of `start`; when it cannot beat, it is overdue. So it is silent a lease later, and known to be gone
        as soon as it lets go of the lock.
        """
        deadline = self._clock() + self._lease_s
        while not self._alone and self._clock() < deadline:
            self._sleep(self._lease_s / _LOOKS_A_LEASE)
            self._try_lock()
            self._alone = self._last_owner_is_gone(self._before)
        self._alone = True

    def beat(self) -> None:
        """Say that this owner lives; call it every `BEAT_MS`. Takes the lock when it has become free.

        Raises:
            FencedError: the beat of a later epoch is there, or the lease has run out since the last good beat (this
                process was stopped, or the directory was away).
            StoreError: the beat could not be written; go on, `is_overdue` tells when that is too long.
        """
        now = self._clock()
        if self.is_overdue(now):
            raise FencedError(f"job {self._mine.job}: no beat could be written for {self._lease_s:g} s")
        other = read_beat(self._beat_path.parent)
        if other is not None and other.epoch > self._mine.epoch:
            raise FencedError(f"job {self._mine.job} was taken over by {other.holder}")
        self._try_lock()
        self._write_beat(self._next_beat())
        self._beaten_at = now

    def is_overdue(self, now: float) -> bool:
        """Whether the last good beat is a lease ago: others may have claimed, so close without another byte."""
        return self._beaten_at is not None and now - self._beaten_at > self._lease_s

    def close(self) -> None:
        """Let go: the next starter, on any host, need not wait. Call it when nothing is written any more.

        May be called at any time and twice; the beat of another owner is left alone.
        """
        try:
            other = read_beat(self._beat_path.parent)
            # Whoever goes while the owner before it may still be at work leaves it to the next one to wait for that.
            if other is not None and not other.closed and self._alone and _same_process(other, self._mine):
                self._write_beat(replace(self._next_beat(), closed=True))
        except StoreError:
            pass  # a starter on another host then waits for the lease, nothing worse
        self._beaten_at = None
        self._unlock()

    def _last_owner_is_gone(self, last: Beat | None) -> bool:
        if not self.has_lock:
            return False
        if last is None:
            return not self._beat_path.exists()
        return last.closed or (last.locked and self._host.same_kernel(last.boot))

    def _not_owner(self, beat: Beat | None) -> NotOwnerError:
        holder = beat.holder if beat else "another process"
        return NotOwnerError(
            f"job {self._mine.job} runs already: {holder}. Stop it first, or take it over with --take-over"
        )

    def _next_beat(self) -> Beat:
        self._mine = replace(self._mine, counter=self._mine.counter + 1, locked=self.has_lock and self._alone)
        return self._mine

    def _write_beat(self, beat: Beat) -> None:
        data = json.dumps(asdict(beat)).encode("ascii").ljust(_BEAT_BYTES)
        fresh = self._beat_path.with_name(f".beat-{beat.pid}-{id(self):x}")
        try:
            try:
                _write_file(fresh, os.O_CREAT | os.O_TRUNC, data)
                fresh.replace(self._beat_path)
            except OSError:
                # A full disk is no reason to lose the job: what is there already can be written over.
                _write_file(self._beat_path, 0, data)
                fresh.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self._beat_path}: cannot be written: {error.strerror or error}") from error

    def _try_lock(self) -> None:
        if self._lock is not None:
            return
        try:
            fd = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise StoreError(f"{self._lock_path}: cannot be opened: {error.strerror or error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # Held by another, or a file system without locks: then the beat alone decides.
            os.close(fd)
        else:
            self._lock = fd

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _write_file(path: Path, flags: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, PRIVATE_FILE)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error


def _parse_beat(data: bytes | None) -> Beat | None:
    if data is None:
        return None
    try:
        beat = Beat(**json.loads(data))
    except (ValueError, TypeError):
        return None
    numbers = (beat.pid, beat.epoch, beat.counter, beat.since_ms)
    return beat if all(type(number) is int and 0 <= number < 2**45 for number in numbers) else None


def _same_process(one: Beat, other: Beat) -> bool:
    return (one.host, one.boot, one.pid, one.epoch) == (other.host, other.boot, other.pid, other.epoch)
