"""What the spool's tests share: a spool in few words, and a file system that fails when told to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from edgesocket.collector.spool.files import Files
from edgesocket.collector.spool.names import SEGMENTS, parse_segment_name
from edgesocket.collector.spool.options import SpoolOptions
from edgesocket.collector.spool.spool import Spool

FIRST_ID = 1_000_000


class FailingFiles(Files):
    """A file system that fails: `fail["sync"] = 2` makes the next two syncs fail with `error`.

    A write that fails leaves its first half behind.
    """

    def __init__(self) -> None:
        self.fail: dict[str, int] = {}
        self.error = errno.EIO
        self.calls: list[str] = []

    def _maybe(self, name: str) -> None:
        self.calls.append(name)
        if self.fail.get(name, 0) > 0:
            self.fail[name] -= 1
            raise OSError(self.error, os.strerror(self.error))

    def write(self, fd: int, buffers: Sequence[bytes]) -> None:
        if self.fail.get("write", 0) > 0:
            data = b"".join(buffers)
            super().write(fd, [data[: len(data) // 2]])
        self._maybe("write")
        super().write(fd, buffers)

    def create(self, path: Path, *, append: bool = True) -> int:
        self._maybe("create")
        return super().create(path, append=append)

    def sync(self, fd: int) -> None:
        self._maybe("sync")
        super().sync(fd)

    def sync_directory(self, directory: Path) -> None:
        self._maybe("sync_directory")
        super().sync_directory(directory)

    def truncate(self, fd: int, size: int) -> None:
        self._maybe("truncate")
        super().truncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        self._maybe("rename")
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._maybe("unlink")
        super().unlink(path)


class NoticeList(list[str]):
    """Notices, kept."""

    def __call__(self, text: str) -> None:
        self.append(text)


def open_spool(
    directory: Path,
    options: SpoolOptions | None = None,
    now_us: int = FIRST_ID,
    files: Files | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Spool:
    """A spool whose ids begin at `FIRST_ID`."""
    return Spool.open(
        directory, options, now_us, files=files, on_notice=NoticeList() if on_notice is None else on_notice
    )


def put(spool: Spool, *lines: bytes, **marks: str) -> None:
    """Append and sync."""
    spool.append(list(lines), marks)
    spool.sync(0.0)


def read_all(spool: Spool, at_least_id: int = 0, most: int = 1000) -> dict[int, bytes]:
    """All records from an id on, by id."""
    found: dict[int, bytes] = {}
    while (run := spool.read(at_least_id, most, 1 << 30)) is not None:
        assert run.payloads
        assert run.first_id >= at_least_id
        found.update(enumerate(run.payloads, run.first_id))
        at_least_id = run.next_id
    return found


def segments(directory: Path) -> list[Path]:
    """The segment files, in order."""
    found = [path for path in (directory / SEGMENTS).iterdir() if parse_segment_name(path.name)]
    return sorted(found)


def abandon(spool: Spool) -> None:
    """End as kill -9 does: nothing is written any more, only the kernel's things go."""
    writer, reader = spool._writer, spool._reader
    if writer._active is not None:
        os.close(writer._active.fd)
        writer._active = None
    reader.close()
    spool._letters.close()
    spool._note.close()
    spool._lock.release()
