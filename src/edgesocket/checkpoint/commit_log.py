"""The commit log: which checkpoints happened, who owns the job, and the fence between incarnations.

The log is a directory of small files, `log/<20 digit index>.json`, one entry each. An entry is made by *exclusive
create* at the index after the newest one its writer has read: of several writers exactly one gets the index, the
others have to read what it wrote before they can go on. A starting incarnation appends a claim; an owner that meets
anything after its claim that is neither its own nor an operator's is fenced. No clock and no lock takes part in this.

Why that is a fence, and why pruning does not break it
------------------------------------------------------
Without pruning: a create at index i succeeds only where its writer has read all of 1..i-1, so whoever appends after a
claim knows of the claim. Pruning frees names, and a writer that slept since it last read (a stopped process, a
hung disk: a *zombie*) can now create a name far below the head. Call a create *stale* if a higher index existed at
that moment, else *sound*. Four rules keep stale creates from ever counting:

1. *An owner only removes entries below a commit that it keeps.* What it removes late, after it was fenced without
   knowing, lies below a commit of its own, and so below everything its successors wrote. So the newest commit is never
   removed: where a name was freed, a commit stands above it, for ever.
2. *An owner never removes its own claim*, and cannot know a later one without being fenced. So the newest claim is
   never removed.
3. *After its create a writer lists the directory.* Sound: every entry above was written by someone who had read ours.
   Stale: by rule 1 the listing shows a commit above. So a writer whose listing shows nothing above, or only
   operators' entries (which are read and taken in), was sound. Anything else above means that the append does not
   count: the create was stale, or it was sound and a successor has claimed since (then the successor has read the entry
   and builds on it; not acknowledging it is safe). The epoch of what lies above does not matter: a stale *claim* finds
   commits of the lower epoch that it wanted to end, and has lost all the same.
4. *A sound writer knew the newest claim*: the claim was in its first listing (rule 2: not removed), or was created
   later at an index above that listing's head, and such indexes are read one by one, without a gap. So at the moment
   a sound entry is created, no claim newer than the writer's own is in the log.

Together: an append is acknowledged only if it was sound (3), and then no newer claim existed (4): at most one
incarnation gets commits acknowledged at any place in the log, and each successor has read every commit acknowledged
before its claim. The zombie that sleeps between "is the next index free?" and the link, while everything around it is
pruned, makes a stale create; it lists, sees a commit above, and stops.

Stale entries stay behind as litter below the newest commit. A reader must not take them for history. Each entry
names the checksum of the one its writer had read before it, and entries only count as part of the unbroken chain
that ends at the head (log_view.py): litter below a gap is outside, litter that happens to touch the oldest kept entry
is not the one that entry names. Epochs of litter do count for choosing the next epoch.

An operator's append (settle, accept) has no epoch to defend, so it is told apart by the chain: if there is anything
above, the log is read again, and either the entry is in the chain (whoever went on has taken it in), or it is written
again at the head. (Looking at the next entry alone would not do: litter can follow litter.)

What this asks of a store, besides an exclusive and durable create: *a listing shows every file that existed during
the whole listing*. A listing that itself sleeps for longer than entries are kept could miss everything, so
`prune` keeps a minimum number of entries and an age, and a store must repeat a listing that took long. The age also
covers shared file systems that answer listings from a cache.

An unknown outcome (StoreError from a create) is read back and compared byte for byte; if that fails too, `append`
raises and may be called again with the same entry, which then finds its own bytes. Create, list and read failing in
any order never make an entry count twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgesocket.checkpoint.effects import Create, List, Procedure, Read, Remove, Wait
from edgesocket.checkpoint.entries import (
    LOG_DIRECTORY,
    Accept,
    Claim,
    Commit,
    Damage,
    Entry,
    OperatorEntry,
    Placed,
    Settle,
    Started,
    decode_entry,
    encode_entry,
    entry_name,
    index_of,
)
from edgesocket.checkpoint.log_view import COMMITS_IN_MEMORY, Log, follows, is_operator_entry
from edgesocket.errors import DamagedStateError, FencedError, StoreError

__all__ = ["KEEP_AGE_MS", "KEEP_AT_LEAST", "KEEP_AT_MOST", "Log", "append", "claim", "prune", "read_log", "refresh"]

KEEP_AT_LEAST = 64
KEEP_AGE_MS = 24 * 3600 * 1000
KEEP_AT_MOST = 10_000

_ROUNDS = 1000
"""How often a read or an append goes round while others write, before it is called a failure."""
_REMOVALS_AT_ONCE = 256
_BUSY_WAIT_S = 0.01


def read_log(commits_in_memory: int = COMMITS_IN_MEMORY) -> Procedure[Log]:
    """Read the whole log.

    Args:
        commits_in_memory: how many of the newest commits the log remembers, at least as many as are kept restorable.

    Returns:
        The log with epoch 0: good for reading, for `claim`, and for appending operators' entries. What cannot be
        read is in its `damaged`; judging that is the caller's business.

    Raises:
        StoreError: the store could not be read, or changed faster than it can be read.
    """
    log = Log(commits_in_memory)
    yield from _load(log)
    log.take_news()
    return log


def refresh(log: Log, *, thorough: bool = False) -> Procedure[list[Placed]]:
    """Read what was appended since: one Read when nothing was.

    Args:
        log: the log to move on.
        thorough: also list the directory, so that a process which slept through a pruning notices; without it, such
            a reader may be shown litter (such an owner is fenced either way).

    Returns:
        What others wrote, in order, including what `append` met on its way; each entry is returned once. Nothing
        while another procedure runs on this log.

    Raises:
        FencedError: the log has an owner's epoch, and another incarnation has written.
        DamagedStateError: the log has an owner's epoch, and the next entry cannot be read.
        StoreError: the store could not be read; the log is as far as it got.
    """
    if not log.begin():
        return []
    try:
        if not (yield from _follow(log)):
            yield from _load(log)
        elif thorough and log.epoch:
            yield from _judge_what_is_above(log, log.head)
        elif thorough and max((yield from _list_indexes()), default=0) > log.head:
            yield from _load(log)
        return log.take_news()
    finally:
        log.end()


def append(log: Log, entry: Entry) -> Procedure[int]:
    """Append `entry` at the head; when this returns, it is durable and counts.

    An owner (its log came out of `claim`) appends entries of its own epoch. Any other log takes operators' entries
    only; their epoch is filled in. Entries of operators met on the way are taken in: ask `refresh` for them.

    Returns:
        The index it got.

    Raises:
        FencedError: another incarnation has taken over. The entry does not count for us, though it may be in the log.
        DamagedStateError: an entry in the way cannot be read.
        StoreError: unknown whether it happened. Call again with the same entry, which never makes it count twice.
    """
    while not log.begin():
        yield Wait(_BUSY_WAIT_S, "the commit log is being read")
    try:
        if log.epoch:
            if entry.epoch != log.epoch:
                raise ValueError(f"an entry of epoch {entry.epoch} in the log of epoch {log.epoch}")
            return (yield from _append_as_owner(log, entry))
        if not isinstance(entry, Settle | Accept):
            raise ValueError(f"only an owner may append {entry!r}")
        return (yield from _append_as_operator(log, entry))
    finally:
        log.end()


def claim(log: Log, entry: Claim) -> Procedure[Claim]:
    """Take the job: append `entry` with the next epoch, and make `log` the owner's.

    What the old incarnation or operators append meanwhile is read, and the claim goes after it; so look at the log's
    newest commit after this, not before.

    Returns:
        The claim as it is in the log, with its epoch; `log.epoch` is the same.

    Raises:
        FencedError: another claimant won. Judge from the start, with a fresh `read_log`.
        StoreError: unknown whether it happened; may be called again with the same log and entry.
    """
    if log.epoch:
        raise ValueError("this log has an owner already")
    newest = log.last(Claim)
    for _ in range(_ROUNDS):
        # A damaged entry may have been a claim: leave its epoch free.
        mine = replace(entry, epoch=log.highest_epoch + len(log.damaged) + 1)
        index, data = log.head + 1, encode_entry(mine, log.head + 1, log.tail)
        if (yield from _create(index, data)):
            indexes = yield from _list_indexes()
            yield from _refuse_foreign(i for i in reversed(indexes) if i > index)
            _require_listed(index, indexes)
            log.add(decode_entry(entry_name(index), data))
            log.epoch = mine.epoch
            log.listed = indexes
            log.own_start.add(index)
            log.take_news()
            return mine
        yield from _catch_up(log)
        if log.last(Claim) != newest:
            raise FencedError("another process claimed the job at the same time")
    raise StoreError("the commit log grows faster than a claim can be appended")


def prune(
    log: Log,
    keep_from: int,
    *,
    operator_through: int,
    now_ms: int,
    keep_at_least: int = KEEP_AT_LEAST,
    keep_age_ms: int = KEEP_AGE_MS,
    keep_at_most: int = KEEP_AT_MOST,
) -> Procedure[int]:
    """Remove old entries, oldest first, a few hundred at most; call it after each commit.

    Args:
        log: an owner's log, after its `Started` was appended.
        keep_from: index of the oldest commit that is still needed (`log.keep_from(3)`). Nothing from there on goes.
        operator_through: operators' entries up to this index are in the newest commit's record; later ones stay,
            and everything above them.
        now_ms: Unix time in ms, to compare with the entries' own.
        keep_at_least: how many of the newest indexes stay in any case.
        keep_age_ms: younger entries stay (see the module's text for what this protects) ...
        keep_at_most: ... unless there are more than this.

    Returns:
        How many entries were removed.

    Raises:
        StoreError: the store failed; what was removed is removed, and the rest is for the next call.
    """
    if len(log.own_start) < 2:
        raise ValueError("only an owner that has appended its Started may prune: the one before may still be needed")
    if not any(index == keep_from for index, _ in log.all(Commit)):
        raise ValueError(f"no commit at index {keep_from} to keep from")
    later = log.operator_entries(above=operator_through)
    limit = min(keep_from, log.head - keep_at_least + 1, *(index for index, _ in later[:1]))
    old = [i for i, time_ms in log.times.items() if i < limit and time_ms <= now_ms - keep_age_ms]
    through = max([*old, min(limit - 1, log.head - keep_at_most)])
    removable = [i for i in log.listed if i <= through and i not in log.own_start][:_REMOVALS_AT_ONCE]
    removed: list[int] = []
    if log.begin():
        try:
            for index in removable:
                yield Remove(entry_name(index))
                removed.append(index)
        finally:
            log.forget(removed)
            log.end()
    return len(removed)


def _append_as_owner(log: Log, entry: Entry) -> Procedure[int]:
    index = _echo_of(log, entry)
    for _ in range(_ROUNDS):
        if index is not None:
            break
        data = encode_entry(entry, log.head + 1, log.tail)
        if (yield from _create(log.head + 1, data)):
            index = log.head + 1
            placed = decode_entry(entry_name(index), data)
            log.add(placed)
            log.echoes.append(placed)
        else:
            yield from _catch_up(log)
            index = _echo_of(log, entry)
    if index is None:
        raise StoreError("the commit log grows faster than can be appended")
    yield from _judge_what_is_above(log, index)
    log.echoes.clear()
    if isinstance(entry, Started):
        log.own_start.add(index)
    return index


def _append_as_operator(log: Log, entry: OperatorEntry) -> Procedure[int]:
    for _ in range(_ROUNDS):
        index = log.head + 1
        data = encode_entry(replace(entry, epoch=log.highest_epoch), index, log.tail)
        if not (yield from _create(index, data)):
            yield from _catch_up(log)
            continue
        placed = decode_entry(entry_name(index), data)
        indexes = yield from _list_indexes()
        if all(i <= index for i in indexes):
            _require_listed(index, indexes)
            log.add(placed)
            return index
        yield from _load(log)
        if any(p.index == index and p.crc == placed.crc for p in log.entries):
            return index
    raise StoreError("the commit log grows faster than can be appended")


def _echo_of(log: Log, entry: Entry) -> int | None:
    """Where `entry` is in the log already, because an earlier try to append it did happen."""
    for placed in log.echoes:
        at_its_place = placed.index, placed.after
        if encode_entry(placed.entry, *at_its_place) == encode_entry(entry, *at_its_place):
            return placed.index
    return None


def _create(index: int, data: bytes) -> Procedure[bool]:
    """Create entry `index`. True: it is in the log and ours. False: something else is there, or was."""
    name = entry_name(index)
    try:
        made = yield Create(name, data)
    except StoreError:
        there = yield Read(name)
        if there is None:
            raise
        return bool(there == data)
    if made:
        return True
    try:
        there = yield Read(name)
    except DamagedStateError:
        return False
    return bool(there == data)


def _judge_what_is_above(log: Log, index: int) -> Procedure[None]:
    """List, and decide whether the owner's entry at `index` counts; operators' entries above it are taken in."""
    indexes = yield from _list_indexes()
    above = [i for i in indexes if i > log.head]
    yield from _refuse_foreign(reversed(above))
    if above:
        yield from _follow(log)
        if log.head < above[-1]:
            raise FencedError("the commit log went on without this process")
    # Our own claim is never removed while we own the job: where it is missing, this is not our log (an empty directory
    # under a file system that was taken away), and what we have just made there is worth nothing.
    for own in log.own_start:
        _require_listed(own, indexes)
    _require_listed(index, indexes)
    log.listed = indexes


def _refuse_foreign(indexes: Iterable[int]) -> Procedure[None]:
    """Raise FencedError at the first entry that is not an operator's."""
    for index in indexes:
        found = yield from _read(index)
        if found is None:
            raise FencedError(f"{entry_name(index)} was pruned by another incarnation")
        if isinstance(found, Damage):
            raise DamagedStateError(found.name, found.reason)
        if not is_operator_entry(found.entry):
            raise _fenced_by(found)


def _require_listed(index: int, indexes: list[int]) -> None:
    if index and index not in indexes:
        raise StoreError(f"{entry_name(index)} was made here, but the listing of its directory does not show it")


def _catch_up(log: Log) -> Procedure[None]:
    """The next index is taken: read on. Where nothing can be read there, it was pruned: look at everything again."""
    head = log.head
    consistent = yield from _follow(log)
    if consistent and log.head > head:
        return
    if log.epoch:
        yield from _judge_what_is_above(log, 0)
    else:
        yield from _load(log)


def _follow(log: Log) -> Procedure[bool]:
    """Read the entries after the head, one by one, up to the first that is not there.

    Returns:
        False when a reader meets an entry that does not follow its head: it slept through a pruning, and what it has
        read or meets is litter.
    """
    while True:
        found = yield from _read(log.head + 1)
        if found is None:
            return True
        if log.epoch:
            _take_in_as_owner(log, found)
        elif isinstance(found, Damage):
            log.add_damage(found)
        elif follows(found, log.tail):
            log.add(found, news=True)
        else:
            return False


def _take_in_as_owner(log: Log, found: Placed | Damage) -> None:
    if isinstance(found, Damage):
        raise DamagedStateError(found.name, found.reason)
    if is_operator_entry(found.entry) and follows(found, log.tail):
        log.add(found, news=True)
    elif found.entry.epoch == log.epoch and follows(found, log.tail):
        # An append of ours whose outcome was unknown did happen: an epoch has one owner.
        log.add(found)
        log.echoes.append(found)
    else:
        raise _fenced_by(found)


def _fenced_by(found: Placed) -> FencedError:
    entry = found.entry
    if isinstance(entry, Claim):
        return FencedError(f"epoch {entry.epoch} of job {entry.job} was claimed by pid {entry.pid} on {entry.host}")
    return FencedError(f"{entry_name(found.index)} was written by the incarnation with epoch {entry.epoch}")


def _load(log: Log) -> Procedure[None]:
    """Fill `log` from a listing of which everything was read before it.

    The highest index of such a listing cannot be litter, whenever it was read, and the chain hangs on it.
    """
    found: dict[int, Placed | Damage] = {}
    for _ in range(_ROUNDS):
        indexes = yield from _list_indexes()
        unread = [index for index in indexes if index not in found]
        if not unread:
            log.fill({index: found[index] for index in indexes})
            return
        for index in unread:
            item = yield from _read(index)
            if item is not None:
                found[index] = item
    raise StoreError("the commit log changes faster than it can be read")


def _list_indexes() -> Procedure[list[int]]:
    names: list[str] = yield List(LOG_DIRECTORY)
    return sorted(index for index in map(index_of, names) if index)


def _read(index: int) -> Procedure[Placed | Damage | None]:
    name = entry_name(index)
    try:
        data: bytes | None = yield Read(name)
        return None if data is None else decode_entry(name, data)
    except DamagedStateError as error:
        return Damage(index, name, error.reason)
