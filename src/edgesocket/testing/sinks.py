"""Sinks that keep rows in memory, for tests of everything that feeds a sink.

A crash is simulated by forgetting the sink without closing it: what a real destination would still have lies in a
`ListStorage`, which is given to the next sink.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal

from edgesocket.components.sink import CommitRole, Manifest, Sink, SinkContext
from edgesocket.errors import ComponentError, FencedError
from edgesocket.rows import Rows

Pair = tuple[int, bytes]
"""Batch id and payload."""


@dataclass
class ListStorage:
    """What outlives an in-memory sink.

    Attributes:
        pairs: visible rows with their batch ids, in the order they became visible.
        staged: prepared rows that are not visible, by name.
        published: names that have been published.
        fenced: job -> the epoch below which nothing may commit.
        landed: job -> the highest checkpoint a deciding sink committed.
        lost_replies: how many of the next commits of a deciding sink happen although they raise.
    """

    pairs: list[Pair] = field(default_factory=list)
    staged: dict[str, list[Pair]] = field(default_factory=dict)
    published: set[str] = field(default_factory=set)
    fenced: dict[str, int] = field(default_factory=dict)
    landed: dict[str, int] = field(default_factory=dict)
    lost_replies: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of the visible rows."""
        return [payload for _, payload in self.pairs]

    def stage(self, pairs: list[Pair]) -> str:
        """Keep rows out of sight; returns the name they are kept under."""
        name = f"staged-{next(self._numbers)}"
        self.staged[name] = pairs
        return name


class _InMemorySink:
    """What the in-memory sinks share: rows taken and not yet prepared, and a view on the visible ones."""

    def __init__(self, storage: ListStorage | None = None, *, with_ids: bool = False) -> None:
        """Make a sink on a storage.

        Args:
            storage: of an earlier sink, to go on after a crash; a new one by default.
            with_ids: `rows` gives `(batch_id, payload)` instead of payloads.
        """
        self.storage = ListStorage() if storage is None else storage
        self.with_ids = with_ids
        self.context: SinkContext | None = None
        self.closed = False
        self._taken: list[Pair] = []

    @property
    def rows(self) -> list[bytes] | list[Pair]:
        """The visible rows."""
        return list(self.storage.pairs) if self.with_ids else self.storage.payloads

    def write(self, rows: Rows) -> None:
        """Keep the payloads in this sink."""
        block = rows.records
        assert block is not None, "this sink keeps payloads"
        self._taken += [(block.id_at(n), payload) for n, payload in enumerate(block.payloads())]

    def close(self) -> None:
        """Forget unprepared rows."""
        self._taken = []
        self.closed = True


class ListSink(_InMemorySink):
    """A re-committable sink: `prepare` stages rows in the storage, `commit` makes them visible.

    Attributes:
        storage: what outlives this sink.
        context: what it was opened with, None before.
        closed: whether it was closed.

    Guarantees: exactly once; one thread, but `rows` may be read from any.
    """

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(self, storage: ListStorage | None = None, *, with_ids: bool = False) -> None:
        super().__init__(storage, with_ids=with_ids)
        self._prepared: list[str] = []

    def open(self, context: SinkContext) -> None:
        """Drop staged rows that no prepared manifest names."""
        self.context = context
        named = {name for manifest in context.prepared.values() for name in manifest.get("staged", ())}
        self.storage.staged = {name: rows for name, rows in self.storage.staged.items() if name in named}

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  the contract
        """Stage the rows taken; the manifest names them and what aborted checkpoints left."""
        if self._taken:
            self._prepared.append(self.storage.stage(self._taken))
            self._taken = []
        return {"staged": list(self._prepared)} if self._prepared else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:  # noqa: ARG002  the contract
        """Make the named rows visible, unless they are.

        Raises:
            ComponentError: a name is neither staged nor published.
        """
        for name in manifest.get("staged", ()):
            if name in self.storage.staged:
                self.storage.pairs += self.storage.staged.pop(name)
                self.storage.published.add(name)
            elif name not in self.storage.published:
                raise ComponentError(f"prepared rows {name} are neither staged nor published")
        self._prepared = [name for name in self._prepared if name not in self.storage.published]


