"""What the engine needs of the place where a job's state lives, and of who may own it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Host:
    """Where a process runs: `name` is for people, `boot` identifies the running kernel."""

    name: str
    boot: str


class StateStore(Protocol):
    """Performs the store effects of `checkpoint.effects`. Thread-safe."""

    def perform(self, effect: Any) -> Any:
        """Perform one effect and return its result; see each effect for what it promises and raises."""


class Ownership(Protocol):
    """Who may run the job: lock, lease and beat of one state directory.

    The fence is the commit log; this only keeps two live processes from working against each other, and notices when
    the own process was asleep. One thread beats.
    """

    def watch(self, lease_ms: int = ..., *, take_over: bool = ...) -> None:
        """Find out whether the job may be claimed; waits up to the lease. Raises NotOwnerError."""

    def start(self, epoch: int) -> None:
        """The claim with `epoch` is in the log: beat as its owner from here on."""

    def wait_until_alone(self) -> None:
        """After `start`: return when no earlier owner can answer any more, so that what it answered can be read.

        Only an owner that was taken over while it lived has to be waited for, and at most for the lease.
        """

    def beat(self) -> None:
        """Show a sign of life. Raises FencedError, or StoreError when it could not be shown."""

    def is_overdue(self, now: float) -> bool:
        """Whether the last sign of life is older than the lease (`now`: monotonic seconds). Cheap, on any thread."""

    def close(self) -> None:
        """Let go: the next starter need not wait."""
