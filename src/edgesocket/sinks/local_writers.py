"""Rows on their way into staged files: when a file is begun, filled and sealed, and what a failure leaves.

Formats made of lines go to the disk at every `write`; one that fails is taken back by cutting the file. Columnar
formats cannot be cut back: their writer remembers what it wrote. So `write` first gets rid of the bytes that earlier
rows made, which may fail and then takes nothing, and after that only adds to memory, which does not. Those bytes are at
most one row group and one block. Either way a `write` that raises took none of its rows.
"""

from __future__ import annotations

from typing import Protocol

from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.file_formats import BoundFormat, Encoder
from edgesocket.sinks.staging import StagedWriter, StagingArea, explained


class RowFiles(Protocol):
    """Takes rows, and gives sealed files. Every method but `discard` raises ComponentError."""

    def write(self, rows: Rows) -> None:
        """Take the rows, or none of them."""

    def finish(self) -> list[StagedWriter]:
        """Write all rows out. Returns the files since the last call, in row order: they are the caller's now.

        They are not durable before `sync`.
        """

    def sync(self, writer: StagedWriter) -> None:
        """Make a finished file durable; safe on another thread. A failure makes every later call raise."""

    def discard(self) -> None:
        """Throw away what has not been finished."""


def row_files(bound: BoundFormat, area: StagingArea, epoch: int, batch_size: int) -> RowFiles:
    """What writes files of a format, at most `batch_size` rows each."""
    kind = ColumnarFiles if bound.is_columnar else LineFiles
    return kind(bound, area, epoch, batch_size)


class _Files:
    """What both kinds have in common."""

    def __init__(self, bound: BoundFormat, area: StagingArea, epoch: int, batch_size: int) -> None:
        self._bound = bound
        self._area = area
        self._epoch = epoch
        self._batch_size = batch_size
        self._full: list[StagedWriter] = []  # they have all their rows
        self._unsure = ""  # why it is unknown what the disk holds

    def sync(self, writer: StagedWriter) -> None:
        """Make a finished file durable, once."""
        self._check_sure()
        with explained("sync", writer.path):
            try:
                writer.seal()
            except OSError as error:
                self._unsure = f"{writer.path} could not be synced ({error.strerror})"
                raise

    def _take_full(self) -> list[StagedWriter]:
        full, self._full = self._full, []
        return full

    def _check_sure(self) -> None:
        if self._unsure:
            raise ComponentError(f"LocalFile sink must be opened again: {self._unsure}", reopen=True)

    def _discard(self, *writers: StagedWriter) -> None:
        for writer in (*self._full, *writers):
            try:
                writer.discard()
            except OSError:  # the next `open` tidies up
                pass
        self._full = []


class LineFiles(_Files):
    """Formats whose rows are bytes at once."""

    _writer: StagedWriter | None = None  # takes rows

    def write(self, rows: Rows) -> None:
        """Append the rows; a failure takes back what was appended."""
        self._check_sure()
        writer, files = self._writer, len(self._full)
        count, size = (writer.rows, writer.bytes) if writer else (0, 0)
        try:
            start = 0
            while start < rows.count:
                start += self._write_some(rows, start)
        except ComponentError:
            self._rewind(writer, files, count, size)
            raise

    def finish(self) -> list[StagedWriter]:
        """The file that takes rows gets no more."""
        self._check_sure()
        if self._writer is not None:
            self._full.append(self._writer)
            self._writer = None
        return self._take_full()

    def discard(self) -> None:
        """Throw everything away."""
        self._discard(*([self._writer] if self._writer else []))
        self._writer = None

    def _write_some(self, rows: Rows, start: int) -> int:
        """Write as many rows as the current file has room for; returns how many."""
        if self._writer is None:
            self._writer = self._area.create(self._epoch)
        writer = self._writer
        part = rows.part(start, min(rows.count, start + self._batch_size - writer.rows))
        lines = self._bound.lines(part)
        if self._bound.header and not writer.bytes:
            lines = self._bound.header + bytes(lines)
        with explained("write", writer.path):
            writer.append(lines, part.count)
        if writer.rows == self._batch_size:
            self.sync(writer)  # now: many small files would keep as many descriptors open
            self._full.append(writer)
            self._writer = None
        return part.count

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


class _ColumnarFile:
    """One file that takes rows in memory; `writer` is made when it first has bytes to write.

    Attributes:
        rows: taken.
        waiting: bytes that are not on the disk yet.
        finished: the end of the file is among them, or written.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.writer: StagedWriter | None = None
        self.rows = 0
        self.waiting = b""
        self.finished = False
        self._encoder = encoder

    def add(self, rows: Rows) -> None:
        self.waiting += self._encoder.add(rows)
        self.rows += rows.count

    def finish(self) -> None:
        if not self.finished:
            self.waiting += self._encoder.finish()
            self.finished = True


class ColumnarFiles(_Files):
    """Formats whose rows are collected first."""

    def __init__(self, bound: BoundFormat, area: StagingArea, epoch: int, batch_size: int) -> None:
        super().__init__(bound, area, epoch, batch_size)
        self._open: list[_ColumnarFile] = []  # not sealed; only the last takes rows

    def write(self, rows: Rows) -> None:
        """Write what waits, then take the rows in memory."""
        self._check_sure()
        for file in self._open:
            self._flush(file)
        self._put_finished_aside(sync=True)
        start = 0
        while start < rows.count:
            if not self._open or self._open[-1].finished:
                self._open.append(_ColumnarFile(self._bound.encoder()))
            file = self._open[-1]
            stop = min(rows.count, start + self._batch_size - file.rows)
            file.add(rows.part(start, stop))
            start = stop
            if file.rows == self._batch_size:
                file.finish()

    def finish(self) -> list[StagedWriter]:
        """Finish and write every file. A failure may be tried again."""
        self._check_sure()
        for file in self._open:
            file.finish()
            self._flush(file)
        self._put_finished_aside(sync=False)
        return self._take_full()

    def discard(self) -> None:
        """Throw everything away."""
        self._discard(*(file.writer for file in self._open if file.writer is not None))
        self._open = []

    def _flush(self, file: _ColumnarFile) -> None:
        """Write what waits; after a failure it waits on, and the file ends where it ended before."""
        if not file.waiting:
            return
        if file.writer is None:
            file.writer = self._area.create(self._epoch)
        writer = file.writer
        rows, size = writer.rows, writer.bytes
        try:
            with explained("write", writer.path):
                writer.append(file.waiting, file.rows - rows)
        except ComponentError:
            try:
                writer.rewind(rows, size)
            except OSError as error:
                self._unsure = f"half a write could not be taken back from {writer.path} ({error.strerror})"
            raise
        file.waiting = b""

    def _put_finished_aside(self, *, sync: bool) -> None:
        """Those that are whole with the kernel; `sync`: make them durable, too."""
        while self._open and self._open[0].finished and self._open[0].writer is not None:
            if sync:
                self.sync(self._open[0].writer)
            self._full.append(self._open[0].writer)
            del self._open[0]
