"""Who runs a job, as far as a lease can tell: the rules, for any kind of place. See ownership.py and object_owner.py.

An owner replaces its *beat* again and again: host, kernel, pid, epoch, a counter, since when. A starter that holds the
lock, and sees that the last beat came from a holder of this very lock, knows that the holder is dead. Any other
starter watches the beat for the lease, on its own clock: no two clocks are ever compared.

Owners may have different leases. A beat names the longest one that somebody may still live by: its own, and until its
owner is alone, those before it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from edgesocket.errors import FencedError, NotOwnerError, StoreError
from edgesocket.store.identity import HostIdentity, host_identity

LEASE_MS = 3000

Waits = Generator[float, None, None]
"""Gives the seconds to wait before it is asked to go on, until it has no more to wait for."""


def wall_clock_ms() -> int:
    """Unix time in ms."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Beat:
    """What the owner says of itself.

    Attributes:
        counter: changes with every beat.
        since_ms: Unix time in ms at which it became the owner.
        locked: whether it holds the lock file, and knows that no earlier owner is at work: only then does its death
            say that nobody is.
        closed: it has ended and said so.
        lock: which lock file it holds, where there may be several; empty: the one beside the beat.
        lease_ms: how long it may be silent before it falls silent for good, and whoever may be at work before it.
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
    lock: str = ""
    lease_ms: int = LEASE_MS

    @property
    def holder(self) -> str:
        """Pid, host and since when, for people."""
        since = datetime.fromtimestamp(self.since_ms / 1000, tz=UTC)
        return f"pid {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"


_FIELDS = tuple(field.name for field in fields(Beat))


def encode_beat(beat: Beat) -> bytes:
    """The bytes of a beat."""
    said = {name: getattr(beat, name) for name in _FIELDS}
    if beat.lease_ms == LEASE_MS:
        del said["lease_ms"]  # what readers without this field take it for
    return json.dumps(said).encode("ascii")


def parse_beat(data: bytes | None) -> Beat | None:
    """The beat in these bytes; None where there is none, or no readable one."""
    if data is None:
        return None
    try:
        said = json.loads(data)
        beat = Beat(**{name: said[name] for name in _FIELDS if name in said})  # a later version may say more
    except (ValueError, TypeError):
        return None
    numbers = (beat.pid, beat.epoch, beat.counter, beat.since_ms, beat.lease_ms)
    return beat if all(type(number) is int and 0 <= number < 2**45 for number in numbers) else None


class LeasedOwner(ABC):
    """One process's hold on a job; where beat and lock lie is for the subclass.

    Use: `watch`, then claim through the commit log, then `start(epoch)`, then `beat` several times in a lease; `close`
    at the end. One thread beats; `wait_until_alone` and `is_overdue` may be called beside it.

    Args:
        job: the job's name, for messages.
        host: this host; for tests.
        pid: this process; for tests.
        wall_ms: Unix time in ms.
    """

    looks_a_lease = 30
    """How often the beat is looked at while a lease is waited for."""

    def __init__(
        self,
        job: str,
        *,
        host: HostIdentity | None = None,
        pid: int | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        host = host or host_identity()
        self._host = host
        self._wall_ms = wall_ms
        self._lease_s = LEASE_MS / 1000
        self._longest_ms = LEASE_MS
        self._clock: Callable[[], float] = time.monotonic
        self._sleep: Callable[[float], None] = time.sleep
        self._beaten_at: float | None = None
        self._before: Beat | None = None
        self._alone = False
        self._closed = False
        self._one_at_a_time = threading.Lock()
        self._mine = Beat(job, host.host, host.boot, pid or os.getpid(), 0, 0, 0, locked=False)

    # ---- what a place does -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def has_lock(self) -> bool:
        """Whether the lock is held; an owner that took over from a stopped process gets it later."""

    @abstractmethod
    def _read(self) -> bytes | None:
        """The bytes of the newest beat, None where there is none. Raises StoreError."""

    @abstractmethod
    def _write(self, beat: Beat) -> None:
        """Replace the beat. Raises StoreError."""

    @abstractmethod
    def _try_lock(self) -> None:
        """Take the lock if it is free. Raises StoreError."""

    @abstractmethod
    def _unlock(self) -> None:
        """Let go of the lock, if it is held."""

    @abstractmethod
    def _held_this_lock(self, last: Beat) -> bool:
        """Whether the process of a beat held the lock that we hold now."""

    def _lock_id(self) -> str:
        """What `Beat.lock` says while the lock is held."""
        return ""

    # ---- the rules ---------------------------------------------------------------------------------------------------

    def watch(
        self,
        lease_ms: int = LEASE_MS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        take_over: bool = False,
    ) -> None:
        """Find out whether the job may be claimed; takes a lease unless the last owner is known to be gone.

        Args:
            lease_ms: how long this owner may be silent. The one before it had its own, which is waited for where it is
                longer.
            clock: monotonic seconds; also the clock of `beat` and `is_overdue`.
            sleep: waits a number of seconds.
            take_over: claim without watching; a live owner is fenced by the claim (see `wait_until_alone`).

        Raises:
            NotOwnerError: a live owner beats. Nothing was touched, the lock is not held.
            StoreError: the place failed.
        """
        self._sleep = sleep
        for seconds in self.watching(lease_ms, clock, take_over=take_over):
            sleep(seconds)

    def watching(self, lease_ms: int, clock: Callable[[], float], *, take_over: bool) -> Waits:
        """`watch`, for whoever waits in another way than by sleeping. Arguments and errors as there."""
        self._lease_s, self._longest_ms = lease_ms / 1000, lease_ms
        self._clock = clock
        first = self._read()
        seen, started = first, clock()
        while True:
            self._try_lock()
            self._alone = self._last_owner_is_gone(seen)
            if take_over or self._alone:
                break
            if seen != first:
                self._unlock()
                raise self._not_owner(parse_beat(seen))
            if clock() - started >= self._longest_lease_s(seen):
                self._alone = True
                break
            yield self._lease_s / self.looks_a_lease
            seen = self._read()
        self._longest_lease_s(seen)
        self._before = parse_beat(seen)
        self._mine = replace(self._mine, since_ms=self._wall_ms())
        if self.has_lock:
            # Who starts at the same moment sees a beat, and learns by whom.
            self._write(self._next_beat())

    def start(self, epoch: int) -> None:
        """The claim with `epoch` is in the log: beat as its owner from here on. Raises as `beat`."""
        if epoch > 1 and (self._before is None or self._before.epoch != epoch - 1):
            # Between the look at the beat and the claim somebody else owned the job, and may be at work still.
            self._alone, self._before = False, None
            self._longest_lease_s(self._read())
        self._mine = replace(self._mine, epoch=epoch)
        self.beat()

    def wait_until_alone(self) -> None:
        """After `start`, return when no earlier owner can answer a collector any more.

        Returns at once unless a live owner was taken over. That one goes on until it notices: when it beats, it sees
        the beat of `start`; when it cannot beat, it is overdue. So it is silent a lease later, and known to be gone
        as soon as it lets go of the lock.
        """
        for seconds in self.until_alone():
            self._sleep(seconds)

    def until_alone(self) -> Waits:
        """`wait_until_alone`, for whoever waits in another way than by sleeping."""
        deadline = self._clock() + self._longest_ms / 1000
        while not self._alone and self._clock() < deadline:
            yield self._lease_s / self.looks_a_lease
            self._try_lock()
            self._alone = self._before is not None and self._gone(self._before)
        self._alone = True

    def _longest_lease_s(self, seen: bytes | None) -> float:
        """The longest time for which somebody before this owner may go on unseen, as far as it has seen beats."""
        if seen is not None:
            before = parse_beat(seen)
            self._longest_ms = max(self._longest_ms, LEASE_MS if before is None else before.lease_ms)
        return self._longest_ms / 1000

    def beat(self) -> None:
        """Say that this owner lives; call it several times in a lease. Takes the lock when it has become free.

        Raises:
            FencedError: the beat of a later epoch is there, or the lease has run out since the last good beat (this
                process was stopped, or the place was away).
            StoreError: the beat could not be written; go on, `is_overdue` tells when that is too long.
        """
        with self._one_at_a_time:
            if not self._closed:
                self._beat()

    def _beat(self) -> None:
        now = self._clock()
        if self.is_overdue(now):
            raise FencedError(f"job {self._mine.job}: no beat could be written for {self._lease_s:g} s")
        other = parse_beat(self._read())
        if other is not None and other.epoch > self._mine.epoch:
            raise FencedError(f"job {self._mine.job} was taken over by {other.holder}")
        self._try_lock()
        self._write(self._next_beat())
        self._beaten_at = now

    def is_overdue(self, now: float) -> bool:
        """Whether the last good beat is a lease ago: others may have claimed, so close without another byte."""
        return self._beaten_at is not None and now - self._beaten_at > self._lease_s

    def close(self) -> None:
        """Let go: the next starter, on any host, need not wait. Call it when nothing is written any more.

        May be called at any time and twice; the beat of another owner is left alone.
        """
        # A beat that hangs must not take the lock again, or say that this owner lives, when it comes back.
        self._closed = True
        in_turn = self._one_at_a_time.acquire(timeout=self._lease_s)
        try:
            if in_turn:
                self._say_closed()
            self._beaten_at = None
            self._unlock()
        finally:
            if in_turn:
                self._one_at_a_time.release()

    def _say_closed(self) -> None:
        try:
            other = parse_beat(self._read())
            # Whoever goes while the owner before it may still be at work leaves it to the next one to wait for that.
            if other is not None and not other.closed and self._alone and _same_process(other, self._mine):
                self._write(replace(self._next_beat(), closed=True))
        except StoreError:
            pass  # a starter on another host then waits for the lease, nothing worse

    def _last_owner_is_gone(self, seen: bytes | None) -> bool:
        """Whether the owner with this beat cannot be at work any more."""
        if seen is None:
            return self.has_lock
        last = parse_beat(seen)
        return last is not None and self._gone(last)

    def _gone(self, last: Beat) -> bool:
        return self.has_lock and (last.closed or (last.locked and self._held_this_lock(last)))

    def _not_owner(self, beat: Beat | None) -> NotOwnerError:
        holder = beat.holder if beat else "another process"
        return NotOwnerError(
            f"job {self._mine.job} runs already: {holder}. Stop it first, or take it over with --take-over"
        )

    def _next_beat(self) -> Beat:
        locked = self.has_lock and self._alone
        lock = self._lock_id() if locked else ""
        lease_ms = int(self._lease_s * 1000) if self._alone else self._longest_ms
        counter = self._mine.counter + 1
        self._mine = replace(self._mine, counter=counter, locked=locked, lock=lock, lease_ms=lease_ms)
        return self._mine


def _same_process(one: Beat, other: Beat) -> bool:
    return (one.host, one.boot, one.pid, one.epoch) == (other.host, other.boot, other.pid, other.epoch)
