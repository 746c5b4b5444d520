"""One file that is being followed, by its open handle: read, check that it is still the same, describe it in a mark."""

from __future__ import annotations

import os
import stat as stats
import zlib
from pathlib import Path

from edgesocket.collector.intake.discovery import Ident
from edgesocket.collector.intake.file_identity import ANCHOR_BYTES, PREFIX_BYTES, FileMark, digest
from edgesocket.collector.intake.framing import Framer

SETTLED_NS = 2_000_000_000
"""A file changed less than so long ago may change again without another time of change: it is compared again."""

_GZIP = 16 + zlib.MAX_WBITS


class GzipStream:
    """What a gzip file holds, from its start on; members one after the other, up to what has been written so far."""

    def __init__(self) -> None:
        """At the start."""
        self._offset = 0
        self._inflate = zlib.decompressobj(_GZIP)
        self._input = b""
        self._full = False
        self.position = 0
        """Bytes given so far."""

    def read(self, descriptor: int, size: int) -> bytes:
        """At most so many of the next bytes; none: the end, or of what has been written.

        Raises:
            zlib.error: the file is damaged.
        """
        while True:
            if not self._input and not self._full:
                self._input = os.pread(descriptor, 64 * 1024, self._offset)
                self._offset += len(self._input)
                if not self._input:
                    return b""
            if self._inflate.eof:
                self._full = False
                self._input = self._input.lstrip(b"\0")
                if not self._input:
                    continue
                self._inflate = zlib.decompressobj(_GZIP)
            data = self._inflate.decompress(self._input, size)
            self._input = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._full = len(data) == size
            if data:
                self.position += len(data)
                return data


class TailedFile:
    """One file from its first byte to its end. Where it is cut and written anew, another one begins."""

    def __init__(self, key: str, path: str, ident: Ident, framer: Framer) -> None:
        """Nothing is opened yet. Args: name of its mark, where it is, what it is, and what makes records of it."""
        self.key = key
        self.path = path
        self.ident = ident
        self.framer = framer
        self.descriptor: int | None = None
        self.prefix = b""
        self.anchor = b""
        self.anchor_end = 0
        self.zipped: GzipStream | None = None
        self.has_more = True
        """Whether there may be something to read."""
        self.missing = False
        """Whether the globs find it no more."""
        self.flush_at: float | None = None
        self.changed_at = 0.0
        """When something was read last."""
        self.unstored = 0
        """Reads that are not durable yet."""
        self.finishing = False
        self._seen: tuple[int, int] = (-1, -1)
        self._settled = False

    def open(self, path: str) -> bool:
        """Open it under that name. Whether it is there: the same device and inode, a regular file.

        Raises:
            OSError: it cannot be opened.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != self.ident or not stats.S_ISREG(status.st_mode):
            os.close(descriptor)
            return False
        self.descriptor = descriptor
        self.path = path
        return True

    def close(self) -> None:
        """Let go of the handle."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            self._seen = (-1, -1)

    @property
    def size(self) -> int:
        """Bytes it has now."""
        return os.fstat(self._handle).st_size

    @property
    def is_deleted(self) -> bool:
        """Whether it has no name any more."""
        return self.descriptor is not None and os.fstat(self.descriptor).st_nlink == 0

    @property
    def _handle(self) -> int:
        assert self.descriptor is not None
        return self.descriptor

    def head(self) -> bytes:
        """Its first bytes, as many as identify a file."""
        return os.pread(self._handle, PREFIX_BYTES, 0)

    def adopt(self, mark: FileMark) -> bool:
        """Take over what a mark says is known of it. Whether the file, open, is the one of the mark."""
        start = max(0, mark.state.offset - mark.anchor_bytes)
        prefix = os.pread(self._handle, mark.prefix_bytes, 0)
        anchor = os.pread(self._handle, mark.state.offset - start, start)
        if digest(prefix) != mark.prefix or digest(anchor) != mark.anchor or self.size < mark.state.offset:
            return False
        self.prefix, self.anchor, self.anchor_end = prefix, anchor, mark.state.offset
        return True

    def begin_at(self, offset: int) -> None:
        """What lies before `offset` is not wanted, but identifies the file."""
        self.prefix = os.pread(self._handle, min(PREFIX_BYTES, offset), 0)
        start = max(0, offset - ANCHOR_BYTES)
        self.anchor, self.anchor_end = os.pread(self._handle, offset - start, start), offset

    def is_intact(self) -> bool:
        """Whether what was read of it is still there."""
        if self.zipped is not None:
            return True
        if self.size < self.framer.read_offset:
            return False
        handle = self._handle
        if os.pread(handle, len(self.prefix), 0) != self.prefix:
            return False
        return os.pread(handle, len(self.anchor), self.anchor_end - len(self.anchor)) == self.anchor

    def look(self, wall_ns: int) -> bool:
        """Ask the file system for news; `has_more` says whether to read. Whether the file is intact, if that is asked.

        Raises:
            OSError: it cannot say.
        """
        if self.descriptor is None:
            status = Path(self.path).stat()
            if (status.st_dev, status.st_ino) != self.ident:
                return True
        else:
            status = os.fstat(self.descriptor)
        seen = (status.st_size, status.st_mtime_ns)
        if seen == self._seen and self._settled:
            return True
        self._seen = seen
        self._settled = status.st_mtime_ns + SETTLED_NS < wall_ns
        if self.zipped is not None:
            self.has_more = True
            return True
        if status.st_size != self.framer.read_offset:
            self.has_more = True
        return self.descriptor is None or self.is_intact()

    def read(self, size: int, back: int = 0) -> tuple[bytes, bool]:
        """The next bytes (and so many before them), and whether the file is still intact behind them.

        The file may be cut at any moment, also between a look and a read. So it is compared before and after; bytes
        that were read in between are only given when they cannot be those of the new content.
        """
        start = self.framer.read_offset - back
        if self.zipped is not None:
            return self.zipped.read(self._handle, size), True
        if not self.is_intact():
            return b"", False
        data = os.pread(self._handle, size, start)
        intact = self.is_intact()
        if not intact and os.pread(self._handle, len(data), start) == data:
            data = b""
        return (data if len(data) > back else b""), intact

    def remember(self, start: int, data: bytes) -> None:
        """Bytes that were read at `start` have been given to the framer: what identifies the file grows."""
        known = len(self.prefix)
        if known < PREFIX_BYTES:
            self.prefix += data[max(0, known - start) :][: PREFIX_BYTES - known]
        end = self.framer.state.offset
        if end == self.anchor_end:
            return
        first = max(0, end - ANCHOR_BYTES)
        if self.zipped is not None:
            first = max(start, min(first, end))  # what is not at hand cannot be read again
            self.anchor, self.anchor_end = data[first - start : max(0, end - start)], end
            return
        whole = first >= start
        self.anchor = data[first - start : end - start] if whole else os.pread(self._handle, end - first, first)
        self.anchor_end = end

    def mark(self, *, ended: bool = False) -> FileMark:
        """What is to be durable."""
        device, inode = self.ident
        state = self.framer.state
        # Where the bytes before the offset were not at hand, the first ones have to do.
        anchor = self.anchor if self.anchor_end == state.offset else b""
        return FileMark(
            device,
            inode,
            self.path,
            len(self.prefix),
            digest(self.prefix),
            len(anchor),
            digest(anchor),
            state,
            ended,
        )
