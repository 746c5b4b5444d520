"""The sink that writes rows into files of a local directory: every row once, also across crashes and restarts.

Exactly once holds for a reader that looks at final files only, takes each name once, and for batches that the source
hands over once. Rows are staged out of sight; a completed checkpoint publishes them under names that were never
there before. Final files are whole, synced and never changed again, so a reader may move or delete them at any time.

File names. `part-<epoch>-<checkpoint>-<k>.<ext>`, numbers padded with zeros: names in alphabetical order hold the
rows in the order they were written. Epoch is the run of the job, checkpoint the one that first prepared the file,
k counts from 0. A checkpoint without rows makes no file.

Formats. `json` writes one `{"value": "<payload>"}` a line. `text` writes the payload byte for byte and then the row
delimiter; nothing is escaped, so a payload that holds the delimiter (a lone CR with `row_delimiter = "\\r"`, or a line
feed inside a packet) reads as two rows.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.errors import ComponentError, ConfigError, ConfigProblem
from edgesocket.records import RecordBlock
from edgesocket.sinks.lines import json_lines, only_column, text_lines
from edgesocket.sinks.staging import StagedFile, StagedWriter, StagingArea, explained

_EXTENSIONS = {"json": ".json", "text": ".txt"}

DEFAULT_BATCH_SIZE = 1_000_000
"""Rows a file; a new one is begun for every checkpoint anyway."""


class LocalFileSink:
    """Stages rows in files and publishes the files when their checkpoint is complete.

    Guarantees: exactly once (re-committable); one thread. A `write` that raises has taken nothing and may be
    repeated, and so may `prepare` and `commit`, with one exception: after a failed fsync it is unknown which rows
    are on the disk, and every later `write` and `prepare` raises until a new sink is opened.
    """

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        file_format_type: str = "json",
        row_delimiter: str = "\n",
        batch_size: int = DEFAULT_BATCH_SIZE,
        tmp_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Check the options; nothing is touched before `open`.

        Args:
            path: directory of the final files, made where it is missing. It belongs to this sink of this job alone.
            file_format_type: `json` or `text`, any letter case.
            row_delimiter: ends a row of format text.
            batch_size: most rows in one file, at least 1.
            tmp_path: directory to stage in, on the same device as `path`; a hidden one inside `path` by default.

        Raises:
            ConfigError: an option is out of range; names all that are.
        """
        problems = []
        if not os.fspath(path):
            problems.append(ConfigProblem("path", "is empty", "a directory for the files"))
        if file_format_type.lower() not in _EXTENSIONS:
            fix = f"one of {', '.join(_EXTENSIONS)}"
            problems.append(ConfigProblem("file_format_type", f'"{file_format_type}" is not a format', fix))
        if not row_delimiter:
            problems.append(ConfigProblem("row_delimiter", "is empty", r'such as "\n"'))
        if batch_size < 1:
            problems.append(ConfigProblem("batch_size", f"{batch_size} is less than 1"))
        if problems:
            raise ConfigError(problems)
        self._path = Path(path)
        self._tmp_path = Path(tmp_path) if tmp_path else self._path / ".staged"
        self._format = file_format_type.lower()
        self._delimiter = row_delimiter.encode()
        self._batch_size = batch_size
        self._column = "value"
        self._epoch = 0
        self._area = StagingArea(self._path, self._tmp_path)
        self._writer: StagedWriter | None = None  # takes rows
        self._full: list[StagedWriter] = []  # sealed, not prepared
        self._pending: list[StagedFile] = []  # prepared by us, not committed: of the last checkpoint, or aborted
        self._unsure = ""  # why it is unknown what the disk holds

    def open(self, context: SinkContext) -> None:
        """Make the directories and throw away what earlier runs staged, unless a prepared manifest names it.

        Raises:
            ComponentError: a directory cannot be made or written to, `tmp_path` is on another device, or files of
                a later run are staged there.
        """
        self._column = only_column(context)
        self._epoch = context.epoch
        owner = f"{quote(context.job, safe='')}.{quote(context.sink_id, safe='')}"
        self._area = StagingArea(self._path, self._tmp_path / owner)
        self._area.make_ready()
        named = {file.staged for manifest in context.prepared.values() for file in _files_of(manifest)}
        self._area.clean(context.epoch, named, context.prepared)

    def write(self, block: RecordBlock) -> None:
        """Append the rows of the block to the staged file, beginning new files as they get full.

        Raises:
            ComponentError: the disk does not take them; nothing of the block is kept.
        """
        self._check_sure()
        writer, files = self._writer, len(self._full)
        rows, size = (writer.rows, writer.bytes) if writer else (0, 0)
        try:
            start = 0
            while start < block.count:
                start += self._write_some(block, start)
        except ComponentError:
            self._rewind(writer, files, rows, size)
            raise

    def prepare(self, checkpoint: int) -> Manifest:
        """Sync everything written so far, and name it, with what aborted checkpoints left.

        Returns:
            `{"files": [{"staged": name, "final": name, "rows": count, "bytes": size}, ...]}` in row order; empty
            when there is nothing to commit.

        Raises:
            ComponentError: a file cannot be synced or has vanished; the rows stay for the next `prepare`, if
                they are still there.
        """
        self._check_sure()
        self._seal_current()
        prefix, extension = f"part-{self._epoch:06d}-{checkpoint:010d}-", _EXTENSIONS[self._format]
        names = self._area.free_names(prefix, extension, {file.final for file in self._pending})
        fresh = [StagedFile(w.path.name, next(names), w.rows, w.bytes) for w in self._full]
        if self._pending or fresh:
            self._area.settle([*self._pending, *fresh])
        self._pending += fresh
        self._full = []
        return {"files": [asdict(file) for file in self._pending]} if self._pending else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Give the files of the manifest their final names. May be repeated.

        Raises:
            ComponentError: a name is taken by another file, or a file is neither staged nor published.
        """
        files = _files_of(manifest)
        if files:
            self._area.publish(checkpoint, files)
            published = {file.staged for file in files}
            self._pending = [file for file in self._pending if file.staged not in published]

    def close(self) -> None:
        """Throw unprepared files away; prepared ones stay for whoever restores them."""
        for writer in (*self._full, *([self._writer] if self._writer else [])):
            try:
                writer.discard()
            except OSError:  # the next `open` tidies up
                pass
        self._writer, self._full = None, []

    def _write_some(self, block: RecordBlock, start: int) -> int:
        """Write as many rows as the current file has room for; returns how many."""
        if self._writer is None:
            self._writer = self._area.create(self._epoch)
        writer = self._writer
        stop = min(block.count, start + self._batch_size - writer.rows)
        part = block.part(start, stop)
        lines = json_lines(part, self._column) if self._format == "json" else text_lines(part, self._delimiter)
        with explained("write", writer.path):
            writer.append(lines, part.count)
        if writer.rows == self._batch_size:
            self._seal_current()
        return part.count

    def _seal_current(self) -> None:
        writer = self._writer
        if writer is None:
            return
        with explained("sync", writer.path):
            try:
                writer.seal()
            except OSError as error:
                self._unsure = f"{writer.path} could not be synced ({error.strerror})"
                raise
        self._full.append(writer)
        self._writer = None

    def _rewind(self, writer: StagedWriter | None, files: int, rows: int, size: int) -> None:
        """Go back to where `writer` took rows and held so much, and `files` files were full."""
        begun = [w for w in (*self._full[files:], self._writer) if w is not None and w is not writer]
        del self._full[files:]
        self._writer = writer
        try:
            if writer is not None:
                writer.rewind(rows, size)
            for other in begun:
                other.discard()
        except OSError as error:
            self._unsure = f"a part of a block could not be taken back from {self._area.staging} ({error.strerror})"

    def _check_sure(self) -> None:
        if self._unsure:
            raise ComponentError(f"LocalFile sink must be opened again: {self._unsure}", reopen=True)


def _files_of(manifest: Manifest) -> list[StagedFile]:
    return [StagedFile(**entry) for entry in manifest.get("files", ())]
