"""The checkpoint procedure: eight numbered steps, in the one order that loses nothing.

| step | what | after a crash right behind it |
|---|---|---|
| 1 | barrier: queue, ledger, fingerprints and arrival position are cut in one moment | N never happened |
| 2 | sinks prepare: everything written is flushed and confirmed | N never happened; staged work is dropped |
| 3 | state blobs are durable, each with the complete text of record N | N happened only if a deciding sink says so |
| 4 | the deciding sink commits a transaction that carries (job, epoch, N) | N happened; the blob gives its record |
| 5 | commit record N is appended to the log | N happened |
| 6 | re-committable sinks publish | N happened; publishing is repeated |
| 7 | the watermark of record N holds: ACK may be sent | N happened |
| 8 | the arrival log is cut, old blobs and log entries are pruned | N happened |

Before step 4 nothing has moved: an error or a timeout aborts, and the prepared work goes into N + 1. From step 4 on
there is only forward: an unknown outcome is read back, a failing store or sink is waited for. There is one checkpoint
at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edgesocket.checkpoint.blob import blob_name, encode_blob, parse_blob_name
from edgesocket.checkpoint.commit_log import KEEP_AGE_MS, Log, append, prune
from edgesocket.checkpoint.effects import (
    Abort,
    AskDeciding,
    CommitDeciding,
    CommitSinks,
    Complete,
    Create,
    Cut,
    CutResult,
    Encode,
    List,
    PrepareSinks,
    Procedure,
    Remove,
    Wait,
    WallClock,
)
from edgesocket.checkpoint.entries import Commit
from edgesocket.errors import ComponentError, EdgeSocketError, FencedError, StoreError

RETRY_S = 1.0
"""How long a step that may only go forward waits before it is tried again."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """What one checkpoint needs to know before it starts.

    Attributes:
        number: N.
        epoch: of this incarnation.
        has_deciding_sink: whether step 4 exists.
        kept: how many checkpoints stay restorable, at least 1.
        force: write a checkpoint even if nothing changed since the last record (a final one, a savepoint).
        log_age_ms: entries of the commit log stay at least this long.
    """

    number: int
    epoch: int
    has_deciding_sink: bool
    kept: int
    force: bool = False
    log_age_ms: int = KEEP_AGE_MS


@dataclass(frozen=True, slots=True)
class CheckpointEnd:
    """How a checkpoint ended.

    Attributes:
        completed: step 7 was reached.
        written: a commit record was appended; False for one that had nothing new to say.
        reason: why it was aborted, else empty.
        error: the error behind the reason.
        blob_bytes: size of each of its blobs, by kind.
    """

    completed: bool
    written: bool
    reason: str = ""
    error: BaseException | None = None
    blob_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def state_bytes(self) -> int:
        """Size of its blobs together."""
        return sum(self.blob_bytes.values())


def checkpoint(plan: CheckpointPlan, log: Log) -> Procedure[CheckpointEnd]:
    """Run checkpoint N. Yields effects; see the module's text.

    Raises:
        FencedError: another incarnation owns the job; nothing was acknowledged.
        ComponentError: the deciding sink failed at step 4 and N did not land: the incarnation must end.
    """
    number = plan.number
    cut: CutResult = yield Cut()  # 1
    try:
        manifests: dict[str, Any] = yield PrepareSinks(number)  # 2
        if not manifests and not plan.force and _says_nothing_new(log, cut):
            yield Complete(number)
            return CheckpointEnd(completed=True, written=False)
        record = {"source": cut.source, "sinks": manifests, "log_index": cut.log_index}
        time_ms: int = yield WallClock()
        header = {"n": number, "epoch": plan.epoch, "time_ms": time_ms, "record": record}
        blobs: dict[str, bytes] = yield Encode(partial(_encode_blobs, header, cut))
        sizes = yield from _write_blobs(plan, blobs)  # 3
    except FencedError:
        raise
    except EdgeSocketError as error:
        yield Abort(number, str(error))
        return CheckpointEnd(completed=False, written=False, reason=str(error), error=error)
    if plan.has_deciding_sink:
        yield from _commit_deciding(number, manifests)  # 4
    yield from _append_record(log, Commit(plan.epoch, time_ms, number, record))  # 5
    yield from _commit_sinks(number, manifests)  # 6
    yield Complete(number)  # 7 (and the arrival log's part of 8)
    yield from _prune(plan, log, time_ms)  # 8
    return CheckpointEnd(completed=True, written=True, blob_bytes=sizes)


def _says_nothing_new(log: Log, cut: CutResult) -> bool:
    """Whether the newest record already says all this: an idle job writes nothing."""
    last = log.last(Commit)
    return last is not None and last[1].record["source"] == cut.source and last[1].record["log_index"] == cut.log_index


def _encode_blobs(header: dict[str, Any], cut: CutResult) -> dict[str, bytes]:
    return {kind: encode_blob(header, parts) for kind, parts in cut.encode().items()}


def _write_blobs(plan: CheckpointPlan, blobs: dict[str, bytes]) -> Procedure[dict[str, int]]:
    for kind, data in blobs.items():
        name = blob_name(plan.number, plan.epoch, kind)
        created: bool = yield Create(name, data)
        if not created:
            raise StoreError(f"{name} is there already: checkpoint {plan.number} was written twice")
    return {kind: len(data) for kind, data in blobs.items()}


def _commit_deciding(number: int, manifests: dict[str, Any]) -> Procedure[None]:
    try:
        yield CommitDeciding(number, manifests)
    except ComponentError:
        landed: int = yield AskDeciding()
        if landed < number:
            raise


def _append_record(log: Log, entry: Commit) -> Procedure[None]:
    while True:
        try:
            yield from append(log, entry)
            return
        except FencedError:
            raise
        except StoreError as error:
            yield Wait(RETRY_S, f"commit record {entry.n} cannot be appended: {error}")


def _commit_sinks(number: int, manifests: dict[str, Any]) -> Procedure[None]:
    while manifests:
        try:
            yield CommitSinks(number, manifests)
            return
        except ComponentError as error:
            if not error.retryable:
                raise
            yield Wait(RETRY_S, f"checkpoint {number} cannot be published: {error}")


def _prune(plan: CheckpointPlan, log: Log, now_ms: int) -> Procedure[None]:
    """Remove what no restore needs. Failing to is no failure of the checkpoint: the next one tries again."""
    try:
        names: list[str] = yield List("state")
        commits = [commit for _, commit in log.all(Commit)]
        for name in stale_blobs(names, commits, plan.kept, plan.number):
            yield Remove(name)
        applied = commits[-1].record["log_index"]
        keep_from, age_ms = log.keep_from(plan.kept), plan.log_age_ms
        yield from prune(log, keep_from, operator_through=applied, now_ms=now_ms, keep_age_ms=age_ms)
    except FencedError:
        raise
    except StoreError:
        return


def stale_blobs(names: Iterable[str], commits: Iterable[Commit], kept: int, number: int) -> list[str]:
    """The blobs that belong to none of the newest `kept` commits; blobs above `number` are left alone."""
    keep = {commit.n for commit in list(commits)[-kept:]}
    stale: list[str] = []
    for name in names:
        parsed = parse_blob_name(name)
        if parsed is not None and parsed[0] <= number and parsed[0] not in keep:
            stale.append(name)
    return stale
