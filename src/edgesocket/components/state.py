"""What the engine needs of the place where a job's state lives, and of who may own it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
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


class Scratch(Protocol):
    """The local directory of the arrival log, where the rest of the state lies elsewhere.

    A job that is started on another machine, or with a fresh disk, finds another directory, or one of an earlier stay.
    So an incarnation leaves its mark here and in the commit log: notes belong to the state only where both agree.
    """

    log_age_ms: int
    """How long entries of the commit log are kept at least, where the state lies."""

    @property
    def directory(self) -> Path:
        """Where the source may keep files of its own."""

    def marks(self) -> frozenset[str]:
        """Marks of the incarnations whose notes lie here whole; none where another process may be writing here.

        Raises StoreError.
        """

    def begin(self, mark: str, *, goes_on_from: str | None) -> None:
        """An incarnation begins to write here.

        Args:
            mark: its own, nobody else's.
            goes_on_from: the mark whose notes it has found here; None: what lies here is not of this state, and is
                removed before anything else happens.

        Raises StoreError.
        """


class VitalNotes(Protocol):
    """Notes of arrivals that must outlive the scratch directory. Thread-safe."""

    def kept(self) -> list[tuple[str, bytes]]:
        """Name and bytes of the segments that earlier incarnations kept, in order. Raises StoreError."""

    def keep(self, first_sequence: int, last_sequence: int, burst: bytes) -> None:
        """Keep one burst, numbered from first to last; it is durable when this returns.

        Raises StoreError: unknown whether it is kept; the same call again never does harm.
        """

    def forget_through(self, sequence: int) -> bool:
        """A completed checkpoint covers everything up to this number, and all of earlier incarnations.

        Returns whether more is left to do than one call does. Raises StoreError; a later call goes on.
        """
