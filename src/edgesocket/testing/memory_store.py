"""A state store in memory that can fail at any effect, lose what was not synced, and be stepped by hand."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar

from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.effects import Create, List, Procedure, Read, Remove, StoreEffect
from edgesocket.errors import StoreError

T = TypeVar("T")


class Fault(enum.Enum):
    """How one effect goes wrong."""

    REFUSED = "refused"
    """StoreError; nothing happened."""
    UNKNOWN = "unknown"
    """StoreError; it happened all the same."""
    UNSYNCED = "unsynced"
    """StoreError; it happened, but a crash of the host undoes it unless a later effect synced the directory."""
    CRASH_BEFORE = "crash before"
    """SimulatedCrash; nothing happened."""
    CRASH_AFTER = "crash after"
    """SimulatedCrash; it happened."""


class SimulatedCrash(BaseException):
    """The process died here. Not an EdgeSocketError, and no `except Exception` survives it."""


class MemoryStore:
    """Performs the store's effects on a dictionary. Not thread-safe: each effect is one atomic step.

    Attributes:
        files: what every process on the host sees.
        effects: every effect asked for, in order.
        faults: position in `effects` -> how that effect goes wrong.
    """

    def __init__(self, faults: Mapping[int, Fault] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.effects: list[StoreEffect] = []
        self.faults = dict(faults or {})
        self._durable: dict[str, bytes] = {}
        self._unsynced_directories: set[str] = set()

    def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure of store effects to its end and return its result."""
        return drive(procedure, self.perform)

    def perform(self, effect: StoreEffect) -> bool | bytes | list[str] | None:
        """Do one effect, or fail as `faults` says for it."""
        fault = self.faults.get(len(self.effects))
        self.effects.append(effect)
        if fault is Fault.REFUSED:
            raise StoreError(f"{effect}: refused")
        if fault is Fault.CRASH_BEFORE:
            raise SimulatedCrash(f"before {effect}")
        result = self._do(effect, synced=fault is not Fault.UNSYNCED)
        if fault is Fault.CRASH_AFTER:
            raise SimulatedCrash(f"after {effect}")
        if fault is not None:
            raise StoreError(f"{effect}: outcome unknown")
        return result

    def lose_power(self, keep: Callable[[str], bool] = lambda _: False) -> None:
        """The host dies and comes back: changes that were not synced are undone.

        Args:
            keep: decides for each name whose change was not synced whether that reached the disk by itself.
        """
        for name in sorted(self.files.keys() | self._durable.keys()):
            if self.files.get(name) == self._durable.get(name) or keep(name):
                continue
            if name in self._durable:
                self.files[name] = self._durable[name]
            else:
                del self.files[name]
        self._durable = dict(self.files)
        self._unsynced_directories.clear()

    def _do(self, effect: StoreEffect, *, synced: bool) -> bool | bytes | list[str] | None:
        match effect:
            case Create(name, data):
                self._sync_if_needed(name)
                made = name not in self.files
                if made:
                    self.files[name] = data
                    self._note_directory(name, synced=synced)
                return made
            case Read(name):
                self._sync_if_needed(name)
                return self.files.get(name)
            case List(prefix):
                self._sync_if_needed(f"{prefix}/x")
                return sorted(name for name in self.files if _directory(name) == prefix)
            case Remove(name):
                self.files.pop(name, None)
                return None

    def _note_directory(self, name: str, *, synced: bool) -> None:
        if synced:
            self._sync(_directory(name))
        else:
            self._unsynced_directories.add(_directory(name))

    def _sync_if_needed(self, name: str) -> None:
        if _directory(name) in self._unsynced_directories:
            self._sync(_directory(name))

    def _sync(self, directory: str) -> None:
        self._unsynced_directories.discard(directory)
        kept = {name: data for name, data in self._durable.items() if _directory(name) != directory}
        now = {name: data for name, data in self.files.items() if _directory(name) == directory}
        self._durable = kept | now


def _directory(name: str) -> str:
    parent = str(PurePosixPath(name).parent)
    return "" if parent == "." else parent
