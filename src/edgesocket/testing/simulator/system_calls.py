"""Lets the real store work on a simulated disk: what its modules know as `os` and `Path` is replaced by what is here.

`LocalStore` and `ArrivalWriter` run unchanged, so the order of their writes, syncs and links is under test as well.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from edgesocket.checkpoint import procedure
from edgesocket.checkpoint.commit_log import prune
from edgesocket.sources import edge_socket
from edgesocket.store import arrivals, durable, local
from edgesocket.testing.simulator.disk import Disk, directory_of


class DiskPath:
    """A path on a simulated disk, with as much of pathlib.Path as the store uses."""

    __slots__ = ("disk", "text")

    def __init__(self, disk: Disk, text: str) -> None:
        self.disk = disk
        self.text = text

    def __truediv__(self, name: object) -> DiskPath:
        return DiskPath(self.disk, f"{self.text}/{name}" if str(name) not in ("", ".") else self.text)

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiskPath) and other.text == self.text

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> DiskPath:
        return DiskPath(self.disk, directory_of(self.text))

    def with_name(self, name: str) -> DiskPath:
        return DiskPath(self.disk, f"{directory_of(self.text)}/{name}")

    def is_dir(self) -> bool:
        return self.text in self.disk.directories

    def exists(self) -> bool:
        return self.text in self.disk.directories or self.text in self.disk.names

    def mkdir(self, mode: int = 0, exist_ok: bool = False) -> None:  # noqa: ARG002 - pathlib's
        self.disk.directories.add(self.text)

    def rmdir(self) -> None:
        self.disk.directories.discard(self.text)

    def read_bytes(self) -> bytes:
        return self.disk.read(self.text)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.disk.unlink(self.text)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def replace(self, target: DiskPath) -> None:
        self.disk.rename(self.text, target.text)

    def hardlink_to(self, target: DiskPath) -> None:
        self.disk.link(self.text, target.text)

    def stat(self) -> Any:
        return SimpleNamespace(st_nlink=self.disk.names[self.text].links, st_mtime=0.0)

    def iterdir(self) -> Iterator[DiskPath]:
        return iter([self / name for name in self.disk.list(self.text)])

    def glob(self, pattern: str) -> Iterator[DiskPath]:
        return iter([path for path in self.iterdir() if fnmatch.fnmatch(path.name, pattern)])


class _SystemCalls:
    """The part of the module `os` that the store uses."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        if name.startswith("O_"):
            return getattr(os, name)
        raise AttributeError(f"the simulated disk has no os.{name}")

    def open(self, path: DiskPath, flags: int, mode: int = 0) -> int:  # noqa: ARG002 - os.open's
        return self._disk.open(path.text, flags)

    def close(self, descriptor: int) -> None:
        self._disk.close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return self._disk.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._disk.sync(descriptor)

    def ftruncate(self, descriptor: int, size: int) -> None:
        self._disk.truncate(descriptor, size)

    def listdir(self, path: DiskPath) -> list[str]:
        return self._disk.list(path.text)

    def walk(self, path: DiskPath) -> list[tuple[DiskPath, list[str], list[str]]]:
        below = sorted(name for name in self._disk.directories if name.startswith(path.text))
        return [(DiskPath(self._disk, name), [], self._disk.list(name)) for name in below]

    def getpid(self) -> int:
        return 1

    def kill(self, pid: int, signal: int) -> None:
        """Whoever left a temp file behind is still there, so it stays: it does no harm."""


def _join(directory: DiskPath, name: str) -> DiskPath:
    return directory / name


@contextmanager
def on_simulated_disk(disk: Disk) -> Iterator[None]:
    """While this lasts, the store's modules work on `disk`."""
    calls = _SystemCalls(disk)
    places: list[tuple[Any, str, Any]] = [
        (local, "os", calls),
        (arrivals, "os", calls),
        (durable, "os", calls),
        (local, "Path", _join),
        (procedure, "prune", partial(prune, keep_at_least=4, keep_age_ms=1000)),  # or no seed would live to see it
        (edge_socket, "EVENTS_A_LOCK", 1),  # the pump may have its turn between any two requests
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in places]
    try:
        for module, name, value in places:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
