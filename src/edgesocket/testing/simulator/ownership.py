"""Lock and beat of one state directory in a simulation: the real rules, on the simulated clock.

The real owner sleeps while it waits; here each of its waits is a step of the process's start.
"""

from __future__ import annotations

from edgesocket.checkpoint.effects import Procedure, Wait
from edgesocket.store.identity import HostIdentity
from edgesocket.store.lease import Beat, LeasedOwner, Waits, encode_beat
from edgesocket.testing.simulator.loop import Actor, Loop


class OwnershipFiles:
    """What all owners of a directory see: the newest beat, and who holds the lock on each kernel."""

    def __init__(self) -> None:
        self.beat: bytes | None = None
        self.locks: dict[str, Actor] = {}
        self.owners = 0
        """How many there have been: their pids."""


class SimulatedOwner(LeasedOwner):
    """One process's hold on the job.

    Args:
        loop: whose clock counts.
        files: of the state directory.
        process: who owns, or wants to.
        host: where it runs.
        lease_ms: how long it may be silent.
    """

    looks_a_lease = 6

    def __init__(self, loop: Loop, files: OwnershipFiles, process: Actor, host: HostIdentity, lease_ms: int) -> None:
        files.owners += 1
        super().__init__("job", host=host, pid=files.owners, wall_ms=lambda: int(loop.now * 1000))
        self._loop = loop
        self._files = files
        self._process = process
        self._boot = host.boot
        self._lease_ms = lease_ms

    def become(self, *, take_over: bool) -> Procedure[None]:
        """See LeasedOwner.watch."""
        yield from _wait(self.watching(self._lease_ms, lambda: self._loop.now, take_over=take_over))

    def outlive(self) -> Procedure[None]:
        """See LeasedOwner.wait_until_alone."""
        yield from _wait(self.until_alone())

    @property
    def has_lock(self) -> bool:
        """See LeasedOwner."""
        return self._files.locks.get(self._boot) is self._process

    def _held_this_lock(self, last: Beat) -> bool:
        return self._host.same_kernel(last.boot)

    def _read(self) -> bytes | None:
        return self._files.beat

    def _write(self, beat: Beat) -> None:
        self._files.beat = encode_beat(beat)

    def _try_lock(self) -> None:
        """Hold the lock where it is free: the kernel takes it from a dead process."""
        holder = self._files.locks.get(self._boot)
        if holder is None or not holder.alive:
            self._files.locks[self._boot] = self._process

    def _unlock(self) -> None:
        if self.has_lock:
            del self._files.locks[self._boot]


def _wait(waits: Waits) -> Procedure[None]:
    for seconds in waits:
        yield Wait(seconds, "waiting for the owner before")
