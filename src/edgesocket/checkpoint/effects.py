"""What the checkpoint procedures ask the outside world to do.

A procedure (checkpoint, recovery, claim) is a generator: it yields one effect, a shell performs it and sends the
result back, or throws the error that happened into the generator. So the same procedure runs on real files, on a
simulated disk that crashes at any step, and in a test that reads the list of effects.
"""

from __future__ import annotations

from collections.abc import Generator
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
