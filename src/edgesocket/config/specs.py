"""A job as its file says it, read and checked: what `job.load_job` makes, and everything else starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.config.env import EnvSpec

SOURCE = "EdgeSocket"
"""The one source there is."""

DEAD_LETTER = "dead_letter"
"""The block of the sink that takes what was refused, and that sink's id."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of a job.

    Attributes:
        plugin: its name as this program spells it.
        id: its name inside the job, the same after every restart.
        options: checked values.
        location: `file:line` of its block.
    """

    plugin: str
    id: str
    options: EdgeSocketOptions
    location: str


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """One sink of a job.

    Attributes:
        plugin: its name as this program spells it.
        id: its name inside the job, the same after every restart: `LocalFile`, the second one `LocalFile-2`.
        options: what the sink is made with, checked.
        plugin_input: names of the rows it takes, as written.
        on_rejected_row: what happens to a row the sink refuses for good.
        location: `file:line` of its block.
        inputs: ids of the source or the transforms whose rows it takes.
        decides: whether it decides checkpoints in its own transaction.
        exactly_once: whether it is meant to show every row exactly once.
        places: `file:line` of each option that was given, by its key.
    """

    plugin: str
    id: str
    options: Any
    plugin_input: tuple[str, ...]
    on_rejected_row: Literal["fail", "dead_letter"]
    location: str
    inputs: tuple[str, ...] = (SOURCE,)
    decides: bool = False
    exactly_once: bool = False
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as keywords for whatever makes the sink."""
        return arguments(self.options)


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """One transform of a job.

    Attributes:
        plugin: its name as this program spells it.
        id: its name inside the job: `Copy`, the second one `Copy-2`.
        options: what the transform is made with, checked.
        inputs: ids of the source or the transforms whose rows it takes.
        location: `file:line` of its block.
        places: `file:line` of each option that was given, by its key.
    """

    plugin: str
    id: str
    options: Any
    inputs: tuple[str, ...]
    location: str
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as keywords for whatever makes the transform."""
        return arguments(self.options)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job file that can run.

    Attributes:
        name: `job.name`, or the file's name without directory and ending.
        env: the env block.
        sources: exactly one, for now.
        sinks: at least one, in the order of the file.
        transforms: each behind those it takes rows from.
        dead_letter: where records and rows go that were refused for good.
        notes: what was filled in, ignored or read under an old name: one line each, for the log.
        secrets: the values of its secret options, for masking what is said of it.
    """

    name: str
    env: EnvSpec
    sources: tuple[SourceSpec, ...]
    sinks: tuple[SinkSpec, ...]
    transforms: tuple[TransformSpec, ...] = ()
    dead_letter: SinkSpec | None = None
    notes: tuple[str, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def arguments(options: Any) -> dict[str, Any]:
    """Options as keywords: a dataclass, or of a third party's plugin a dict."""
    return dict(options) if isinstance(options, Mapping) else asdict(options)
