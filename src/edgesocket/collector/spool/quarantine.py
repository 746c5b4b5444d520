"""Where damaged parts go: `damaged/`, one named file each, for somebody to look at. Nothing reads them again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgesocket.collector.spool.files import Files
from edgesocket.collector.spool.frames import READ_BYTES, Hole, ReadAt
from edgesocket.collector.spool.names import DAMAGED, SegmentName


class Quarantine:
    """The damaged parts of one spool. Used under the lock of the shelf.

    Attributes:
        parts, bytes: how many were found since the spool was opened, kept or not.
    """

    def __init__(self, files: Files, spool: Path, limit_bytes: int) -> None:
        self._files = files
        self._directory = spool / DAMAGED
        self._limit_bytes = limit_bytes
        self.parts = 0
        self.bytes = 0

    def keep_part(self, name: SegmentName, hole: Hole, read: ReadAt) -> str:
        """Copy a hole into a file of its own. Returns what became of it, in words; raises no OSError."""
        self.parts += 1
        self.bytes += hole.length
        path = self._directory / name.part(hole.offset, hole.end)
        try:
            if not self._room_for(hole.length):
                return f"not kept: {self._directory} is full"
            fd = self._files.create(path)
        except FileExistsError:
            return f"kept in {path}"
        except OSError as error:
            return f"not kept: {error.strerror}"
        try:
            try:
                for start in range(hole.offset, hole.end, READ_BYTES):
                    self._files.write(fd, [read(start, min(READ_BYTES, hole.end - start))])
            finally:
                self._files.close(fd)
        except OSError as error:
            self._remove(path)
            return f"not kept: {error.strerror}"
        return f"kept in {path}"

    def keep_file(self, path: Path, size: int) -> str:
        """Move a whole file here, whatever it is. Returns what became of it, in words; raises no OSError."""
        self.parts += 1
        self.bytes += size
        target = self._directory / path.name
        try:
            self._room_for(0)
            self._files.rename(path, target)
        except OSError as error:
            return f"left where it is: {error.strerror}"
        return f"moved to {target}"

    def _room_for(self, length: int) -> bool:
        self._files.make_directory(self._directory)
        kept = 0
        for name in self._files.names(self._directory):
            with suppress(OSError):  # directories and the like that had a segment's name
                kept += self._files.size(self._directory / name)
        return kept + length <= self._limit_bytes

    def _remove(self, path: Path) -> None:
        with suppress(OSError):
            self._files.unlink(path)
