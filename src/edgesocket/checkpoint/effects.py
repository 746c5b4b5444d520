"""What the checkpoint procedures ask the outside world to do.

A procedure (checkpoint, recovery, claim) is a generator: it yields one effect, a shell performs it and sends the
result back, or throws the error that happened into the generator. So the same procedure runs on real files, on a
simulated disk that crashes at any step, and in a test that reads the list of effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Create:
    """Make the file `name` exclusively and durably: temp file, fsync, exclusive link, directory fsync.

    Result: True when made, False when a file of that name was there already (nothing is changed then).
    Raises StoreError when it is unknown whether it happened.
    """

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Read:
    """Read the whole file `name`. Result: its bytes, or None where there is no such file."""

    name: str


@dataclass(frozen=True, slots=True)
class List:
    """Names of the files in directory `prefix` (such as `log`), sorted, without temp files."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the file `name`; a missing one is no error. Result: None."""

    name: str


StoreEffect = Create | Read | List | Remove

Procedure = Generator[Any, Any, T]
"""A generator of effects that ends with a result."""


@dataclass(frozen=True, slots=True)
class CutResult:
    """What step 1 captured.

    Attributes:
        source: the source's state, as JSON: goes into the commit record.
        encode: makes the bytes of the state blobs, by kind; may run on another thread.
        log_index: newest operator entry of the commit log that the source has applied.
    """

    source: dict[str, Any]
    encode: Callable[[], dict[str, list[bytes | memoryview]]]
    log_index: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Step 1: queue, ledger, fingerprints and arrival-log position in one critical section. Result: CutResult."""


@dataclass(frozen=True, slots=True)
class PrepareSinks:
    """Step 2: flush and confirm everything written. Result: manifests by sink id (empty ones left out)."""

    number: int


@dataclass(frozen=True, slots=True)
class Encode:
    """Run `encode`: much computing, no I/O, so it may be done on another thread. Result: the blobs by kind."""

    encode: Callable[[], dict[str, bytes]]


@dataclass(frozen=True, slots=True)
class FenceDeciding:
    """Make the deciding sink refuse every epoch below this one, in a transaction of its own."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CommitDeciding:
    """Step 4: the deciding sink commits its transaction, which carries (job, epoch, number)."""

    number: int
    manifests: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AskDeciding:
    """The highest checkpoint number that landed in the deciding sink. Result: int, 0 for none."""


@dataclass(frozen=True, slots=True)
class CommitSinks:
    """Step 6: the re-committable sinks publish what they prepared. Idempotent."""

    number: int
    manifests: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Complete:
    """Step 7: the watermark of record `number` holds from now on."""

    number: int


@dataclass(frozen=True, slots=True)
class Abort:
    """The checkpoint ends before anything moved: what it captured and prepared belongs to the next one."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Let some time pass, or less when the job is stopping. Raises when the job gave up on it."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class WallClock:
    """The time of day, for people and for the age of files. Result: int, Unix time in ms."""
