"""Dead letters for tests: files of letters as the sinks write them, and jobs whose letters can be replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgesocket.cli.jobs import make_plan
from edgesocket.components.sink import CommitRole, Manifest, RejectedRow, SinkContext
from edgesocket.components.state import Host
from edgesocket.config.job import load_job
from edgesocket.config.specs import JobSpec
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.hosting.replay import Replay, ReplayEnd
from edgesocket.rows import Rows
from edgesocket.sources.letter_files import FileKey, Position
from edgesocket.store.directory import DirectoryPlace


def write_letters(
    directory: Path, letters: Sequence[dict[str, Any]], *, epoch: int = 1, checkpoint: int = 1, k: int = 0
) -> Path:
    """A published file of the sink DeadLetter. What a letter leaves out is filled in."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"dead-{epoch:06d}-{checkpoint:010d}-{k:05d}.jsonl"
    lines = [json.dumps(letter(**given), ensure_ascii=False) for given in letters]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def letter(batch_id: int = 7, payload: str = "{}", origin: str = "EdgeSocket", **more: Any) -> dict[str, Any]:
    """A line of such a file."""
    return {
        "batch_id": batch_id,
        "time": "2026-01-31T09:30:00.250Z",
        "origin": origin,
        "reason": "refused",
        "payload": payload,
        **more,
    }


def at(line: int, checkpoint: int = 1, epoch: int = 1, k: int = 0) -> Position:
    """A position."""
    return Position(FileKey(epoch, checkpoint, k), line)


@dataclass
class Shelf:
    """What outlives a ShelfSink: published rows, prepared rows by name, and which rows it refuses."""

    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    staged: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    refuses: Callable[[dict[str, Any]], bool] = lambda _: False
    refuses_late: bool = False


class ShelfSink:
    """A re-committable sink of typed rows in memory; it refuses rows at `write`, or as late as `prepare`."""

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._taken: list[tuple[int, dict[str, Any]]] = []
        self._late: list[RejectedRow] = []
        self._context: SinkContext | None = None

    def open(self, context: SinkContext) -> None:
        self._context = context

    def write(self, rows: Rows) -> None:
        assert self._context is not None
        for index, row in enumerate(rows.batch.to_pylist()):
            if not self._shelf.refuses(row):
                self._taken.append((rows.id_at(index), row))
                continue
            rejected = RejectedRow(rows.id_at(index), "the shelf refuses it", json.dumps(row).encode())
            if self._shelf.refuses_late:
                self._late.append(rejected)
            else:
                self._context.reject(rejected)

    def prepare(self, checkpoint: int) -> Manifest:
        assert self._context is not None
        while self._late:
            self._context.reject(self._late.pop())
        if not self._taken:
            return {}
        name = f"{self._context.epoch}-{checkpoint}"
        self._shelf.staged[name], self._taken = self._taken, []
        return {"name": name}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        self._shelf.rows += self._shelf.staged.pop(manifest["name"], [])

    def close(self) -> None: ...


SCHEMA = "schema { fields { id = int, name = string } }"


def job_spec(directory: Path, *, source: str = SCHEMA, transform: str = "", dead_letter: str = "") -> JobSpec:
    """A job with dead letters in `directory`/dead."""
    dead_letter = dead_letter or f'DeadLetter {{ path = "{directory / "dead"}" }}'
    text = (
        "env { job.mode = STREAMING }\n"
        f'source {{ EdgeSocket {{ port = 9999, token = "a-token", {source} }} }}\n'
        f"transform {{ {transform} }}\nsink {{ Null {{}} }}\n"
        f"dead_letter {{ {dead_letter} }}\n"
    )
    return load_job(text, "job.conf")


def shelf_plan(spec: JobSpec, state: Path, shelves: dict[str, Shelf], **more: Any) -> JobPlan:
    """The plan of the job with shelves for sinks, each behind the last transform."""
    from dataclasses import replace

    inputs = (spec.transforms[-1].id,) if spec.transforms else ()

    def make(shelf: Shelf) -> Callable[[], ShelfSink]:
        return lambda: ShelfSink(shelf)

    sinks = tuple(SinkPlan(sink_id, make(shelf), inputs) for sink_id, shelf in shelves.items())
    plan = make_plan(spec, DirectoryPlace(state))
    return replace(plan, sinks=sinks, retry_times=0, checkpoint_interval_s=0.05, **more)


def replay(
    directory: Path, shelves: dict[str, Shelf], wanted: set[Position] | None = None, **options: Any
) -> ReplayEnd:
    """Replay the letters of a job of `job_spec` into shelves."""
    spec = job_spec(directory, **options)
    plan = shelf_plan(spec, directory / "state", shelves)
    chosen = None if wanted is None else frozenset(wanted)
    one = Replay(spec, plan, DirectoryPlace(directory / "state"), Host("host", "boot"), wanted=chosen)
    return one.run()


def typed(batch_ids: Sequence[int], **columns: Sequence[Any]) -> Rows:
    """Rows of Arrow columns."""
    import numpy as np

    batch = pa.RecordBatch.from_pydict({name: list(values) for name, values in columns.items()})
    return Rows.of_batch(batch, batch_ids[0], np.array(batch_ids, dtype=np.int64))
