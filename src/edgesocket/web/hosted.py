"""What the web needs of the process it runs in: its jobs, and what it can do. Needs no library of the web."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from edgesocket.config.specs import JobSpec
    from edgesocket.engine.tap import Tap
    from edgesocket.hosting.replay import Replay
    from edgesocket.sources.letter_files import Position
    from edgesocket.store.place import Place
    from edgesocket.telemetry.journal import Journal


@dataclass(frozen=True, slots=True)
class Published:
    """What a job said of itself, and when: seconds of the steady clock. `status` is never changed afterwards."""

    status: Mapping[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: exit code, the reason unless all went well, milliseconds since 1970; whether it was fenced."""

    exit_code: int
    reason: str
    time_ms: int
    fenced: bool = False


class HostedJob(Protocol):
    """A job of this process. Everything may be asked on any thread and waits for nothing."""

    @property
    def name(self) -> str:
        """Its name, which is its id."""

    @property
    def spec(self) -> JobSpec:
        """What it does."""

    @property
    def created_ms(self) -> int:
        """When this process began with it, milliseconds since 1970."""

    @property
    def restored(self) -> bool:
        """Whether it went on from a state that was there."""

    @property
    def published(self) -> Published | None:
        """What it last said; None: nothing yet."""

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs."""

    @property
    def journal(self) -> Journal:
        """Its log lines, checkpoints and sessions."""

    @property
    def tap(self) -> Tap:
        """Where rows in flight are looked at."""

    @property
    def state(self) -> Place:
        """Where its state lies."""

    def replay(self, wanted: frozenset[Position] | None) -> Replay:
        """A replay of its dead letters. Raises UsageError where they cannot be read back."""

    def stop(self, by: str) -> None:
        """Ask for a graceful end, in the name of `by`; returns at once."""


class Host(Protocol):
    """A process: its jobs, and whether it takes more."""

    def jobs(self) -> Sequence[HostedJob]:
        """Every job, those that have ended too, in the order they came."""

    @property
    def why_no_submit(self) -> str:
        """Why no job can be submitted here; empty: one can."""

    def submit(self, text: str, file_format: Literal["json", "hocon"], name: str | None, *, restored: bool) -> str:
        """Check a job as `edgesocket check` does, and start it. Blocks for as long as reading the job takes.

        Args:
            text: the job file.
            file_format: how to read it.
            name: instead of what it says.
            restored: there has to be a state to go on from.

        Returns:
            The job's name.

        Raises:
            EdgeSocketError: it cannot run, or cannot beside the others. The text says why.
        """
