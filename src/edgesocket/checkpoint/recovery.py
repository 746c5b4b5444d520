"""From the files of earlier incarnations to what the new one starts with.

The order matters. A damaged log stops everything before the job is claimed. Then, with the claim in place: the
deciding sink is fenced, and only then asked what landed; a checkpoint that landed without a record gets its record
from the blob; the newest record decides what is true; its blobs give the queue, or an older checkpoint's blobs do and
what they lack is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from edgesocket.checkpoint.blob import Blob, blob_name, decode_blob, parse_blob_name
from edgesocket.checkpoint.commit_log import append
from edgesocket.checkpoint.effects import AskDeciding, FenceDeciding, List, Procedure, Read
from edgesocket.checkpoint.entries import Accept, Commit, Ended, Settle, Started
from edgesocket.checkpoint.log_view import Log
from edgesocket.errors import DamagedStateError


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an incarnation starts with.

    Attributes:
        number: N, the newest completed checkpoint; 0 where none ever completed.
        epoch: of the incarnation that took it, 0 for none.
        record: record N: `source`, `sinks` (manifests by sink id), `log_index`; None for number 0.
        blob_source: source state of the checkpoint whose blobs could be read; None without any.
        blobs: their bytes, by kind.
        next_number: number of the next checkpoint, above every number used so far.
        rolled_back: the operator accepted an older checkpoint: what came after it is unknown.
        notes: what a person should know, one line each.
    """

    number: int = 0
    epoch: int = 0
    record: dict[str, Any] | None = None
    blob_source: dict[str, Any] | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    next_number: int = 1
    rolled_back: bool = False
    notes: tuple[str, ...] = ()


def check_damage(log: Log) -> Procedure[None]:
    """Refuse to go on when what decides is damaged.

    Raises:
        DamagedStateError: an entry newer than the newest readable commit (and than the operator's last word) cannot
            be read. The text says what can be accepted instead.
    """
    trusted = max(_index_of_base(log), _index_of_accept(log))
    for damage in log.damaged:
        if damage.index > trusted:
            names: list[str] = yield List("state")
            candidates = yield from acceptable(log, names)
            raise DamagedStateError(damage.name, damage.reason, _way_on(candidates))


def acceptable(log: Log, names: Iterable[str]) -> Procedure[dict[int, Commit]]:
    """Every checkpoint that `restore --accept` can go on from, by number: from the log and from blobs' own texts."""
    commits = {commit.n: commit for _, commit in log.all(Commit)}
    newest = max(commits, default=0)
    for name in sorted(names, reverse=True):
        parsed = parse_blob_name(name)
        if parsed is None or parsed[0] <= newest or parsed[0] in commits:
            continue
        blob = yield from _read_blob(name)
        if isinstance(blob, Blob):
            commits[parsed[0]] = _commit_of(blob)
    return commits


IN_THE_STATE = frozenset({""})
"""Marks of an arrival log that is part of the state."""


def previous_end_is_known(log: Log, host: str, boot: str, marks: Collection[str] = IN_THE_STATE) -> bool:
    """Whether what is known of the arrivals of the incarnation before is complete.

    It is when that incarnation ended cleanly, ran under the same boot of the same host (a killed process loses
    nothing it had written), or synced every burst. An incarnation that died before its restore was done left no
    `Started` and changes nothing.

    Where the arrival log lies apart from the state, all that needs the log itself: the one here must be that of the
    incarnation before. Without it two cases are left: its last checkpoint covers everything, or every burst since
    the newest checkpoint was kept in the store.

    Args:
        log: the commit log.
        host, boot: where this process runs.
        marks: of the incarnations whose arrival log is here, whole.
    """
    last = log.last(Started)
    if last is None:
        return True
    started, ended = last[1], log.last(Ended)
    clean = ended is not None and ended[1].epoch == started.epoch and ended[1].clean
    if started.scratch not in marks:
        covered = clean and ended is not None and ended[1].covered
        return covered or (bool(started.scratch) and _all_kept_in_store(log))
    return clean or (started.host, started.boot) == (host, boot) or started.arrival_sync_ms == 0


def arrivals_here(log: Log, marks: Collection[str]) -> str | None:
    """Which of these marks the arrival log of the incarnation before has; None where it is not here."""
    last = log.last(Started)
    return last[1].scratch if last is not None and last[1].scratch in marks else None


def _all_kept_in_store(log: Log) -> bool:
    """Whether each incarnation that noted arrivals since the newest checkpoint kept every burst in the store."""
    commit = log.last(Commit)
    since = 1 if commit is None else commit[1].epoch
    found = [placed.entry for placed in (*log.loose, *log.entries) if isinstance(placed.entry, Started)]
    started = {entry.epoch: entry for entry in found if entry.epoch >= since}
    if commit is not None and since not in started:
        return False
    return all(entry.arrival_sync_ms == 0 and entry.scratch for entry in started.values())


def unclean_floors(log: Log, after: int) -> dict[int, int | None]:
    """K as each incarnation newer than epoch `after` started with it, by epoch; the record of `after` has its own."""
    return {started.epoch: started.k for _, started in log.all(Started) if started.epoch > after}


