"""Destinations that fail when they are told to, and lose the answer to a commit."""

from __future__ import annotations

from collections.abc import Callable

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.testing.sinks import DecidingListSink, ListSink, ListStorage


class SinkTrouble:
    """What fails, until when (simulated seconds). Shared by the sinks of all incarnations."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.until = 0.0
        self.calls: frozenset[str] = frozenset()

    def begin(self, calls: frozenset[str], until: float) -> None:
        """Let `calls` fail until a time."""
        self.calls, self.until = calls, until

    def end(self) -> None:
        """All is well again."""
        self.until = 0.0

    def at(self, call: str) -> None:
        """Raise where the call fails now."""
        if call in self.calls and self._now() < self.until:
            raise ComponentError(f"{call} fails")


class SimulatedSink:
    """An in-memory sink with trouble in front of it."""

    def __init__(self, deciding: bool, storage: ListStorage, trouble: SinkTrouble) -> None:
        make = DecidingListSink if deciding else ListSink
        self._inner: DecidingListSink | ListSink = make(storage, with_ids=True)
        self._trouble = trouble
        self.commit_role: CommitRole = self._inner.commit_role

    def open(self, context: SinkContext) -> None:
        """See Sink."""
        self._inner.open(context)

    def write(self, rows: Rows) -> None:
        """See Sink."""
        self._trouble.at("write")
        self._inner.write(rows)

    def prepare(self, checkpoint: int) -> Manifest:
        """See Sink. A failure may come before or behind the flush."""
        self._trouble.at("prepare")
        manifest = self._inner.prepare(checkpoint)
        self._trouble.at("flush")
        return manifest

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """See Sink. Where the answer is lost, it happened although it fails."""
        self._trouble.at("commit")
        self._inner.commit(checkpoint, manifest)
        self._trouble.at("answer")

    def fence(self, epoch: int) -> None:
        """See DecidingSink."""
        assert isinstance(self._inner, DecidingListSink)
        self._inner.fence(epoch)

    def landed(self) -> int:
        """See DecidingSink."""
        assert isinstance(self._inner, DecidingListSink)
        return self._inner.landed()

    def close(self) -> None:
        """See Sink."""
        self._inner.close()
