"""The source of a replay: reads a job's dead letters, once each, and remembers in its checkpoints which it has read.

It ends: when every letter that is wanted has been read and a completed checkpoint covers them all, it says so
(`ReplayRun.finished`), and whoever runs the replay stops it.

Exactly once. A letter counts as replayed when the checkpoint that its rows belong to has completed, and never before.
Rows may be refused once more while sinks prepare, after the cut: such refusals are in the manifest of `RefusedAgain`,
which takes the place of the dead letters' sink, so the same checkpoint carries them. A letter that was refused again
stays where it is and is not replayed; the next replay tries it again, with those sinks only that have not taken it.

Rows carry the batch ids of their letters. Two letters with one batch id are never under way at once, so a refusal says
which letter it is about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.components.source import OperatorSettlement, RestoredSource, SourceContext, SourceCut
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.engine.pipeline import Pipeline
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sources.letter_files import LetterFile, LetterFiles, Position, StoredLetter
from edgesocket.sources.letter_rows import Attempt, LetterRows
from edgesocket.sources.replay_memory import Failed, ReplayMemory
from edgesocket.sources.restore import QUEUE

PIECE_LETTERS = 1_000
PIECE_BYTES = 4 << 20
"""One poll takes so many letters, or so many bytes of them (a larger letter goes alone)."""

LETTERS_UNDER_WAY = 50_000
"""Most letters between two checkpoints; more wait for the next one."""

LETTERS_A_LOOK = 20_000
"""Most letters that one poll passes over: the pump has other things to do too."""

FAILURES_TOLD = 100
"""So many failures are told with their reasons."""


@dataclass(slots=True)
class _Flight:
    """A letter whose rows have been given out, and no completed checkpoint covers them yet. Without its payload."""

    position: Position
    batch_id: int
    file_bytes: int
    failed: Failed | None = None


@dataclass(slots=True)
class ReplayRun:
    """One replay, as its caller and its incarnations share it.

    Attributes:
        wanted: the letters to replay; None: all that have not been.
        finished: called on the pump once everything is done, perhaps more than once.
        stopping: set it to end early, with what is under way covered.
        replayed: letters that this run has replayed.
        refused: letters that were refused again in this run.
        failures: the first of them, with the reason.
        passed_over: letters that are wanted and had been replayed before.
        seen: letters that are wanted and are there.
    """

    wanted: frozenset[Position] | None = None
    finished: Callable[[], None] = lambda: None
    stopping: bool = False
    replayed: int = 0
    refused: set[Position] = field(default_factory=set)
    failures: list[tuple[Position, str]] = field(default_factory=list)
    passed_over: int = 0
    seen: set[Position] = field(default_factory=set)
    is_open: bool = False
    source: DeadLetterSource | None = None
    restored: list[tuple[Position, Failed]] = field(default_factory=list)

    def note_failure(self, position: Position, reason: str) -> None:
        """A letter was refused again."""
        if position not in self.refused:
            self.refused.add(position)
            if len(self.failures) < FAILURES_TOLD:
                self.failures.append((position, reason))


class DeadLetterSource:
    """See the module's text; the contract is `components.source.Source`.

    Args:
        letters: the files.
        options: of the job's source: how a record is read now.
        make_pipeline: the job's transforms, given the type of the source's rows.
        run: what this replay is to do, and what it tells.
    """

    def __init__(
        self,
        letters: LetterFiles,
        options: EdgeSocketOptions,
        make_pipeline: Callable[[], Pipeline],
        run: ReplayRun,
    ) -> None:
        self._letters = letters
        self._run = run
        self._pipeline = make_pipeline()
        self._rows = LetterRows(options, self._pipeline, self._not_a_row)
        self.schema = self._rows.schema
        self._memory = ReplayMemory()
        self._candidates: Iterator[tuple[LetterFile, StoredLetter] | None] = iter(())
        self._held: tuple[LetterFile, StoredLetter] | None = None
        self._exhausted = False
        self._waits = False
        """Whether nothing more may be under way until a checkpoint has completed."""
        self._counts = True
        self._flying: list[_Flight] = []
        self._cutting: list[_Flight] = []
        self._by_batch: dict[int, _Flight] = {}
        self._late = False
        """Whether letters were refused after the cut that names them as replayed."""
        self._woken = threading.Condition()
        self._is_woken = False
        self._stopped = False
        run.source = self

    # ---- life ----------------------------------------------------------------------------------------------------

    def open(self, context: SourceContext, restored: RestoredSource) -> int | None:  # noqa: ARG002
        """See Source. Nothing is received here, so no id can be passed over."""
        if restored.state is not None:
            self._memory = ReplayMemory(restored.state["replay"])
        for position, failed in self._run.restored:
            self._memory.fail(position, failed)
        self._counts, self._run.is_open = not self._run.is_open, True
        files = self._letters.files()
        self._memory.look_at(files)
        self._candidates = self._wanted(files)
        return None

    def start(self) -> None:
        """See Source. There is no port."""

    def stop(self, grace_s: float) -> None:  # noqa: ARG002
        """See Source."""
        self._stopped = True
        self.wake()

    def silence(self) -> None:
        """See Source."""
        self.stop(0.0)

    def close(self, *, clean: bool) -> bool:
        """See Source. Not clean as long as a refusal is in a sink's manifest only."""
        self._pipeline.close()
        return clean and not self._late

    def wake(self) -> None:
        """See Source."""
        with self._woken:
            self._is_woken = True
            self._woken.notify_all()

    # ---- letters -------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> Iterator[Rows]:
        """See Source."""
        attempts = self._next_attempts()
        if attempts:
            yield from self._rows.rows(attempts)
            return
        if self._exhausted and not self._by_batch and not self._flying and not self._cutting:
            self._run.finished()
        if self._exhausted or self._waits:
            with self._woken:
                if not self._is_woken:
                    self._woken.wait(timeout_s)
                self._is_woken = False

    def _next_attempts(self) -> list[Attempt]:
        """The next letters that may go together; what they are is under way from here on."""
        attempts: list[Attempt] = []
        size = looked = 0
        self._waits = False
        while len(attempts) < PIECE_LETTERS and size < PIECE_BYTES and looked < LETTERS_A_LOOK:
            if self._stopped or self._run.stopping:
                self._exhausted = True
                break
            if len(self._by_batch) >= LETTERS_UNDER_WAY:
                self._waits = True
                break
            found = self._held or next(self._candidates, None)
            self._held = None
            if found is None:
                self._exhausted = True
                break
            looked += 1
            file, letter = found
            if not self._is_due(letter):
                continue
            if letter.batch_id in self._by_batch:
                self._held, self._waits = found, True
                break
            flight = _Flight(letter.position, letter.batch_id, file.bytes)
            self._flying.append(flight)
            self._by_batch[letter.batch_id] = flight
            before = self._memory.failed.get(letter.position)
            attempts.append(Attempt(letter, None if before is None else before.sinks))
            size += len(letter.payload)
        return attempts

    def _wanted(self, files: Collection[LetterFile]) -> Iterator[tuple[LetterFile, StoredLetter]]:
        wanted = self._run.wanted
        chosen = None if wanted is None else {position.file for position in wanted}
        for file in files:
            if chosen is None or file.key in chosen:
                for letter in self._letters.letters_of(file):
                    yield file, letter

    def _is_due(self, letter: StoredLetter) -> bool:
        run = self._run
        if run.wanted is not None:
            if letter.position not in run.wanted:
                return False
            run.seen.add(letter.position)
        if self._memory.is_done(letter.position):
            run.passed_over += self._counts
            return False
        return True

    def _not_a_row(self, letter: StoredLetter, reason: str) -> None:
        before = self._memory.failed.get(letter.position)  # sinks that took it must not get it when it is a row again
        self._by_batch[letter.batch_id].failed = Failed(reason, None if before is None else before.sinks)

    def refused(self, batch_id: int, sink_id: str, reason: str) -> None:
        """A sink refuses a row once more. On the pump."""
        flight = self._by_batch.get(batch_id)
        if flight is None:
            raise ComponentError(f"sink {sink_id} refuses batch {batch_id}, which it was not given", retryable=False)
        others = frozenset() if flight.failed is None or flight.failed.sinks is None else flight.failed.sinks
        flight.failed = Failed(reason, others | {sink_id})

    def refused_in_cut(self) -> list[tuple[Position, Failed]]:
        """What has been refused of the letters that the last cut names as replayed, or as failed."""
        return [(one.position, one.failed) for one in self._cutting if one.failed is not None]

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def cut(self) -> SourceCut:
        """See Source."""
        self._cutting, self._flying = self._cutting + self._flying, []
        after = self._memory.copy()
        _apply(self._cutting, after)
        return SourceCut({"replay": after.to_json()}, _blob, 0)

    def complete(self) -> None:
        """See Source."""
        _apply(self._cutting, self._memory)
        self._late = False
        for flight in self._cutting:
            self._by_batch.pop(flight.batch_id, None)
            if flight.failed is None:
                self._run.replayed += 1
            else:
                self._late = True
                self._run.note_failure(flight.position, flight.failed.reason)
        self._cutting = []

    def abort(self) -> None:
        """See Source."""
        self._flying, self._cutting = self._cutting + self._flying, []

    def settle(self, settlement: OperatorSettlement) -> None:
        """See Source. No batch is held here."""

    def tick(self) -> None:
        """See Source."""

    def status(self) -> dict[str, Any]:
        """See Source."""
        run = self._run
        return {
            "replay": {
                "replayed": run.replayed,
                "refused_again": len(run.refused),
                "passed_over": run.passed_over,
                "under_way": len(self._by_batch),
            }
        }


