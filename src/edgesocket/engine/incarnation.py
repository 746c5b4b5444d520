"""One incarnation of a job: from the claim to the end.

    acquire    lock or lease, read the log, claim the next epoch
    restore    recover, open sinks, publish again what may not be published, open the source, append `started`
    serve      pump rows, run checkpoints, until a stop or an error
    finish     no new records, drain, one last checkpoint, append `ended`

The pump is the thread that calls `run`. Three more belong to the incarnation: the store thread performs what touches
the state directory; from the claim on the keeper beats once a second, and waits for nothing else; the housekeeper
lets the source look after itself and publishes the status.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from edgesocket.checkpoint import effects
from edgesocket.checkpoint.commit_log import append, claim, read_log, refresh
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.entries import Claim, Commit, Ended, Settle, Started
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.procedure import CheckpointPlan, checkpoint
from edgesocket.checkpoint.recovery import (
    Recovered,
    check_damage,
    previous_end_is_known,
    recover,
    settlements_after,
    unclean_floors,
)
from edgesocket.components.sink import CommitRole, DecidingSink
from edgesocket.components.source import OperatorSettlement, RestoredSource, Source, SourceContext
from edgesocket.components.state import Host, Ownership, StateStore
from edgesocket.engine.checkpoints import CheckpointRunner
from edgesocket.engine.performing import ProcedureRun
from edgesocket.engine.plan import JobPlan
from edgesocket.engine.sink_group import SinkGroup
from edgesocket.errors import (
    BadRecordError,
    ComponentError,
    ConfigError,
    ConfigProblem,
    DamagedStateError,
    EdgeSocketError,
    FencedError,
    ListenerError,
    NotOwnerError,
    StoreError,
)

BEAT_S = 1.0
"""How often an owner shows that it lives."""

HOUSEKEEPING_S = 1.0
"""How often the source looks after itself and the status is published."""

LOG_WATCH_S = 1.0
"""How often an owner looks whether the commit log has moved on without it."""

THOROUGH_LOOK_EVERY = 10
"""Every so many looks the directory is listed too."""

DECIDING_LOOK_S = 0.001
"""How often the pump looks whether a checkpoint that a sink decides has ended."""

END_LOOK_S = 2.0
"""Most time that a look at the log may take once the job has failed."""

REPLY_GRACE_S = 5.0
"""How long a graceful stop waits for owed replies to be read."""

Report = Callable[[object], None]


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
        report: Report,
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
        self._source: Source | None = None
        self._sinks = SinkGroup(plan, report, now)
        self._checkpoints: CheckpointRunner | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="edgesocket-store")
        self._look: ProcedureRun | None = None
        self._looks = 0
        self._next_look = 0.0
        self._ended_threads = threading.Event()
        self._helpers: list[threading.Thread] = []
        self._stop_requested = False
        self._stop_by: float | None = None
        self._failure: BaseException | None = None
        self._fenced = False
        self._state = "starting"
        self._rows = 0
        self._told_of_checkpoint: Callable[[float], None] = lambda _: None

    # ---- from other threads --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask for a graceful end; returns when the source takes no more, at the latest a little after the grace.

        Safe on any thread, but not in a signal handler: it takes locks. The source is stopped here and not only by the
        pump, because the pump may be waiting for a sink, or the source for its port.
        """
        self._stop_requested = True
        source = self._source
        if source is not None:
            source.wake()
            source.stop(REPLY_GRACE_S)

    @property
    def fenced(self) -> bool:
        """Whether another process may own the job: this one is silent and about to end. Safe on any thread."""
        return self._fenced or self._owner.is_overdue(self._now())

    def on_checkpoint(self, callback: Callable[[float], None]) -> None:
        """Call `callback(now)` after each completed checkpoint, on the pump."""
        self._told_of_checkpoint = callback

    def status(self) -> dict[str, Any]:
        """What an operator wants to know, as JSON."""
        now = self._now()
        status: dict[str, Any] = {
            "job": self._plan.name,
            "state": self._state,
            "epoch": self._log.epoch,
            "pid": os.getpid(),
            "host": self._host.name,
            "endpoint": self._plan.endpoint,
            "rows_written": self._rows,
        }
        if self._checkpoints is not None:
            figures = self._checkpoints.figures
            completed_at, failing_since = figures.last_completed_at, figures.failing_since
            status["checkpoints"] = {
                "completed": figures.completed,
                "failed": figures.failed,
                "last_number": figures.last_number,
                "last_completed_ago_s": None if completed_at is None else round(now - completed_at, 1),
                "last_duration_s": round(figures.last_duration_s, 3),
                "last_state_bytes": figures.last_state_bytes,
                "failing_for_s": None if failing_since is None else round(now - failing_since, 1),
                "last_failure": figures.last_failure,
            }
        failing_since = self._sinks.failing_since
        status["sinks"] = {
            "failing_for_s": None if failing_since is None else round(now - failing_since, 1),
            "last_failure": self._sinks.last_failure,
            "dead_letters": self._sinks.dead_letters,
        }
        if self._source is not None:
            status["source"] = self._source.status()
        return status

    # ---- the pump's thread ---------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Run until a stop or an error.

        Returns:
            Whether the last checkpoint completed: everything received is confirmed.

        Raises:
            NotOwnerError, FencedError: the job runs elsewhere.
            DamagedStateError, ConfigError: it cannot start from what is there.
            ListenerError, BadRecordError, ComponentError, StoreError: it failed; everything is released.
        """
        try:
            self._acquire()
            # A restore may take longer than the lease, and nobody may take the job over meanwhile.
            self._start_keeper()
            self._owner.wait_until_alone()
            self._restore()
            self._serve()
            return self._finish()
        except BadRecordError as error:
            self._end_look()
            self._append_ended(reason=error.reason, batch_id=error.batch_id)
            raise
        except ComponentError as error:
            if not self._stop_requested:
                raise
            self._report(f"not everything could be written before the end: {error}")
            return False
        except FencedError:
            self._fence()
            raise
        finally:
            self._release()

    def _acquire(self) -> None:
        self._owner.watch(self._plan.lease_ms, take_over=self._plan.take_over)
        self._log = self._drive(read_log())
        self._drive(check_damage(self._log))
        self._previous_end_known = previous_end_is_known(self._log, self._host.name, self._host.boot)
        entry = Claim(
            epoch=0,
            time_ms=_unix_ms(),
            token=secrets.token_hex(8),
            host=self._host.name,
            boot=self._host.boot,
            pid=os.getpid(),
            job=self._plan.name,
            source_id=self._plan.source_id,
            sink_ids=tuple(sink.sink_id for sink in self._plan.sinks),
            schema_hash=self._plan.schema_hash,
            endpoint=self._plan.endpoint,
        )
        self._check_identity()
        try:
            self._drive(claim(self._log, entry))
        except FencedError as error:
            raise NotOwnerError(f"job {self._plan.name}: another process claimed it at the same moment") from error
        self._owner.start(self._log.epoch)

    def _check_identity(self) -> None:
        last = self._log.last(Claim)
        if last is None:
            return
        earlier = last[1]
        if earlier.job != self._plan.name:
            problem = ConfigProblem(
                "env.job.name",
                f"the state in {self._plan.state_dir} belongs to job {earlier.job}",
                "give this job another --state-dir",
            )
            raise ConfigError([problem])
        if earlier.schema_hash != self._plan.schema_hash:
            self._report("the schema changed since the last run; going on with the new one")

    def _restore(self) -> None:
        plan, log = self._plan, self._log
        source = plan.make_source()
        self._sinks.connect(source.schema)
        self._sinks.make()
        self._sinks.open_deciding(log.epoch)
        recovered: Recovered = self._drive(recover(log, log.epoch, has_deciding_sink=self._sinks.deciding is not None))
        for note in recovered.notes:
            self._report(note)
        self._sinks.open_others(log.epoch, recovered, self._prepared(recovered))
        k = source.open(self._source_context(), self._restored_source(recovered))
        self._source = source  # from here on other threads look at it
        started = Started(log.epoch, _unix_ms(), k, plan.arrival_sync_ms, self._host.name, self._host.boot)
        self._drive(append(log, started))
        self._checkpoints = CheckpointRunner(
            self._make_checkpoint,
            self._perform,
            self._store.perform,
            self._executor,
            self._source.wake,
            first_number=recovered.next_number,
            interval_s=plan.checkpoint_interval_s,
            timeout_s=plan.checkpoint_timeout_s,
            give_up_s=plan.give_up_s,
            report=self._report,
        )
        self._checkpoints.figures.last_number = recovered.number

    def _prepared(self, recovered: Recovered) -> dict[str, Any]:
        """Manifests of record N that may not be published yet: none after a clean end."""
        if recovered.record is None:
            return {}
        ended = self._log.last(Ended)
        commit = self._log.last(Commit)
        if ended is not None and ended[1].clean and commit is not None and ended[0] > commit[0]:
            return {}
        manifests: dict[str, Any] = recovered.record["sinks"]
        return manifests

    def _source_context(self) -> SourceContext:
        return SourceContext(
            job=self._plan.name,
            epoch=self._log.epoch,
            state_dir=self._plan.state_dir,
            still_owner=self._still_owner,
            report=self._report,
            failed=self._fail,
            give_up_s=self._plan.give_up_s,
            dead_letter=self._sinks.bury,
        )

    def _restored_source(self, recovered: Recovered) -> RestoredSource:
        record = recovered.record
        log_index = 0 if record is None else record["log_index"]
        return RestoredSource(
            state=None if record is None else record["source"],
            blob_state=recovered.blob_source,
            blobs=recovered.blobs,
            rolled_back=recovered.rolled_back,
            unclean_floors=unclean_floors(self._log, after=recovered.epoch),
            previous_end_known=self._previous_end_known,
            settlements=tuple(_settlement(index, entry) for index, entry in settlements_after(self._log, log_index)),
        )

    def _serve(self) -> None:
        source, checkpoints = self._source, self._checkpoints
        assert source is not None
        assert checkpoints is not None
        self._raise_failure()
        if self._stop_requested:
            return
        try:
            source.start()
        except ListenerError:
            if not self._stop_requested:
                raise
        self._set_state("running")
        while not self._stop_requested:
            self._raise_failure()
            now = self._now()
            if not self._looking_at_log(now) and checkpoints.advance(now):
                self._completed_checkpoint(now)
            self._pump(min(LOG_WATCH_S, checkpoints.seconds_until_due(self._now())))

    def _completed_checkpoint(self, now: float) -> None:
        self._told_of_checkpoint(now)
        self._publish_status(self.status())

    def _looking_at_log(self, now: float) -> bool:
        """Look once a second, between checkpoints, what others appended. Returns whether a look is under way.

        The log is the pump's: a look and a checkpoint never run at the same time.
        """
        assert self._source is not None
        assert self._checkpoints is not None
        if self._look is None:
            if self._checkpoints.under_way or now < self._next_look:
                return False
            self._looks += 1
            procedure = refresh(self._log, thorough=self._looks % THOROUGH_LOOK_EVERY == 0)
            self._look = ProcedureRun(procedure, self._perform, self._store.perform, self._executor, self._source.wake)
        try:
            if not self._look.advance(now):
                return True
            for placed in self._look.result:
                if isinstance(placed.entry, Settle):
                    self._source.settle(_settlement(placed.index, placed.entry))
        except (FencedError, DamagedStateError):
            raise
        except EdgeSocketError as error:
            self._report(f"the commit log cannot be read: {error}")
        self._look = None
        self._next_look = now + LOG_WATCH_S
        return False

    def _pump(self, timeout_s: float) -> int:
        """Move what is queued to the sinks. Returns how many records, or 1 while none may be moved."""
        assert self._source is not None
        assert self._checkpoints is not None
        if self._checkpoints.under_way and self._sinks.deciding is not None:
            # Its transaction is open until the checkpoint is decided: more rows would go into it.
            time.sleep(DECIDING_LOOK_S)
            return 1
        moved = 0
        for rows in self._source.poll(timeout_s):
            self._sinks.write(rows, self._while_a_sink_fails)
            moved += rows.count
            del rows  # or it would stay in memory while the source makes the next one
        self._sinks.write_letters(self._while_a_sink_fails)
        self._rows += moved
        return moved

    def _while_a_sink_fails(self) -> bool:
        """What goes on although the pump holds rows that a sink does not take. Returns whether it may go on trying.

        No checkpoint may begin: those rows are neither queued nor in the sink.
        """
        assert self._checkpoints is not None
        self._raise_failure()
        now = self._now()
        if self._checkpoints.under_way:
            if self._checkpoints.advance(now):
                self._completed_checkpoint(now)
        else:
            self._looking_at_log(now)
        if not self._stop_requested:
            return True
        self._stop_by = self._stop_by or now + self._plan.checkpoint_timeout_s
        return now < self._stop_by

    def _finish(self) -> bool:
        """Stop taking records, write out what is queued, take the last checkpoint. Returns whether it completed."""
        assert self._source is not None
        assert self._checkpoints is not None
        self._set_state("stopping")
        self._stop_by = self._stop_by or self._now() + self._plan.checkpoint_timeout_s
        self._source.stop(REPLY_GRACE_S)
        completed = self._drain_and_checkpoint(self._stop_by)
        if completed:
            self._append_ended(reason="")
        return completed

    def _drain_and_checkpoint(self, deadline: float) -> bool:
        checkpoints = self._checkpoints
        assert checkpoints is not None
        drained = final = False
        while self._now() < deadline:
            self._raise_failure()
            now = self._now()
            if drained and not final and self._look is None:
                final = checkpoints.begin_final(now)
            if self._look is not None:
                self._looking_at_log(now)
            elif checkpoints.under_way and checkpoints.advance(now):
                self._completed_checkpoint(now)
                if final:
                    return True
            if final and not checkpoints.under_way:
                return False
            drained = not self._pump(0.0 if not drained else 0.05) or drained
        return False

    def _end_look(self) -> None:
        """Let a look at the log end, if one is under way: an entry cannot be appended before."""
        deadline = self._now() + END_LOOK_S
        try:
            while self._look is not None and self._now() < deadline:
                if self._looking_at_log(self._now()):
                    time.sleep(DECIDING_LOOK_S)
        except EdgeSocketError as error:
            self._report(f"the commit log cannot be read: {error}")

    def _append_ended(self, *, reason: str, batch_id: int = 0) -> None:
        """Say in the log how this incarnation ended; the arrival log is complete when it is closed cleanly."""
        assert self._source is not None
        self._stop_keeper()
        if reason:
            self._source.silence()
        clean = self._source.close(clean=True)
        try:
            self._drive(append(self._log, Ended(self._log.epoch, _unix_ms(), clean, reason[:500], batch_id)))
        except EdgeSocketError as error:
            self._report(f"the end could not be written to the log: {error}")

    def _make_checkpoint(self, number: int, force: bool) -> Any:
        plan = CheckpointPlan(
            number=number,
            epoch=self._log.epoch,
            has_deciding_sink=self._sinks.deciding is not None,
            kept=self._plan.checkpoints_kept,
            force=force,
        )
        return checkpoint(plan, self._log)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _drive(self, procedure: Any) -> Any:
        """Run a procedure to its end on this thread, before or after the store thread has work."""
        return drive(procedure, self._perform_any)

    def _perform_any(self, effect: Any) -> Any:
        if isinstance(effect, effects.Wait):
            # Who it waits for is a checkpoint or a look that was left in the middle: nobody moves that on any more.
            raise StoreError(effect.reason)
        if isinstance(effect, effects.Create | effects.Read | effects.List | effects.Remove):
            return self._store.perform(effect)
        return self._perform(effect)

    def _perform(self, effect: Any) -> Any:
        assert self._source is not None or isinstance(effect, effects.FenceDeciding | effects.AskDeciding)
        match effect:
            case effects.Cut():
                cut = self._source.cut()  # type: ignore[union-attr]
                return effects.CutResult(cut.state, cut.encode, cut.log_index)
            case effects.PrepareSinks(number):
                return self._sinks.prepare(number)
            case effects.CommitDeciding(number, manifests):
                return self._sinks.commit(number, manifests, CommitRole.DECIDING)
            case effects.CommitSinks(number, manifests):
                return self._sinks.commit(number, manifests, CommitRole.RECOMMITTABLE)
            case effects.FenceDeciding(epoch):
                return self._require_deciding().fence(epoch)
            case effects.AskDeciding():
                return self._require_deciding().landed()
            case effects.Complete():
                return self._source.complete()  # type: ignore[union-attr]
            case effects.Abort():
                return self._source.abort()  # type: ignore[union-attr]
            case effects.WallClock():
                return _unix_ms()
        raise TypeError(f"nobody performs {effect!r}")

    def _require_deciding(self) -> DecidingSink:
        sink = self._sinks.deciding
        assert sink is not None
        return sink

    # ---- the keeper and the housekeeper --------------------------------------------------------------------------

    def _start_keeper(self) -> None:
        for name, target in (("keeper", self._keep), ("housekeeper", self._keep_house)):
            self._helpers.append(threading.Thread(target=target, name=f"edgesocket-{name}", daemon=True))
            self._helpers[-1].start()

    def _keep(self) -> None:
        while not self._ended_threads.wait(BEAT_S):
            try:
                if not self._still_owner():
                    raise FencedError(f"could not beat for {self._plan.lease_ms} ms: another process may own the job")
                self._beat()
            except BaseException as error:  # anything that ends the keeper must end the job
                self._fail(error)
                return

    def _keep_house(self) -> None:
        while not self._ended_threads.wait(HOUSEKEEPING_S):
            try:
                if self._source is not None:
                    self._source.tick()
                if self._still_owner():
                    self._publish_status(self.status())
            except BaseException as error:
                self._fail(error)
                return

    def _beat(self) -> None:
        try:
            self._owner.beat()
        except FencedError:
            raise
        except EdgeSocketError as error:
            self._report(f"no sign of life could be shown: {error}")

    def _still_owner(self) -> bool:
        return not self.fenced

    def _fail(self, error: BaseException) -> None:
        """End the incarnation with `error`. Safe on any thread; a fenced one falls silent at once."""
        if isinstance(error, FencedError):
            self._fence()
        if self._failure is None:
            self._failure = error
        if self._source is not None:
            self._source.wake()

    def _fence(self) -> None:
        self._fenced = True
        if self._source is not None:
            self._source.silence()

    def _set_state(self, state: str) -> None:
        self._state = state
        if self._log.epoch and not self._fenced:
            self._publish_status(self.status())

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._still_owner():
            raise FencedError("this process could not show a sign of life for longer than its lease")

    # ---- the end -------------------------------------------------------------------------------------------------

    def _stop_keeper(self) -> None:
        self._ended_threads.set()
        for helper in self._helpers:
            helper.join(BEAT_S)

    def _release(self) -> None:
        self._set_state("fenced" if self._fenced else "ended")
        self._stop_keeper()
        if self._source is not None:
            self._source.close(clean=False)  # first: nobody is to wait for an answer while the disk takes its time
        self._executor.shutdown(wait=not self._fenced, cancel_futures=True)
        self._sinks.close()
        self._owner.close()


def _settlement(index: int, entry: Settle) -> OperatorSettlement:
    return OperatorSettlement(index, entry.ids, ends_unclean=not entry.ids)


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
