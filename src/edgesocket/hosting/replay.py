"""Replaying a job's dead letters: a small job of its own that ends when all of them have been tried.

It is called `<name>.replay`, has its state beside the job's (`<state of the job>.replay`), and runs on the same engine:
its checkpoints make it exactly once wherever the job's sinks are. It may run while the job runs, and when it does not.
A replay that was killed goes on where its last checkpoint is; what was replayed is not replayed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgesocket.checkpoint.commit_log import read_log
from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.entries import Commit
from edgesocket.components.state import Host
from edgesocket.config.env import REPLAY_SUFFIX
from edgesocket.config.specs import JobSpec
from edgesocket.engine.pipeline import Pipeline
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.engine.runner import JobRunner
from edgesocket.engine.tap import Tap
from edgesocket.hosting.dead_letters import letter_files
from edgesocket.sources.dead_letters import DeadLetterSource, RefusedAgain, ReplayRun
from edgesocket.sources.letter_files import Position
from edgesocket.sources.replay_memory import Failed, ReplayMemory
from edgesocket.sources.typing_rows import row_schema
from edgesocket.store.place import Place

SUFFIX = REPLAY_SUFFIX
"""Behind the name of the job, and behind the name of its state."""

CHECKPOINT_S = 0.5
"""How long after a checkpoint of a replay the next one begins."""

REFUSED_AGAIN = "refused again"
"""Id of the sink that takes what is refused again."""


@dataclass(frozen=True, slots=True)
class ReplayEnd:
    """What a replay did.

    Attributes:
        job: its name.
        replayed: letters that were replayed, and are in the sinks.
        failed: letters that were refused again, and stay.
        passed_over: letters that had been replayed before.
        missing: letters that were asked for and are not there.
        failures: position and reason of the first of those that failed.
        complete: False if it was stopped before every letter had been tried.
    """

    job: str
    replayed: int
    failed: int
    passed_over: int
    missing: tuple[Position, ...]
    failures: tuple[tuple[Position, str], ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "job": self.job,
            "replayed": self.replayed,
            "failed": self.failed,
            "replayed_before": self.passed_over,
            "missing": [str(position) for position in self.missing],
            "failures": [{"position": str(position), "reason": reason} for position, reason in self.failures],
            "complete": self.complete,
        }


class Replay:
    """One replay of a job's dead letters. Made, run, thrown away.

    Args:
        spec: the job.
        plan: its plan, as for a run.
        place: where the job's state lies; the replay's is beside it.
        host: this host.
        wanted: the letters; None: all that were not replayed yet.
        report: takes log lines.

    Raises:
        UsageError: the dead letters cannot be read back.
    """

    def __init__(
        self,
        spec: JobSpec,
        plan: JobPlan,
        place: Place,
        host: Host,
        *,
        wanted: frozenset[Position] | None = None,
        report: Callable[[object], None] = lambda _: None,
    ) -> None:
        self.name = plan.name + SUFFIX
        self.letters = letter_files(spec)
        self._place = place = place.beside(SUFFIX)
        self._done = threading.Event()
        self._run = ReplayRun(wanted, self._done.set)
        self._runner = JobRunner(
            self._plan(spec, plan),
            place.open_store,
            partial(place.owner, self.name),
            host,
            report,
            place.write_status,
        )

    @property
    def progress(self) -> tuple[int, int]:
        """How many letters have been replayed, and how many were refused again. Safe on any thread."""
        return self._run.replayed, len(self._run.refused)

    def stop(self) -> None:
        """End early, with what is under way covered. Safe on any thread."""
        self._run.stopping = True
        source = self._run.source
        if source is not None:
            source.wake()

    def run(self) -> ReplayEnd:
        """Replay.

        Raises:
            NotOwnerError: another process replays the letters of this job.
            EdgeSocketError: it failed: what was replayed until then is remembered.
        """
        ender = threading.Thread(target=self._end, name="edgesocket-replay-end", daemon=True)
        ender.start()
        try:
            completed = self._runner.run()
        finally:
            self._done.set()
            ender.join()
        run = self._run
        missing = () if run.wanted is None or run.stopping else tuple(sorted(run.wanted - run.seen))
        return ReplayEnd(
            self.name,
            run.replayed,
            len(run.refused),
            run.passed_over,
            missing,
            tuple(run.failures),
            completed and not run.stopping,
        )

    def _end(self) -> None:
        self._done.wait()
        self._runner.stop()

    def _plan(self, spec: JobSpec, plan: JobPlan) -> JobPlan:
        options = spec.sources[0].options
        run = self._run

        def make_source() -> DeadLetterSource:
            return DeadLetterSource(self.letters, options, partial(Pipeline, plan, row_schema(options)), run)

        return replace(
            plan,
            name=self.name,
            state_dir=self._place.scratch,
            state=self._place.text,
            apart=self._place.apart,
            make_source=make_source,
            sinks=tuple(replace(sink, rejects_to_dead_letter=True) for sink in plan.sinks),
            dead_letter=SinkPlan(REFUSED_AGAIN, partial(RefusedAgain, run)),
            endpoint="",
            checkpoint_interval_s=min(plan.checkpoint_interval_s, CHECKPOINT_S),
            read_limit=None,
            take_over=False,
            file_label=SUFFIX.strip("."),
            tap=Tap(),
        )


def replay_memory(place: Place) -> ReplayMemory:
    """What the replays of a job have done so far; `place` is the job's own. Raises StoreError, DamagedStateError."""
    beside = place.beside(SUFFIX)
    if not beside.exists():
        return ReplayMemory()
    store = beside.open_store()
    last = drive(read_log(), store.perform).last(Commit)
    if last is None:
        return ReplayMemory()
    record = last[1].record
    memory = ReplayMemory(record["source"]["replay"])
    for position, failed in record["sinks"].get(REFUSED_AGAIN, {}).get("refused", {}).items():
        memory.fail(Position.parse(position), Failed.of_json(failed))
    return memory
