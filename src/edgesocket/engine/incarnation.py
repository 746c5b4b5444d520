"""One incarnation of a job: from the claim to the end.

    acquire    lock or lease, read the log, claim the next epoch
    restore    recover, open sinks, publish again what may not be published, open the source, append `started`
    serve      pump rows, run checkpoints, until a stop or an error
    finish     no new records, drain, one last checkpoint, append `ended`

The pump is the thread that calls `run`. Three more belong to the incarnation: the store thread performs what touches
the state directory; from the claim on the keeper beats, and waits for nothing else; the housekeeper
lets the source look after itself and publishes the status.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from edgesocket.checkpoint import effects
from edgesocket.checkpoint.commit_log import append
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.entries import Ended, Started
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import Recovered, recover
from edgesocket.components.source import Source
from edgesocket.components.state import Host, Ownership, StateStore
from edgesocket.engine.checkpoints import CheckpointRunner, checkpoint_of
from edgesocket.engine.helpers import beat_s_of
from edgesocket.engine.log_watch import LogWatch
from edgesocket.engine.performing import Beside, ProcedureRun, perform_on, unix_ms
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.pump import Pump
from edgesocket.engine.sink_group import SinkGroup
from edgesocket.engine.standing import Standing
from edgesocket.engine.starting import begin_scratch, prepared_manifests, restored_source, source_context, take_job
from edgesocket.engine.status import describe
from edgesocket.engine.stored_notes import StoredNotes
from edgesocket.errors import (
    BadRecordError,
    ComponentError,
    EdgeSocketError,
    FencedError,
    ListenerError,
    RuleBrokenError,
    StoreError,
)
from edgesocket.telemetry.events import CheckpointRepaired, DrainFailed, EndNotWritten

REPLY_GRACE_S = 5.0
"""How long a graceful stop waits for owed replies to be read."""


class Incarnation:
    """Runs a job once. Made, run, thrown away.

    Args:
        plan: the job.
        store: its state directory.
        owner: who may own it.
        host: this host.
        report: told of everything that happens, for the log; called from several threads.
        publish_status: given the status about once a second, and when the state changes.
        now: a steady clock in seconds.
    """

    def __init__(
        self,
        plan: JobPlan,
        store: StateStore,
        owner: Ownership,
        host: Host,
        report: Callable[[object], None],
        publish_status: Callable[[dict[str, Any]], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._store = store
        self._report = report
        self._publish_status = publish_status
        self._now = now
        self._owner = owner
        self._host = host
        self._log = Log()
        self._mark = ""
        self._source: Source | None = None
        self._sinks = SinkGroup(plan, report, now)
        self._checkpoints: CheckpointRunner | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="edgesocket-store")
        self._watch: LogWatch | None = None
        self._pumping: Pump | None = None
        self._standing = Standing(owner, plan.lease_ms, report, now)
        self._helpers = plan.make_helpers(
            self._standing.beat, self._tick, self._publish, self._standing.fail, now, beat_s_of(plan.lease_ms)
        )
        self._state = "starting"
        self._began = now()
        self._told_of_checkpoint: Callable[[float], None] = lambda _: None

    # ---- from other threads --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask for a graceful end; returns when the source takes no more, at the latest a little after the grace.

        Safe on any thread, but not in a signal handler: it takes locks. The source is stopped here and not only by the
        pump, because the pump may be waiting for a sink, or the source for its port.
        """
        self._standing.stop_requested = True
        source = self._source
        if source is not None:
            source.wake()
            source.stop(REPLY_GRACE_S)

    @property
    def fenced(self) -> bool:
        """Whether another process may own the job: this one is silent and about to end. Safe on any thread."""
        return self._standing.fenced

    @property
    def standstill_s(self) -> float:
        """For how long the pump of a running job has not gone round; else 0. Safe on any thread."""
        pump = self._pumping
        return 0.0 if pump is None or self._state != "running" else max(0.0, self._now() - pump.turned_at)

    def on_checkpoint(self, callback: Callable[[float], None]) -> None:
        """Call `callback(now)` after each completed checkpoint, on the pump."""
        self._told_of_checkpoint = callback

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON."""
        figures = None if self._checkpoints is None else self._checkpoints.figures
        return {
            "state": self._state,
            "epoch": self._log.epoch,
            "running_for_s": round(self._now() - self._began, 1),
            "rows_written": 0 if self._pumping is None else self._pumping.rows,
            **describe(self._plan, self._host, self._sinks, figures, self._source, self._now()),
        }

    # ---- the pump's thread ---------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Run until a stop or an error.

        Returns:
            Whether the last checkpoint completed: everything received is confirmed.

        Raises:
            NotOwnerError, FencedError: the job runs elsewhere.
            DamagedStateError, ConfigError: it cannot start from what is there.
            ListenerError, BadRecordError, ComponentError, StoreError: it failed; everything is released.
            RuleBrokenError: it ended well, and a sink finds that its rows break a rule of the job.
        """
        try:
            self._acquire()
            # A restore may take longer than the lease, and nobody may take the job over meanwhile.
            self._helpers.start()
            self._owner.wait_until_alone()
            self._restore()
            self._serve()
            return self._finish()
        except BadRecordError as error:
            if self._pumping is not None:
                self._pumping.end_what_runs(self._report)
                self._append_ended(reason=error.reason, batch_id=error.batch_id)
            raise
        except ComponentError as error:
            if not self._standing.stop_requested:
                raise
            self._report(DrainFailed(str(error)))
            return False
        except FencedError:
            self._standing.fence()
            raise
        finally:
            self._release()

    def _acquire(self) -> None:
        self._log, self._mark = take_job(self._plan, self._owner, self._host, self._drive, self._report)

    def _restore(self) -> None:
        plan, log, sinks = self._plan, self._log, self._sinks
        source = plan.make_source()
        sinks.connect(source.schema)
        sinks.make()
        sinks.open_deciding(log.epoch)
        recovered: Recovered = self._drive(recover(log, log.epoch, has_deciding_sink=sinks.deciding is not None))
        for note in recovered.notes:
            self._report(CheckpointRepaired(note))
        sinks.open_others(log.epoch, recovered, prepared_manifests(log, recovered))
        restored = restored_source(plan, log, recovered, self._host)
        begin_scratch(plan, log, self._mark)
        vital = None if plan.apart is None else StoredNotes(self._store, log.epoch, recovered.epoch)
        k = source.open(source_context(plan, log.epoch, self._standing, self._sinks, self._report, vital), restored)
        self._source = self._standing.source = source  # from here on other threads look at it
        mark = self._mark if plan.apart is not None else ""
        started = Started(log.epoch, unix_ms(), k, plan.arrival_sync_ms, self._host.name, self._host.boot, mark)
        self._drive(append(log, started))
        self._checkpoints = CheckpointRunner(
            self._make_checkpoint,
            self._perform,
            self._store.perform,
            self._executor,
            source.wake,
            first_number=recovered.next_number,
            interval_s=plan.checkpoint_interval_s,
            timeout_s=plan.checkpoint_timeout_s,
            give_up_s=plan.give_up_s,
            report=self._report,
            completed=self._completed_checkpoint,
        )
        self._checkpoints.figures.last_number = recovered.number
        glances = plan.apart is None  # elsewhere it would be a request
        watch = self._watch = LogWatch(log, self._beside_the_pump, source, self._report, glances=glances)
        self._pumping = Pump(plan, source, sinks, self._checkpoints, watch, self._standing, self._now)

    def _serve(self) -> None:
        source, pump = self._source, self._pumping
        assert source is not None
        assert pump is not None
        self._standing.raise_failure()
        if self._standing.stop_requested:
            return
        try:
            source.start()
        except ListenerError:
            if not self._standing.stop_requested:
                raise
        pump.turned_at = self._now()
        self._set_state("running")
        pump.run()

    def _pump(self, timeout_s: float) -> int:
        """Move what is queued to the sinks. Returns how many records."""
        assert self._pumping is not None
        return self._pumping.move(timeout_s)

    def _finish(self) -> bool:
        """Stop taking records, write out what is queued, take the last checkpoint. Returns whether it completed."""
        assert self._source is not None
        assert self._pumping is not None
        self._set_state("stopping")
        deadline = self._pumping.limit_stop()
        self._source.stop(REPLY_GRACE_S)
        completed = self._pumping.drain_and_checkpoint(deadline)
        if completed:
            broken = "; ".join(str(error) for error in self._sinks.close())
            self._append_ended(reason=broken, covered=True)
            if broken:
                raise RuleBrokenError(broken)
        return completed

    def _append_ended(self, *, reason: str, batch_id: int = 0, covered: bool = False) -> None:
        """Say in the log how this incarnation ended; the arrival log is complete when it is closed cleanly."""
        assert self._source is not None
        self._stop_keeper()
        if reason:
            self._source.silence()
        clean = self._source.close(clean=True)
        try:
            covered = covered and clean
            ended = Ended(self._log.epoch, unix_ms(), clean, reason[:500], batch_id, covered)
            self._drive(append(self._log, ended))
        except EdgeSocketError as error:
            self._report(EndNotWritten(str(error)))

    def _make_checkpoint(self, number: int, force: bool) -> Any:
        return checkpoint_of(self._plan, self._log, self._sinks, number, force=force)

    def _drive(self, procedure: Any) -> Any:
        """Run a procedure to its end on this thread, before or after the store thread has work."""
        return drive(procedure, self._perform_any)

    def _perform_any(self, effect: Any) -> Any:
        if isinstance(effect, effects.Wait):
            # Who it waits for is a checkpoint or a look that was left in the middle: nobody moves that on any more.
            raise StoreError(effect.reason)
        if isinstance(effect, effects.Create | effects.Read | effects.List | effects.Remove):
            return self._store.perform(effect)
        result = self._perform(effect)
        return result.done_here() if isinstance(result, Beside) else result

    def _perform(self, effect: Any) -> Any:
        return perform_on(effect, self._source, self._sinks)

    def _beside_the_pump(self, procedure: Any) -> ProcedureRun:
        """The run of a procedure that the pump steps."""
        assert self._source is not None
        return ProcedureRun(procedure, self._perform, self._store.perform, self._executor, self._source.wake)

    # ---- for the helpers -----------------------------------------------------------------------------------------

    def _completed_checkpoint(self, now: float) -> None:
        self._told_of_checkpoint(now)
        self._helpers.publish_soon()  # the pump is not to wait for a disk

    def _tick(self) -> None:
        source, watch = self._source, self._watch
        if source is None:
            return
        source.tick()
        if self._standing.fenced or (watch is not None and watch.glance(self._store)):
            source.wake()

    def _publish(self) -> None:
        if self._standing.is_owner():
            self._publish_status(self.status())

    def _set_state(self, state: str) -> None:
        self._state = state
        if self._log.epoch and not self._standing.was_fenced:
            self._publish_status(self.status())

    def _stop_keeper(self) -> None:
        self._helpers.stop()

    def _release(self) -> None:
        self._set_state("fenced" if self._standing.was_fenced else "ended")
        self._stop_keeper()
        if self._source is not None:
            self._source.close(clean=False)  # first: nobody is to wait for an answer while the disk takes its time
        hangs = self._checkpoints is not None and self._checkpoints.hangs
        self._executor.shutdown(wait=not (self._standing.was_fenced or hangs), cancel_futures=True)
        for error in self._sinks.close():
            self._report(str(error))
        self._owner.close()
