"""How a process of the ingress starts: watch, claim, recover, restore; as one procedure of the real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgesocket.checkpoint import effects
from edgesocket.checkpoint.commit_log import append, claim, read_log
from edgesocket.checkpoint.effects import Procedure
from edgesocket.checkpoint.entries import Claim, Commit, Ended, Settle, Started
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import (
    Recovered,
    check_damage,
    previous_end_is_known,
    recover,
    settlements_after,
    unclean_floors,
)
from edgesocket.components.sink import CommitRole, SinkContext
from edgesocket.components.source import OperatorSettlement, RestoredSource, SourceContext
from edgesocket.testing.simulator.source import SimulatedSource
from edgesocket.testing.simulator.system_calls import DiskPath

if TYPE_CHECKING:
    from edgesocket.testing.simulator.process import IngressProcess


@dataclass(frozen=True, slots=True)
class Restored:
    """A start that has succeeded."""

    source: SimulatedSource
    next_number: int


def starting(process: IngressProcess) -> Procedure[Restored]:
    """Become the owner, and bring the source to where the job was.

    Raises: what keeps an incarnation from starting.
    """
    yield from process.owner.become(take_over=process.take_over)
    log = process.log = yield from read_log()
    yield from check_damage(log)
    known = previous_end_is_known(log, process.host.name, process.boot)
    yield from claim(log, _claim(process))
    process.owner.start(log.epoch)
    process.keep_on()
    yield from process.owner.outlive()
    process.sinks = process.around.make_sinks()
    deciding = {key for key, sink in process.sinks.items() if sink.commit_role is CommitRole.DECIDING}
    for sink_id in deciding:
        process.sinks[sink_id].open(_sink_context(process, sink_id, 0, {}))
    recovered = yield from recover(log, log.epoch, has_deciding_sink=bool(deciding))
    prepared = _prepared(log, recovered)
    for sink_id, sink in process.sinks.items():
        if sink_id not in deciding:
            sink.open(_sink_context(process, sink_id, recovered.number, prepared))
    yield effects.CommitSinks(recovered.number, prepared)
    source = _source(process)
    k = source.open(_source_context(process), _restored(log, recovered, known=known))
    sync_ms = process.around.settings.arrival_sync_ms
    yield from append(log, Started(log.epoch, process.wall_ms(), k, sync_ms, process.host.name, process.boot))
    return Restored(source, recovered.next_number)


def settlement(index: int, entry: Settle) -> OperatorSettlement:
    """An operator's word as the source takes it."""
    return OperatorSettlement(index, entry.ids, ends_unclean=not entry.ids)


def _claim(process: IngressProcess) -> Claim:
    return Claim(
        epoch=0,
        time_ms=process.wall_ms(),
        token=process.name,
        host=process.host.name,
        boot=process.boot,
        pid=1,
        job="job",
        source_id="EdgeSocket",
        sink_ids=("one", "two"),
        schema_hash="",
        endpoint="",
    )


def _source(process: IngressProcess) -> SimulatedSource:
    around = process.around
    return SimulatedSource(around.settings, lambda: process.loop.now, process.between, around.facts)


def _source_context(process: IngressProcess) -> SourceContext:
    return SourceContext(
        job="job",
        epoch=process.epoch,
        state_dir=DiskPath(process.around.disk, "/state"),  # type: ignore[arg-type]
        still_owner=process.still_owner,
        report=lambda _: None,
        failed=process.fail,
    )


def _restored(log: Log, recovered: Recovered, *, known: bool) -> RestoredSource:
    record = recovered.record
    log_index = 0 if record is None else record["log_index"]
    return RestoredSource(
        state=None if record is None else record["source"],
        blob_state=recovered.blob_source,
        blobs=recovered.blobs,
        rolled_back=recovered.rolled_back,
        unclean_floors=unclean_floors(log, after=recovered.epoch),
        previous_end_known=known,
        settlements=tuple(settlement(index, entry) for index, entry in settlements_after(log, log_index)),
    )


def _prepared(log: Log, recovered: Recovered) -> dict[str, Any]:
    """Manifests of record N that may not be published yet: none after a clean end."""
    if recovered.record is None:
        return {}
    ended, commit = log.last(Ended), log.last(Commit)
    finished = ended is not None and ended[1].clean and not ended[1].reason
    if finished and ended is not None and commit is not None and ended[0] > commit[0]:
        return {}
    manifests: dict[str, Any] = recovered.record["sinks"]
    return manifests


def _sink_context(process: IngressProcess, sink_id: str, number: int, prepared: dict[str, Any]) -> SinkContext:
    return SinkContext(
        job="job",
        epoch=process.epoch,
        sink_id=sink_id,
        last_checkpoint=number,
        prepared={number: prepared[sink_id]} if sink_id in prepared else {},
    )
