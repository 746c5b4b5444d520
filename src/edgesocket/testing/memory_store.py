"""A state store in memory that can fail at any effect, lose what was not synced, and be stepped by hand."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
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
        self._changed: dict[str, set[str]] = {}
        """Directory -> names in it whose last change is not synced."""
        self._failed_syncs: set[str] = set()
        """Directories that are synced before they are used again."""

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
        for name in sorted(set().union(*self._changed.values())):
            if keep(name):
                continue
            if name in self._durable:
                self.files[name] = self._durable[name]
            else:
                self.files.pop(name, None)
        self._durable = dict(self.files)
        self._changed.clear()
        self._failed_syncs.clear()

    def _do(self, effect: StoreEffect, *, synced: bool) -> bool | bytes | list[str] | None:
        match effect:
            case Create(name, data):
                directory = self._use(_directory(name))
                if name in self.files:
                    return False
                self.files[name] = data
                self._note(name)
                if synced:
                    self._sync(directory)
                else:
                    self._failed_syncs.add(directory)
                return True
            case Read(name):
                self._use(_directory(name))
                return self.files.get(name)
            case List(prefix):
                self._use(prefix)
                return sorted(name for name in self.files if _directory(name) == prefix)
            case Remove(name):
                if self.files.pop(name, None) is not None:
                    self._note(name)
                return None
        raise TypeError(f"a store does not perform {effect!r}")

    def _note(self, name: str) -> None:
        self._changed.setdefault(_directory(name), set()).add(name)

    def _use(self, directory: str) -> str:
        if directory in self._failed_syncs:
            self._sync(directory)
        return directory

    def _sync(self, directory: str) -> None:
        self._failed_syncs.discard(directory)
        for name in self._changed.pop(directory, ()):
            if name in self.files:
                self._durable[name] = self.files[name]
            else:
                self._durable.pop(name, None)


def _directory(name: str) -> str:
    return name.rpartition("/")[0]
