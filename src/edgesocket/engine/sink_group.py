"""The sinks of one incarnation: opened in order, written to with patience, prepared and committed together.

The sink of dead letters is one of them, and the last: what the others refuse, even while they prepare, is in it before
it prepares itself, so a checkpoint covers every record either way.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from edgesocket.checkpoint.recovery import Recovered
from edgesocket.components.dead_letter import DEAD_LETTER_SCHEMA, DeadLetter, dead_letter_rows
from edgesocket.components.sink import (
    CommitRole,
    DecidingSink,
    FlushingSink,
    Manifest,
    RejectedRow,
    Sink,
    SinkContext,
    StagingSink,
    fail_on_rejected_row,
)
from edgesocket.engine.pipeline import Pipeline
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.engine.sink_figures import SinkFigures
from edgesocket.errors import ComponentError, ConfigError, ConfigProblem, EdgeSocketError, RuleBrokenError
from edgesocket.rows import Rows
from edgesocket.telemetry.events import SinkCloseFailed, SinkFailed, SinkRecovered

RETRY_S = 1.0
"""How long after a failed write it is tried again."""

_LOOK_S = 0.05

Manifests = dict[str, Manifest]
"""What sinks prepared for one checkpoint, by sink id."""


class SinkGroup:
    """Gives each sink the rows that are for it. Called by the pump only, except for the figures.

    Args:
        plan: the job.
        report: told when a sink begins to fail and when it works again.
        now: a steady clock in seconds.

    Attributes:
        failing_since: seconds of the clock since when a write has failed; None while all is well.
        last_failure: the cause.
        dead_letters: how many records and rows went to the dead letters.
        figures: what is counted of each sink, by its id.
    """

    def __init__(self, plan: JobPlan, report: Callable[[object], None], now: Callable[[], float]) -> None:
        self.failing_since: float | None = None
        self.last_failure = ""
        self._plan = plan
        self._report = report
        self._now = now
        self._sinks: dict[str, Sink] = {}
        self._pipeline: Pipeline | None = None
        self._letters: list[DeadLetter] = []
        self._failing = ("", "")  # the sink, and what it failed at: a write that is buffered heals no flush
        self.dead_letters = 0
        self.figures: dict[str, SinkFigures] = {sink.sink_id: SinkFigures() for sink in self._plans()}

    # ---- opening -------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make all of them; nothing is opened."""
        self._sinks = {sink.sink_id: sink.make() for sink in self._plans()}

    def connect(self, schema: pa.Schema) -> None:
        """Put the transforms before the sinks. Call it before the sinks are opened.

        Args:
            schema: the type of the source's rows.

        Raises:
            ConfigError: a transform does not fit.
        """
        self._pipeline = Pipeline(self._plan, schema)

    def _plans(self) -> tuple[SinkPlan, ...]:
        letters = self._plan.dead_letter
        return self._plan.sinks if letters is None else (*self._plan.sinks, letters)

    def open_deciding(self, epoch: int) -> None:
        """Open the deciding sink, which is fenced and asked before anything else."""
        for sink_id, sink in self._sinks.items():
            if sink.commit_role is CommitRole.DECIDING:
                sink.open(self._context(sink_id, epoch, 0, {}))

    def open_others(self, epoch: int, recovered: Recovered, prepared: Manifests) -> None:
        """Open the rest and publish again what may not be published yet.

        Args:
            epoch: of this incarnation.
            recovered: the newest completed checkpoint.
            prepared: its manifests, as far as they may still have to be committed.

        Raises:
            ConfigError: a sink with prepared work is not in the job any more.
        """
        missing = set(prepared) - set(self._sinks) - self._plan.drop_sink_state
        if missing:
            raise ConfigError([_missing(name, recovered.number) for name in sorted(missing)])
        for sink_id, sink in self._sinks.items():
            if sink.commit_role is not CommitRole.DECIDING:
                sink.open(self._context(sink_id, epoch, recovered.number, prepared))
        known = {sink_id: manifest for sink_id, manifest in prepared.items() if sink_id in self._sinks}
        publish = self.commit(recovered.number, known, CommitRole.RECOMMITTABLE)
        if publish is not None:
            publish()

    def _context(self, sink_id: str, epoch: int, number: int, prepared: Manifests) -> SinkContext:
        return SinkContext(
            job=self._plan.name,
            epoch=epoch,
            sink_id=sink_id,
            last_checkpoint=number,
            prepared={number: prepared[sink_id]} if sink_id in prepared else {},
            schema=self._schema_of(sink_id),
            reject=self._rejecter(sink_id),
            file_label=self._plan.file_label,
        )

    def _schema_of(self, sink_id: str) -> pa.Schema:
        letters = self._plan.dead_letter
        if letters is not None and sink_id == letters.sink_id:
            return DEAD_LETTER_SCHEMA
        assert self._pipeline is not None
        return self._pipeline.sink_schemas[sink_id]

    def _rejecter(self, sink_id: str) -> Callable[[RejectedRow], None]:
        if not any(sink.sink_id == sink_id and sink.rejects_to_dead_letter for sink in self._plan.sinks):
            return fail_on_rejected_row

        def reject(rejected: RejectedRow) -> None:
            now_ms = time.time_ns() // 1_000_000
            self.bury(DeadLetter(rejected.batch_id, rejected.row, rejected.reason, sink_id, now_ms))

        return reject

    # ---- rows ----------------------------------------------------------------------------------------------------

    def bury(self, letter: DeadLetter) -> None:
        """Take a record that was refused for good. It is written with the next rows, or as sinks prepare."""
        self._letters.append(letter)

    def write(self, rows: Rows, meanwhile: Callable[[], bool]) -> None:
        """Give rows to the sinks. A write that fails took nothing, so it is tried again until it succeeds.

        Args:
            rows: the next ones of the source.
            meanwhile: called many times a second while a sink fails; False ends the trying. What it raises, too.

        Raises:
            ComponentError: no retry can heal it, it has lasted for longer than `give_up_s`, or `meanwhile` said so.
            BadRecordError: a sink refuses a row for good.
        """
        assert self._pipeline is not None
        for sink_id, routed in self._pipeline.routed(rows):
            self._write_to(sink_id, routed, meanwhile)
        self.write_letters(meanwhile)

    def write_letters(self, meanwhile: Callable[[], bool]) -> None:
        """Write the dead letters that wait. Raises as `write` does."""
        if self._letters:
            letters = self._plan.dead_letter
            assert letters is not None, "a job without dead letters fails instead"
            self._write_to(letters.sink_id, dead_letter_rows(self._letters), meanwhile)
            self.dead_letters += len(self._letters)
            self._letters = []

    def _write_to(self, sink_id: str, rows: Rows, meanwhile: Callable[[], bool]) -> None:
        figures = self.figures[sink_id]
        while True:
            began = self._now()
            try:
                self._sinks[sink_id].write(rows)
                figures.write_s.observe(self._now() - began)
                figures.rows += rows.count
                break
            except ComponentError as error:
                self._note_failure(sink_id, "write", error)
                if not (error.retryable and not error.reopen and self._waited(meanwhile)):
                    raise
        self._note_success(sink_id, "write")

    def flush(self) -> None:
        """Let the sinks send what they hold back. What fails is held back on, and the next flush or checkpoint tries.

        Raises:
            ComponentError: no retry can heal it.
            BadRecordError: a sink refuses a row for good.
        """
        for sink_id, sink in self._sinks.items():
            if not isinstance(sink, FlushingSink):
                continue
            try:
                sink.flush()
            except ComponentError as error:
                self._note_failure(sink_id, "flush", error)
                if not error.retryable or error.reopen:
                    raise
            else:
                self._note_success(sink_id, "flush")

    def _note_success(self, sink_id: str, what: str) -> None:
        if self.failing_since is not None and self._failing == (sink_id, what):
            self._report(SinkRecovered(sink_id, self._now() - self.failing_since))
            self.failing_since = None

    def _note_failure(self, sink_id: str, what: str, error: ComponentError) -> None:
        self._failing = sink_id, what
        self.figures[sink_id].failures += 1
        self.last_failure = f"{sink_id}: {error}"
        if self.failing_since is None:
            self.failing_since = self._now()
            self._report(SinkFailed(sink_id, str(error)))

    def _waited(self, meanwhile: Callable[[], bool]) -> bool:
        """Let some time pass. Returns whether the write may be tried again."""
        assert self.failing_since is not None
        until = self._now() + RETRY_S
        while self._now() < until:
            if self._now() - self.failing_since > self._plan.give_up_s or not meanwhile():
                return False
            time.sleep(_LOOK_S)
        return True

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    @property
    def deciding(self) -> DecidingSink | None:
        """The one whose own transaction decides, if the job has one."""
        for sink in self._sinks.values():
            if sink.commit_role is CommitRole.DECIDING:
                return sink  # type: ignore[return-value]
        return None

    def prepare(self, number: int) -> tuple[Manifests, Callable[[], None] | None]:
        """Step 2. Returns what is left to be committed, and what is left to do of this step, on any thread."""
        manifests: Manifests = {}
        staged: list[tuple[str, StagingSink, float]] = []
        letters = self._plan.dead_letter
        for sink_id, sink in self._sinks.items():
            if letters is not None and sink_id == letters.sink_id:
                self.write_letters(lambda: False)
            began = self._now()
            if isinstance(sink, StagingSink):
                manifests[sink_id] = sink.stage(number)
                staged.append((sink_id, sink, self._now() - began))
            else:
                manifests[sink_id] = sink.prepare(number)
                self.figures[sink_id].prepare_s.observe(self._now() - began)

        def settle() -> None:
            for sink_id, sink, staged_s in staged:
                began = self._now()
                sink.settle(number)
                self.figures[sink_id].prepare_s.observe(staged_s + self._now() - began)

        return {sink_id: manifest for sink_id, manifest in manifests.items() if manifest}, settle if staged else None

    def commit(self, number: int, manifests: Manifests, role: CommitRole) -> Callable[[], None] | None:
        """Steps 4 and 6: those of one role. Returns what is left to do of this step, on any thread."""
        left: list[tuple[StagingSink, Manifest]] = []
        for sink_id, manifest in manifests.items():
            sink = self._sinks[sink_id]
            if sink.commit_role is not role:
                continue
            if isinstance(sink, StagingSink):
                left.append((sink, manifest))
            else:
                sink.commit(number, manifest)

        def publish() -> None:
            for sink, manifest in left:
                sink.commit(number, manifest)

        return publish if left else None

    def close(self) -> list[RuleBrokenError]:
        """Close sinks and transforms, once. Returns what sinks have against the rows of the run; reports the rest."""
        broken: list[RuleBrokenError] = []
        sinks, self._sinks = self._sinks, {}
        for sink_id, sink in sinks.items():
            try:
                sink.close()
            except RuleBrokenError as error:
                broken.append(error)
            except EdgeSocketError as error:
                self._report(SinkCloseFailed(sink_id, str(error)))
        if self._pipeline is not None:
            self._pipeline.close()
        return broken


def _missing(name: str, number: int) -> ConfigProblem:
    return ConfigProblem(
        f"sink.{name}",
        f"has prepared work in checkpoint {number} and is not in the job any more",
        f"put it back, or give its work up with --drop-sink-state {name}",
    )
