"""The sink that writes rows into files of a local directory: every row once, also across crashes and restarts.

Exactly once holds for a reader that looks at final files only, takes each name once, and for batches that the source
hands over once. Rows are staged out of sight; a completed checkpoint publishes them under names that were never
there before. Final files are whole, synced and never changed again, so a reader may move or delete them at any time.

File names. `part-<epoch>-<checkpoint>-<k>.<ext>`, numbers padded with zeros: names in alphabetical order hold the
rows in the order they were written. Epoch is the run of the job, checkpoint the one that first prepared the file,
k counts from 0. A checkpoint without rows makes no file. A replay of dead letters puts `replay-` before k.

Manifests. When all files of a checkpoint are there, `_manifests/<epoch>-<checkpoint>.json` names them, with their rows
and bytes. It is written last, so it tells a reader that the checkpoint is complete. Nobody here deletes one.

What a file looks like is told in `file_formats`, how rows become a staged file in `local_writers`. In format text
nothing is escaped, so a payload that holds the delimiter (a lone CR with `row_delimiter = "\\r"`, or a line feed inside
a packet) reads as two rows.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.rows import Rows
from edgesocket.sinks.file_formats import FileFormat
from edgesocket.sinks.local_writers import RowFiles, row_files
from edgesocket.sinks.staging import StagedFile, StagedWriter, StagingArea

DEFAULT_BATCH_SIZE = 1_000_000
"""Rows a file; a new one is begun for every checkpoint anyway."""


class LocalFileSink:
    """Stages rows in files and publishes the files when their checkpoint is complete.

    Guarantees: exactly once (re-committable); one thread, but `settle` and `commit` may run beside `write`. A `write`
    that raises has taken nothing and may be repeated, and so may `prepare` and `commit`, with one exception: after a
    failed fsync it is unknown which rows are on the disk, and every later `write` and `prepare` raises until a new
    sink is opened.
    """

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        file_format_type: str = "csv",
        batch_size: int = DEFAULT_BATCH_SIZE,
        tmp_path: str | os.PathLike[str] | None = None,
        **format_options: Any,
    ) -> None:
        """Check the options; nothing is touched before `open`.

        Args:
            path: directory of the final files, made where it is missing. It belongs to this sink of this job alone.
            file_format_type: `csv`, `json`, `text`, `parquet` or `orc`, any letter case.
            batch_size: most rows in one file, at least 1.
            tmp_path: directory to stage in, on the same device as `path`; a hidden one inside `path` by default.
            format_options: see `file_formats.DEFAULTS`.

        Raises:
            ConfigError: an option is out of range; names all that are.
        """
        self._format = FileFormat.of(file_format_type=file_format_type, **format_options)
        problems = self._format.problems()
        if not os.fspath(path):
            problems.insert(0, ConfigProblem("path", "is empty", "a directory for the files"))
        if batch_size < 1:
            problems.append(ConfigProblem("batch_size", f"{batch_size} is less than 1"))
        if problems:
            raise ConfigError(problems)
        self._path = Path(path)
        self._tmp_path = Path(tmp_path) if tmp_path else self._path / ".staged"
        self._batch_size = batch_size
        self._epoch = 0
        self._label = ""
        self._area = StagingArea(self._path, self._tmp_path)
        self._files: RowFiles | None = None  # takes rows
        self._finished: list[StagedWriter] = []  # they get no more rows, and are not known to be durable
        self._staged: list[StagedFile] = []  # those of them that `stage` has named
        self._pending: list[StagedFile] = []  # prepared by us, not committed: of the last checkpoint, or aborted
        self._who = {"job": "", "sink": ""}

    def open(self, context: SinkContext) -> None:
        """Make the directories and throw away what earlier runs staged, unless a prepared manifest names it.

        Raises:
            ComponentError: a directory cannot be made or written to, `tmp_path` is on another device, or files of
                a later run are staged there.
        """
        bound = self._format.bind(context)
        self._who = {"job": context.job, "sink": context.sink_id}
        self._epoch = context.epoch
        self._label = f"{context.file_label}-" if context.file_label else ""
        owner = f"{quote(context.job, safe='')}.{quote(context.sink_id, safe='')}"
        self._area = StagingArea(self._path, self._tmp_path / owner)
        self._area.make_ready()
        named = {file.staged for manifest in context.prepared.values() for file in _files_of(manifest)}
        self._area.clean(context.epoch, named, context.prepared)
        self._files = row_files(bound, self._area, context.epoch, self._batch_size)

    def write(self, rows: Rows) -> None:
        """Append the rows to the staged file, beginning new files as they get full.

        Raises:
            ComponentError: the disk does not take them; nothing of the rows is kept.
        """
        assert self._files is not None
        self._files.write(rows)

    def prepare(self, checkpoint: int) -> Manifest:
        """Sync everything written so far, and name it, with what aborted checkpoints left: `stage` and `settle`."""
        manifest = self.stage(checkpoint)
        self.settle(checkpoint)
        return manifest

    def stage(self, checkpoint: int) -> Manifest:
        """Hand everything written so far to the kernel, and name it, with what aborted checkpoints left.

        Returns:
            `{"files": [{"staged": name, "final": name, "rows": count, "bytes": size}, ...]}` in row order; empty
            when there is nothing to commit.

        Raises:
            ComponentError: the disk does not take it; the rows stay for the next `stage`.
        """
        assert self._files is not None
        self._finished += self._files.finish()
        prefix, extension = f"part-{self._epoch:06d}-{checkpoint:010d}-{self._label}", self._format.extension
        names = self._area.free_names(prefix, extension, {file.final for file in self._pending})
        self._staged = [StagedFile(w.path.name, next(names), w.rows, w.bytes) for w in self._finished]
        files = [*self._pending, *self._staged]
        return {"files": [asdict(file) for file in files]} if files else {}

    def settle(self, checkpoint: int) -> None:  # noqa: ARG002  there is one at a time
        """Sync the files that `stage` named.

        Raises:
            ComponentError: a file cannot be synced or has vanished; the rows stay for the next `stage`, if they are
                still there.
        """
        assert self._files is not None
        for writer in self._finished:
            self._files.sync(writer)
        if self._pending or self._staged:
            self._area.settle([*self._pending, *self._staged])
        self._pending += self._staged
        self._finished, self._staged = [], []

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Give the files of the manifest their final names. May be repeated.

        Raises:
            ComponentError: a name is taken by another file, or a file is neither staged nor published.
        """
        files = _files_of(manifest)
        if files:
            self._area.publish(checkpoint, files, self._who)
            published = {file.staged for file in files}
            self._pending = [file for file in self._pending if file.staged not in published]

    def close(self) -> None:
        """Throw unprepared files away; prepared ones stay for whoever restores them."""
        if self._files is not None:
            self._files.discard()
        for writer in self._finished:
            try:
                writer.discard()
            except OSError:  # the next `open` tidies up
                pass


def _files_of(manifest: Manifest) -> list[StagedFile]:
    return [StagedFile(**entry) for entry in manifest.get("files", ())]