class DecidingListSink(_InMemorySink):
    """A deciding sink: `commit` makes rows visible and notes (job, checkpoint), both or neither.

    Its open transaction dies with it: after a crash, rows prepared and not committed are gone.

    Attributes:
        storage: what outlives this sink.
        context: what it was opened with, None before.
        closed: whether it was closed.

    Guarantees: exactly once; a commit below the fenced epoch raises FencedError and changes nothing; one thread.
    """

    commit_role = CommitRole.DECIDING

    def __init__(self, storage: ListStorage | None = None, *, with_ids: bool = False) -> None:
        super().__init__(storage, with_ids=with_ids)
        self._ready = 0  # how many of the rows taken the last `prepare` covers

    def open(self, context: SinkContext) -> None:
        """Begin with an empty transaction."""
        self.context = context

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  the contract
        """Everything taken so far is in the transaction."""
        self._ready = len(self._taken)
        return {"rows": self._ready} if self._ready else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:  # noqa: ARG002  the contract
        """Commit the transaction, unless this checkpoint has landed.

        Raises:
            FencedError: a higher epoch has fenced this one off; nothing is changed.
            ComponentError: the reply was lost (`storage.lost_replies`); the rows are visible.
        """
        job = self._context.job
        if self.storage.fenced.get(job, 0) > self._context.epoch:
            raise FencedError(f"job {job}: run {self._context.epoch} is fenced by run {self.storage.fenced[job]}")
        if self.storage.landed.get(job, 0) >= checkpoint:
            return
        self.storage.pairs += self._taken[: self._ready]
        self.storage.landed[job] = checkpoint
        self._taken, self._ready = self._taken[self._ready :], 0
        if self.storage.lost_replies:
            self.storage.lost_replies -= 1
            raise ComponentError("the reply to the commit was lost")

    def fence(self, epoch: int) -> None:
        """No lower epoch of this job commits from now on.

        Raises:
            FencedError: a higher epoch was here before.
        """
        job = self._context.job
        if self.storage.fenced.get(job, 0) > epoch:
            raise FencedError(f"job {job}: run {epoch} is fenced by run {self.storage.fenced[job]}")
        self.storage.fenced[job] = epoch

    def landed(self) -> int:
        """The highest checkpoint of this job that was committed, 0 for none."""
        return self.storage.landed.get(self._context.job, 0)

    @property
    def _context(self) -> SinkContext:
        assert self.context is not None, "open first"
        return self.context


GatedCall = Literal["write", "prepare", "commit"]


class GateSink:
    """A sink in front of another that can be held shut, from any thread.

    While it is held, the gated calls either wait until `release`, or raise ComponentError; the inner sink does not
    hear of them.

    Attributes:
        inner: the sink behind the gate.
        commit_role: the inner sink's.
    """

    def __init__(self, inner: Sink | None = None, *, with_ids: bool = False, patience_s: float = 30.0) -> None:
        """Put an open gate in front of a sink.

        Args:
            inner: the sink behind the gate; a new ListSink by default.
            with_ids: given to the ListSink made by default.
            patience_s: a call that waits longer raises ComponentError, so that a broken test ends.
        """
        self.inner: Sink = ListSink(with_ids=with_ids) if inner is None else inner
        self.commit_role = self.inner.commit_role
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._held: frozenset[GatedCall] = frozenset()
        self._fails = False
        self._waiting = 0

    def hold(self, *, fail: bool = False, calls: Collection[GatedCall] = ("write", "prepare")) -> None:
        """Shut the gate for `calls`: they wait, or raise ComponentError where `fail` is set."""
        with self._changed:
            self._held, self._fails = frozenset(calls), fail
            self._changed.notify_all()

    def release(self) -> None:
        """Open the gate and let waiting calls go on."""
        with self._changed:
            self._held = frozenset()
            self._changed.notify_all()

    def wait_until_blocked(self, timeout_s: float = 10.0) -> bool:
        """Wait until a call stands at the gate; False when none came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting > 0, timeout_s)

    @property
    def rows(self) -> list[bytes] | list[Pair]:
        """The visible rows of an in-memory inner sink."""
        assert isinstance(self.inner, _InMemorySink)
        return self.inner.rows

    def open(self, context: SinkContext) -> None:
        """Never gated."""
        self.inner.open(context)

    def write(self, rows: Rows) -> None:
        """Pass the gate, then write."""
        self._pass("write")
        self.inner.write(rows)

    def prepare(self, checkpoint: int) -> Manifest:
        """Pass the gate, then prepare."""
        self._pass("prepare")
        return self.inner.prepare(checkpoint)

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Pass the gate, then commit."""
        self._pass("commit")
        self.inner.commit(checkpoint, manifest)

    def close(self) -> None:
        """Never gated."""
        self.inner.close()

    def _pass(self, call: GatedCall) -> None:
        with self._changed:
            if call in self._held and not self._fails:
                self._waiting += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: call not in self._held or self._fails, self._patience_s)
                self._waiting -= 1
            if call in self._held:
                raise ComponentError(f"the gate is shut for {call}")
