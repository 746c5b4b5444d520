"""The sink that keeps refused records in files of a local directory: every one of them once, also across crashes.

The same holds as for the files of LocalFile: dead letters are staged out of sight and published with their
checkpoint under names that were never there before; final files are whole and are never changed again. So an ACK that
passes over a refused record is given only when that record is safe in a file.

File names. `dead-<epoch>-<checkpoint>-<k>.jsonl`, numbers padded with zeros. A checkpoint without dead letters makes no
file: a new file is news.

Lines. `{"batch_id": 7, "time": "2026-01-31T09:30:00.250Z", "origin": "EdgeSocket", "reason": "...", "payload": "..."}`,
and `"payload_base64": "..."` behind it where the payload is not UTF-8 text; then the text shows U+FFFD for what it
cannot.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from edgesocket.components.dead_letter import DEAD_LETTER_SCHEMA
from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.staging import StagedFile, StagedWriter, StagingArea, explained

_encode = json.JSONEncoder(ensure_ascii=False).encode


class DeadLetterSink:
    """Stages dead letters in a file a checkpoint and publishes it when the checkpoint is complete.

    Guarantees: exactly once (re-committable); one thread. A `write` that raises has taken nothing and may be repeated,
    and so may `prepare` and `commit`; after a failed fsync every later `write` and `prepare` raises until a new sink
    is opened.
    """

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(self, *, path: str | os.PathLike[str], tmp_path: str | os.PathLike[str] | None = None) -> None:
        """Nothing is touched before `open`.

        Args:
            path: directory of the final files, made where it is missing.
            tmp_path: directory to stage in, on the same device as `path`; a hidden one inside `path` by default.
        """
        self._path = Path(path)
        self._tmp_path = Path(tmp_path) if tmp_path else self._path / ".staged"
        self._area = StagingArea(self._path, self._tmp_path)
        self._epoch = 0
        self._writer: StagedWriter | None = None  # takes rows
        self._sealed: list[StagedWriter] = []  # not prepared: a `prepare` failed after it was synced
        self._pending: list[StagedFile] = []  # prepared by us, not committed: of the last checkpoint, or aborted
        self._unsure = ""  # why it is unknown what the disk holds

    def open(self, context: SinkContext) -> None:
        """Make the directories and throw away what earlier runs staged, unless a prepared manifest names it.

        Raises:
            ComponentError: the rows are no dead letters, a directory cannot be made or written to, `tmp_path` is on
                another device, or files of a later run are staged there.
        """
        if not context.schema.equals(DEAD_LETTER_SCHEMA):
            raise ComponentError(
                f"sink {context.sink_id} takes dead letters only: it belongs into the block "
                "dead_letter { DeadLetter { path = ... } }; for other rows use LocalFile",
                retryable=False,
            )
        self._epoch = context.epoch
        owner = f"{quote(context.job, safe='')}.{quote(context.sink_id, safe='')}"
        self._area = StagingArea(self._path, self._tmp_path / owner)
        self._area.make_ready()
        named = {file.staged for manifest in context.prepared.values() for file in _files_of(manifest)}
        self._area.clean(context.epoch, named, context.prepared)

    def write(self, rows: Rows) -> None:
        """Append the dead letters to the staged file.

        Raises:
            ComponentError: the disk does not take them; nothing of the rows is kept.
        """
        self._check_sure()
        lines = b"".join(dead_letter_lines(rows))
        if self._writer is None:
            self._writer = self._area.create(self._epoch)
        writer = self._writer
        before = writer.rows, writer.bytes
        with explained("write", writer.path):
            try:
                writer.append(lines, rows.count)
            except OSError:
                self._rewind(writer, *before)
                raise

    def prepare(self, checkpoint: int) -> Manifest:
        """Sync everything written so far, and name it, with what aborted checkpoints left.

        Returns:
            `{"files": [{"staged": name, "final": name, "rows": count, "bytes": size}, ...]}`; empty when there is
            nothing to commit.

        Raises:
            ComponentError: a file cannot be synced or has vanished; what is still there stays for the next `prepare`.
        """
        self._check_sure()
        self._seal()
        prefix = f"dead-{self._epoch:06d}-{checkpoint:010d}-"
        names = self._area.free_names(prefix, ".jsonl", {file.final for file in self._pending})
        fresh = [StagedFile(w.path.name, next(names), w.rows, w.bytes) for w in self._sealed]
        if self._pending or fresh:
            self._area.settle([*self._pending, *fresh])
        self._pending += fresh
        self._sealed = []
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
        for writer in (*self._sealed, *([self._writer] if self._writer else [])):
            try:
                writer.discard()
            except OSError:  # the next `open` tidies up
                pass
        self._writer, self._sealed = None, []

    def _seal(self) -> None:
        writer = self._writer
        if writer is None:
            return
        if not writer.rows:  # every write to it failed
            with explained("remove", writer.path):
                writer.discard()
            self._writer = None
            return
        with explained("sync", writer.path):
            try:
                writer.seal()
            except OSError as error:
                self._unsure = f"{writer.path} could not be synced ({error.strerror})"
                raise
        self._sealed.append(writer)
        self._writer = None

    def _rewind(self, writer: StagedWriter, rows: int, size: int) -> None:
        try:
            writer.rewind(rows, size)
        except OSError as error:
            self._unsure = f"a part of a line could not be taken back from {writer.path} ({error.strerror})"

    def _check_sure(self) -> None:
        if self._unsure:
            raise ComponentError(f"DeadLetter sink must be opened again: {self._unsure}", reopen=True)


def dead_letter_lines(rows: Rows) -> Iterator[bytes]:
    """A line of JSON for each row of DEAD_LETTER_SCHEMA."""
    for row in rows.batch.to_pylist():
        line: dict[str, Any] = {
            "batch_id": row["batch_id"],
            "time": _iso(row["time"]),
            "origin": row["origin"],
            "reason": row["reason"],
            "payload": row["payload"],
        }
        if row["payload_bytes"] is not None:
            line["payload_base64"] = base64.b64encode(row["payload_bytes"]).decode()
        yield _encode(line).encode() + b"\n"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds") + "Z"


def _files_of(manifest: Manifest) -> list[StagedFile]:
    return [StagedFile(**entry) for entry in manifest.get("files", ())]
