"""Where the state of a job lives: a directory, or a prefix of a bucket. Everything else asks a `Place`.

    /srv/state/edge            a directory of the local file system, or of one that hosts share
    s3://bucket/states/edge    objects of an S3-compatible store with conditional writes; needs the extra `s3`

A `Root` is what lies above the places of several jobs. docs/state.md says what each kind guarantees.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from edgesocket.components.state import Ownership, Scratch, StateStore
from edgesocket.config.s3_settings import S3Settings
from edgesocket.errors import UsageError
from edgesocket.store.directory import DirectoryPlace, DirectoryRoot
from edgesocket.store.ownership import Beat

S3_SCHEMES = ("s3://", "s3a://", "s3n://")


class Place(Protocol):
    """Where ONE job's state lives. Thread-safe; making one touches nothing, and one may be used for many incarnations.

    What raises StoreError says so; the rest never fails because the place cannot be reached.
    """

    @property
    def text(self) -> str:
        """For people and for `--state-dir`: `/srv/state/job` or `s3://bucket/prefix/job`."""

    @property
    def scratch(self) -> Path:
        """A local directory for the arrival log. In a directory place it is the directory itself."""

    @property
    def apart(self) -> Scratch | None:
        """What looks after `scratch` where it is apart from the state; None where it is part of it."""

    def beside(self, suffix: str) -> Place:
        """The place next to this one, with `suffix` behind its name: of a job that belongs to this one (a replay)."""

    def open_store(self) -> StateStore:
        """The store of this state. Raises StoreError where it cannot be used."""

    def owner(self, job: str) -> Ownership:
        """A fresh claim on the ownership of the job with this name. Raises StoreError."""

    def exists(self) -> bool:
        """Whether a job has state here (a commit log). Raises StoreError."""

    def read_beat(self) -> Beat | None:
        """The newest sign of life of an owner, None where there is none. Raises StoreError."""

    def read_status(self) -> dict[str, Any] | None:
        """What a running job last said of itself, with `time` (Unix seconds, by this host's clock); or None."""

    def write_status(self, status: dict[str, Any]) -> None:
        """Publish the status; `time` is added. One that cannot be written is left out: the trouble shows elsewhere."""

    def ask_to_stop(self, instance: str, by: str) -> None:
        """Ask the process whose status carries `instance` to stop the job gracefully. Raises StoreError."""

    def asked_to_stop(self, instance: str) -> str:
        """Who asks the process `instance` to stop; an empty string if nobody does. May be asked all the time."""

    def clear_request(self, instance: str) -> None:
        """Take a request for this process away."""


class Root(Protocol):
    """Where the states of several jobs live, each at a place of its name."""

    @property
    def text(self) -> str:
        """For people and for `--state-dir`."""

    def place(self, name: str) -> Place:
        """The place of one job; it need not exist."""

    def names(self) -> list[str]:
        """Names of the places where jobs have state, sorted, without those that begin with a dot. Raises StoreError."""


def is_bucket(text: str) -> bool:
    """Whether a text names a place in a bucket and not a directory."""
    return text.lower().startswith(S3_SCHEMES)


def place_of(text: str, s3: S3Settings | None = None) -> Place:
    """The place that a text names.

    Args:
        text: a directory, or `s3://bucket/prefix`.
        s3: how the bucket is reached, beyond the environment.

    Raises:
        UsageError: it names neither.
    """
    if is_bucket(text):
        from edgesocket.store.object_place import S3Place

        return S3Place(text, s3 or S3Settings())
    return DirectoryPlace(_directory(text))


def root_of(text: str, s3: S3Settings | None = None) -> Root:
    """The root that a text names. Arguments and errors as `place_of`."""
    if is_bucket(text):
        from edgesocket.store.object_place import S3Root

        return S3Root(text, s3 or S3Settings())
    return DirectoryRoot(_directory(text))


def _directory(text: str) -> Path:
    scheme, separator, _ = text.partition("://")
    if separator and scheme != "file":
        raise UsageError(f"states cannot lie in {scheme}://: name a directory, or s3://bucket/prefix")
    return Path(text.removeprefix("file://"))
