"""What one process has read of the commit log.

The entries that count are one unbroken *chain* that ends at the head: consecutive indexes, each entry naming the
checksum of the one before it. Below the chain lie only what pruning keeps on purpose (the owner's claim and started)
and leftovers of processes that slept through a pruning; commit_log.py says why no leftover can get into the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from edgesocket.checkpoint.entries import (
    AFTER_DAMAGED,
    FIRST,
    Accept,
    Claim,
    Commit,
    Damage,
    Ended,
    Entry,
    OperatorEntry,
    Placed,
    Settle,
    Started,
    entry_name,
)

E = TypeVar("E", Claim, Started, Commit, Settle, Accept, Ended)

COMMITS_IN_MEMORY = 16
"""Older commits are checked and forgotten: a log of a day of checkpoints must not be a day of records in memory."""


class Log:
    """The commit log as far as it was read: filled and moved on by the procedures of commit_log.py.

    One procedure at a time runs on a log. One that overlaps another, also from another thread, notices: an append
    waits (by yielding `Wait`), a refresh or a prune does nothing.

    Attributes:
        epoch: epoch of the incarnation that writes through this log, 0 for a reader or an operator.
        head: index of the newest entry known, 0 for an empty log.
        highest_epoch: the highest epoch seen in any entry, leftovers included.
        entries: the chain, in order; of its commits only the newest `commits_in_memory`.
        loose: entries below the chain, in order.
        damaged: places that cannot be read, in order; also the place below the chain where the entries that would
            say what was committed are missing.
    """

    def __init__(self, commits_in_memory: int = COMMITS_IN_MEMORY) -> None:
        self.commits_in_memory = commits_in_memory
        self.epoch = 0
        self.head = 0
        self.highest_epoch = 0
        self.entries: list[Placed] = []
        self.loose: list[Placed] = []
        self.damaged: list[Damage] = []
        self.tail = FIRST
        """What the next entry has to name as the entry before it."""
        self.listed: list[int] = []
        """Indexes of all files at the last listing."""
        self.times: dict[int, int] = {}
        """Index -> time of every entry read, rising, forgotten commits included."""
        self.own_start: set[int] = set()
        """Indexes of our own claim and started."""
        self.echoes: list[Placed] = []
        """Our own entries that were found in the log before `append` could say so."""
        self._news: list[Placed] = []
        # Taking the one token out is atomic, in every build of Python, without a lock (this floor has none).
        self._tokens = [True]

    def begin(self) -> bool:
        """Whether a procedure may start; it must `end` then."""
        try:
            return self._tokens.pop()
        except IndexError:
            return False

    def end(self) -> None:
        """The procedure that began is over."""
        self._tokens.append(True)

    def all(self, kind: type[E]) -> list[tuple[int, E]]:
        """Index and entry of every entry of one kind in the chain, in order."""
        return [(placed.index, placed.entry) for placed in self.entries if isinstance(placed.entry, kind)]

    def last(self, kind: type[E]) -> tuple[int, E] | None:
        """Index and entry of the newest entry of one kind, or None.

        A claim or started that pruning left below the chain is found when the chain has entries of its epoch.
        """
        found = self.all(kind)
        if found:
            return found[-1]
        if kind is not Claim and kind is not Started:
            return None
        epochs = {placed.entry.epoch for placed in self.entries if not is_operator_entry(placed.entry)}
        for placed in reversed(self.loose):
            if isinstance(placed.entry, kind) and placed.entry.epoch in epochs:
                return placed.index, placed.entry
        return None

    def operator_entries(self, above: int = 0) -> list[tuple[int, OperatorEntry]]:
        """Index and entry of what operators wrote above index `above`, in order."""
        return [(p.index, p.entry) for p in self.entries if p.index > above and isinstance(p.entry, Settle | Accept)]

    def keep_from(self, commits: int) -> int:
        """Index of the oldest of the newest `commits` commits (of all there are, if fewer), 0 without a commit."""
        found = self.all(Commit)[-commits:]
        return found[0][0] if found else 0

    @property
    def has_news(self) -> bool:
        """Whether `take_news` has something to hand out. Safe on any thread."""
        return bool(self._news)

    def take_news(self) -> list[Placed]:
        """Entries others wrote since this was last asked, in order; each is handed out once."""
        news, self._news = self._news, []
        return news

    def add(self, placed: Placed, *, news: bool = False) -> None:
        """The entry after the head is `placed`."""
        self.entries.append(placed)
        self._count(placed)
        self.head = placed.index
        self.tail = placed.crc
        if news:
            self._news.append(placed)
        if isinstance(placed.entry, Commit):
            self._forget_old_commits()

    def add_damage(self, damage: Damage) -> None:
        """The entry after the head is there, but cannot be read."""
        self.damaged.append(damage)
        self.head = damage.index
        self.tail = AFTER_DAMAGED

    def fill(self, found: Mapping[int, Placed | Damage]) -> None:
        """Start again from everything in the log's directory: find the chain, and what is below it."""
        known = self.head
        self.head = max(found, default=0)
        start = _chain_start(found, self.head)
        in_order = [found[index] for index in sorted(found)]
        placed = [item for item in in_order if isinstance(item, Placed)]
        self.entries = [item for item in placed if item.index >= start]
        self.loose = [item for item in placed if item.index < start]
        self.damaged = [item for item in in_order if isinstance(item, Damage)]
        newest = found.get(self.head)
        self.tail = FIRST if newest is None else newest.crc if isinstance(newest, Placed) else AFTER_DAMAGED
        self.times = {}
        self.listed = sorted(found)
        self._news = [item for item in self.entries if item.index > known]
        for item in placed:
            self._count(item)
        if start > 1 and not self._could_hold_commit(start):
            reason = "is missing, and no commit record is above it"
            self.damaged.insert(0, Damage(start - 1, entry_name(start - 1), reason))
        self._forget_old_commits()

    def forget(self, removed: Iterable[int]) -> None:
        """These indexes are gone from the log's directory."""
        gone = set(removed)
        self.entries = [placed for placed in self.entries if placed.index not in gone]
        self.loose = [placed for placed in self.loose if placed.index not in gone]
        self.damaged = [damage for damage in self.damaged if damage.index not in gone]
        self.listed = [index for index in self.listed if index not in gone]
        for index in gone:
            self.times.pop(index, None)

    def _count(self, placed: Placed) -> None:
        self.times[placed.index] = placed.entry.time_ms
        self.highest_epoch = max(self.highest_epoch, placed.entry.epoch)

    def _could_hold_commit(self, start: int) -> bool:
        return any(isinstance(placed.entry, Commit) for placed in self.entries) or any(
            damage.index >= start for damage in self.damaged
        )

    def _forget_old_commits(self) -> None:
        commits = self.all(Commit)
        if len(commits) > self.commits_in_memory:
            old = {index for index, _ in commits[: -self.commits_in_memory]}
            self.entries = [placed for placed in self.entries if placed.index not in old]


def is_operator_entry(entry: Entry) -> bool:
    """Whether an operator wrote it; the owner takes such an entry in, anything else foreign fences it."""
    return isinstance(entry, Settle | Accept)


def follows(here: Placed, tail: str) -> bool:
    """Whether the writer of `here` had read the entry whose checksum is `tail`.

    What is damaged for one of the two and readable for the other proves nothing, and passes.
    """
    return here.after == tail or AFTER_DAMAGED in (here.after, tail)


def _chain_start(found: Mapping[int, Placed | Damage], head: int) -> int:
    index = head
    while index - 1 in found:
        here, before = found[index], found[index - 1]
        if isinstance(here, Placed) and isinstance(before, Placed) and not follows(here, before.crc):
            break
        index -= 1
    return index