def _blob() -> dict[str, list[bytes | memoryview]]:
    """A blob of nothing: it carries the commit record, for when a deciding sink was faster than the log."""
    return {QUEUE: [b""]}


def _apply(flights: list[_Flight], memory: ReplayMemory) -> None:
    for flight in flights:
        if flight.failed is None:
            memory.add(flight.position, flight.file_bytes)
        else:
            memory.fail(flight.position, flight.failed)


class RefusedAgain:
    """Stands where the dead letters' sink stands: tells the source which letters were refused again.

    Guarantees: its manifest carries what was refused after the cut, so that a checkpoint never says of such a letter
    that it was replayed.
    """

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(self, run: ReplayRun) -> None:
        self._run = run

    def open(self, context: SinkContext) -> None:
        """Hand what the last checkpoint's manifest says to the source, which is opened later."""
        self._run.restored = [
            (Position.parse(place), Failed.of_json(failed))
            for manifest in context.prepared.values()
            for place, failed in manifest.get("refused", {}).items()
        ]

    def write(self, rows: Rows) -> None:
        """Take dead letters."""
        source = self._run.source
        assert source is not None
        for letter in rows.batch.to_pylist():
            source.refused(letter["batch_id"], letter["origin"], letter["reason"])

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002
        """Name what was refused of this checkpoint's letters."""
        source = self._run.source
        assert source is not None
        refused = source.refused_in_cut()
        return {"refused": {str(position): failed.to_json() for position, failed in refused}} if refused else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Nothing to publish."""

    def close(self) -> None:
        """Nothing to release."""
