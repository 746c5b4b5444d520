"""Lock and beat of one state directory, by the rules of `store.ownership`, on the simulated clock.

The real one waits in place, which a simulation can't; so these rules are written down a second time, as a procedure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgesocket.checkpoint.effects import Procedure, Wait
from edgesocket.errors import FencedError, NotOwnerError
from edgesocket.testing.simulator.loop import Actor, Loop

LEASE_S = 3.0
BEAT_S = 1.0
_LOOK_S = LEASE_S / 6


@dataclass(frozen=True, slots=True)
class Beat:
    """What the owner says of itself."""

    boot: str
    process: str
    epoch: int
    counter: int
    locked: bool
    closed: bool = False


class OwnershipFiles:
    """What all owners of a directory see: the newest beat, and who holds the lock on each kernel."""

    def __init__(self) -> None:
        self.beat: Beat | None = None
        self.locks: dict[str, Actor] = {}


class SimulatedOwner:
    """One process's hold on the job."""

    def __init__(self, loop: Loop, files: OwnershipFiles, process: Actor, boot: str) -> None:
        self._loop = loop
        self._files = files
        self._process = process
        self._mine = Beat(boot, process.name, 0, 0, locked=False)
        self._before: Beat | None = None
        self._alone = False
        self._beaten_at: float | None = None

    def watch(self, *, take_over: bool) -> Procedure[None]:
        """Find out whether the job may be claimed. Raises NotOwnerError where a live owner beats."""
        first = seen = self._files.beat
        started = self._loop.now
        while True:
            self._alone = self._last_owner_is_gone(seen)
            if take_over or self._alone:
                break
            if seen != first:
                self._unlock()
                raise NotOwnerError("the job runs already")
            if self._loop.now - started >= LEASE_S:
                self._alone = True
                break
            yield Wait(_LOOK_S, "watching the beat")
            seen = self._files.beat
        self._before = seen
        if self._has_lock():
            self._write()

    def start(self, epoch: int) -> None:
        """The claim is in the log."""
        self._mine = replace(self._mine, epoch=epoch)
        self.beat()

    def wait_until_alone(self) -> Procedure[None]:
        """Return when no earlier owner can answer any more."""
        deadline = self._loop.now + LEASE_S
        while not self._alone and self._loop.now < deadline:
            yield Wait(_LOOK_S, "waiting for the earlier owner to fall silent")
            self._alone = self._last_owner_is_gone(self._before)
        self._alone = True

    def beat(self) -> None:
        """Say that this owner lives. Raises FencedError."""
        now = self._loop.now
        if self.is_overdue(now):
            raise FencedError("no beat could be written for the lease")
        other = self._files.beat
        if other is not None and other.epoch > self._mine.epoch:
            raise FencedError("the job was taken over")
        self._has_lock()
        self._write()
        self._beaten_at = now

    def is_overdue(self, now: float) -> bool:
        """Whether the last beat is a lease ago."""
        return self._beaten_at is not None and now - self._beaten_at > LEASE_S

    def close(self) -> None:
        """Let go; the next starter need not wait."""
        beat = self._files.beat
        if self._alone and beat is not None and beat.process == self._mine.process and not beat.closed:
            self._files.beat = replace(beat, counter=beat.counter + 1, closed=True)
        self._beaten_at = None
        self._unlock()

    def _write(self) -> None:
        self._mine = replace(self._mine, counter=self._mine.counter + 1, locked=self._has_lock() and self._alone)
        self._files.beat = self._mine

    def _has_lock(self) -> bool:
        """Hold the lock where it is free: the kernel takes it from a dead process."""
        holder = self._files.locks.get(self._mine.boot)
        if holder is None or not holder.alive:
            self._files.locks[self._mine.boot] = self._process
            return True
        return holder is self._process

    def _unlock(self) -> None:
        if self._files.locks.get(self._mine.boot) is self._process:
            del self._files.locks[self._mine.boot]

    def _last_owner_is_gone(self, last: Beat | None) -> bool:
        if not self._has_lock():
            return False
        return last is None or last.closed or (last.locked and last.boot == self._mine.boot)