def settlements_after(log: Log, log_index: int) -> list[tuple[int, Settle]]:
    """What operators settled after the entry that a record has applied, in order."""
    return [(index, entry) for index, entry in log.all(Settle) if index > log_index]


def recover(log: Log, epoch: int, *, has_deciding_sink: bool) -> Procedure[Recovered]:
    """Find out what is true. The claim of `epoch` is in the log already.

    Raises:
        FencedError: somebody else claimed meanwhile.
        DamagedStateError: the deciding sink says that N landed, and N's blob is not readable.
    """
    notes: list[str] = []
    names: list[str] = yield List("state")
    base, rolled_back = yield from _base(log, names)
    if has_deciding_sink:
        yield FenceDeciding(epoch)
        landed: int = yield AskDeciding()
        if base is None or landed > base.n:
            landed_commit = yield from _record_of_landed(log, epoch, landed, names)
            if landed_commit is not None:
                notes.append(f"checkpoint {landed} had landed in its sink; its record was made from its blob")
                base, rolled_back = landed_commit, False
    used = [parsed[0] for name in names if (parsed := parse_blob_name(name))]
    next_number = max([base.n if base else 0, *used, *(c.n for _, c in log.all(Commit))], default=0) + 1
    if base is None:
        return Recovered(next_number=next_number, notes=tuple(notes))
    source, blobs = yield from _read_blobs(log, base, names, notes)
    return Recovered(base.n, base.epoch, base.record, source, blobs, next_number, rolled_back, tuple(notes))


def _base(log: Log, names: list[str]) -> Procedure[tuple[Commit | None, bool]]:
    """The newest completed checkpoint, and whether the operator went back to it."""
    accept = log.last(Accept)
    last = log.last(Commit)
    if accept is not None and (last is None or accept[0] > last[0]):
        candidates = yield from acceptable(log, names)
        number = accept[1].n
        if number not in candidates:
            raise DamagedStateError(f"checkpoint {number}", "was accepted, but is not readable", _way_on(candidates))
        return candidates[number], number < max(candidates) or bool(log.damaged)
    return (None if last is None else last[1]), False


def _record_of_landed(log: Log, epoch: int, landed: int, names: list[str]) -> Procedure[Commit | None]:
    if landed == 0:
        return None
    for name in sorted(names, reverse=True):
        parsed = parse_blob_name(name)
        if parsed is not None and parsed[0] == landed:
            blob = yield from _read_blob(name)
            if isinstance(blob, Blob):
                old = _commit_of(blob)
                entry = Commit(epoch, old.time_ms, old.n, old.record)
                yield from append(log, entry)
                return old
    raise DamagedStateError(
        f"state of checkpoint {landed}", "landed in its sink, but no readable blob holds its record"
    )


def _read_blobs(
    log: Log, base: Commit, names: list[str], notes: list[str]
) -> Procedure[tuple[dict[str, Any] | None, dict[str, bytes]]]:
    """Blobs of the newest checkpoint, at or below `base`, that has them all intact."""
    older = [commit for _, commit in reversed(log.all(Commit)) if commit.n < base.n]
    present = [parsed for name in names if (parsed := parse_blob_name(name))]
    for commit in [base, *older]:
        numbers = {(n, epoch) for n, epoch, _ in present if n == commit.n}
        for number, epoch in sorted(numbers, reverse=True):
            kinds = [kind for n, e, kind in present if (n, e) == (number, epoch)]
            found: dict[str, bytes] = {}
            for kind in kinds:
                blob = yield from _read_blob(blob_name(number, epoch, kind))
                if isinstance(blob, Blob):
                    if blob.record["record"] == commit.record:  # else: a fenced owner's, of the same number
                        found[kind] = blob.body
                else:
                    notes.append(f"damaged: {blob}")
            if "queue" in found:
                if commit is not base:
                    notes.append(
                        f"the queue comes from checkpoint {commit.n}; what checkpoint {base.n} had queued beyond it "
                        f"answers RESEND"
                    )
                return commit.record["source"], found
    notes.append(f"no readable queue blob at or below checkpoint {base.n}: what it had queued answers RESEND")
    return None, {}


def _read_blob(name: str) -> Procedure[Blob | DamagedStateError]:
    try:
        data: bytes | None = yield Read(name)
        if data is None:
            return DamagedStateError(name, "is gone")
        return decode_blob(name, data)
    except DamagedStateError as error:
        return error


def _commit_of(blob: Blob) -> Commit:
    return Commit(blob.record["epoch"], blob.record["time_ms"], blob.record["n"], blob.record["record"])


def _index_of_base(log: Log) -> int:
    last = log.last(Commit)
    return 0 if last is None else last[0]


def _index_of_accept(log: Log) -> int:
    last = log.last(Accept)
    return 0 if last is None else last[0]


def _way_on(candidates: dict[int, Commit]) -> str:
    if not candidates:
        return (
            "Nothing was started and nothing was changed. No checkpoint can be read; bring the file back from a copy, "
            "or begin again with another --state-dir (collectors must then send everything they still hold)."
        )
    newest = max(candidates)
    return (
        "Nothing was started and nothing was changed. Bring the file back from a copy, or go on from a checkpoint that "
        f"can be read ({', '.join(str(n) for n in sorted(candidates, reverse=True))}):\n"
        f"    edgesocket restore JOB --accept {newest}"
    )
