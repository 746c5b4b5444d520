"""How an incarnation begins: it claims the job, and takes over what the commit log knows of those before it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any

from edgesocket.checkpoint.commit_log import claim, read_log
from edgesocket.checkpoint.effects import Procedure
from edgesocket.checkpoint.entries import Claim, Commit, Ended
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import (
    IN_THE_STATE,
    Recovered,
    arrivals_here,
    check_damage,
    previous_end_is_known,
    settlements_after,
    unclean_floors,
)
from edgesocket.components.source import RestoredSource, SourceContext
from edgesocket.components.state import Host, Ownership, VitalNotes
from edgesocket.engine.log_watch import settlement
from edgesocket.engine.performing import unix_ms
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.sink_group import SinkGroup
from edgesocket.engine.standing import Standing
from edgesocket.errors import ConfigError, ConfigProblem, FencedError, NotOwnerError
from edgesocket.telemetry.events import SchemaChanged


def take_job(
    plan: JobPlan,
    owner: Ownership,
    host: Host,
    drive: Callable[[Procedure[Any]], Any],
    report: Callable[[object], None],
) -> tuple[Log, str]:
    """Claim the job. Returns the log, now ours, and the token of the claim.

    Raises:
        NotOwnerError: it runs elsewhere.
        DamagedStateError, ConfigError: it cannot start from what is there.
    """
    owner.watch(plan.lease_ms, take_over=plan.take_over)
    log: Log = drive(read_log())
    drive(check_damage(log))
    check_identity(plan, log, report)
    try:
        claimed: Claim = drive(claim(log, claim_of(plan, host, unix_ms())))
    except FencedError as error:
        raise NotOwnerError(f"job {plan.name}: another process claimed it at the same moment") from error
    owner.start(log.epoch)
    return log, claimed.token


def claim_of(plan: JobPlan, host: Host, time_ms: int) -> Claim:
    """The claim of this process; its epoch is filled in when it is appended."""
    return Claim(
        epoch=0,
        time_ms=time_ms,
        token=secrets.token_hex(8),
        host=host.name,
        boot=host.boot,
        pid=os.getpid(),
        job=plan.name,
        source_id=plan.source_id,
        sink_ids=tuple(sink.sink_id for sink in plan.sinks),
        schema_hash=plan.schema_hash,
        endpoint=plan.endpoint,
    )


def check_identity(plan: JobPlan, log: Log, report: Callable[[object], None]) -> None:
    """See that the state belongs to this job. Raises ConfigError."""
    last = log.last(Claim)
    if last is None:
        return
    earlier = last[1]
    if earlier.job != plan.name:
        problem = ConfigProblem(
            "env.job.name",
            f"the state in {plan.state or plan.state_dir} belongs to job {earlier.job}",
            "give this job another --state-dir",
        )
        raise ConfigError([problem])
    if earlier.schema_hash != plan.schema_hash:
        report(SchemaChanged())


def prepared_manifests(log: Log, recovered: Recovered) -> dict[str, Any]:
    """Manifests of record N that may not be published yet: none after a clean end."""
    if recovered.record is None:
        return {}
    ended = log.last(Ended)
    commit = log.last(Commit)
    # One that ended for a reason (a record that does not fit, say) may have done so while its files could not be
    # published. Publishing twice is harmless.
    finished = ended is not None and ended[1].clean and not ended[1].reason
    if finished and ended is not None and commit is not None and ended[0] > commit[0]:
        return {}
    manifests: dict[str, Any] = recovered.record["sinks"]
    return manifests


def restored_source(plan: JobPlan, log: Log, recovered: Recovered, host: Host) -> RestoredSource:
    """What the source goes on from. No earlier owner may be able to answer any more.

    Raises:
        StoreError: the directory of the arrival log failed.
    """
    record = recovered.record
    marks = IN_THE_STATE if plan.apart is None else plan.apart.marks()
    log_index = 0 if record is None else record["log_index"]
    return RestoredSource(
        state=None if record is None else record["source"],
        blob_state=recovered.blob_source,
        blobs=recovered.blobs,
        rolled_back=recovered.rolled_back,
        unclean_floors=unclean_floors(log, after=recovered.epoch),
        previous_end_known=previous_end_is_known(log, host.name, host.boot, marks),
        arrivals_here=arrivals_here(log, marks) is not None,
        settlements=tuple(settlement(index, entry) for index, entry in settlements_after(log, log_index)),
    )


def begin_scratch(plan: JobPlan, log: Log, mark: str) -> None:
    """Make the directory of the arrival log this incarnation's, where it lies apart from the state.

    Raises:
        StoreError: it cannot be used.
    """
    if plan.apart is not None:
        plan.apart.begin(mark, goes_on_from=arrivals_here(log, plan.apart.marks()))


def source_context(
    plan: JobPlan,
    epoch: int,
    standing: Standing,
    sinks: SinkGroup,
    report: Callable[[object], None],
    vital: VitalNotes | None = None,
) -> SourceContext:
    """What the source is told."""
    return SourceContext(
        job=plan.name,
        epoch=epoch,
        state_dir=plan.state_dir,
        still_owner=standing.is_owner,
        report=report,
        failed=standing.fail,
        give_up_s=plan.give_up_s,
        dead_letter=sinks.bury,
        read_limit=plan.read_limit,
        vital=vital,
    )
