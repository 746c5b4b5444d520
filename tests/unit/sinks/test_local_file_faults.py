"""LocalFileSink when a system call fails or the process dies: tried at every single call of a whole run.

The run writes over file borders, aborts a checkpoint, completes two. At call number k the disk fails once, or the
process dies (also half-way through a write). Whatever k is, in the end each row lies in a final file once.
"""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from edgesocket.components.sink import Sink, SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.testing.sink_story import Story, listed_block, received_block

CALLS = ("open", "write", "fsync", "ftruncate", "link", "unlink", "mkdir", "close")


class Died(BaseException):
    """The process is gone: nothing runs after this, not even an except clause for Exception."""


class Disk:
    """Counts the system calls that change something below `directory`, and makes one of them fail."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = str(directory)
        self.count = 0
        self.fail_at: int | None = None
        self.error: Callable[[], BaseException] = Died
        self.failed = ""
        for name in CALLS:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real):  # type: ignore[no-untyped-def]
        def call(target, *args, **kwargs):  # type: ignore[no-untyped-def]
            path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else os.fspath(target)
            if not str(path).startswith(self.directory):
                return real(target, *args, **kwargs)
            self.count += 1
            if self.count == self.fail_at:
                self.failed = name
                if name == "write":
                    real(target, args[0][: len(args[0]) // 2])
                if name == "close":
                    real(target)
                raise self.error()
            return None if name == "fsync" else real(target, *args, **kwargs)  # nothing here survives power loss anyway

        return call


class Harness:
    def __init__(self, path: Path, file_format: str = "json") -> None:
        self.path = path
        self.file_format = file_format

    def sink(self) -> Sink:
        return LocalFileSink(path=self.path, file_format_type=self.file_format, batch_size=4)

    def read(self) -> list[bytes]:
        if self.file_format == "parquet":
            tables = [pq.read_table(path) for path in sorted(self.path.glob("part-*"))]
            return [value.encode() for table in tables for value in table["value"].to_pylist()]
        rows = b"".join(path.read_bytes() for path in sorted(self.path.glob("part-*")))
        return [json.loads(line)["value"].encode() for line in rows.splitlines()]

    def staged(self) -> list[str]:
        return [path.name for path in (self.path / ".staged/contract.sink").iterdir()]


ROWS = [b"row %d" % n for n in range(23)]


def steps(story: Story) -> Iterator[Callable[[], None]]:
    """One run of the job, as calls that the engine may have to repeat."""
    yield lambda: story.sink.write(Rows.of_records(received_block(ROWS[:10])))
    yield lambda: story.sink.write(Rows.of_records(listed_block(ROWS[10:14])))
    yield lambda: story.prepare(1)  # aborted
    yield lambda: story.sink.write(Rows.of_records(listed_block(ROWS[14:17])))
    yield lambda: story.prepare(2)
    yield lambda: story.record(2)
    yield lambda: story.commit(2)
    yield lambda: story.sink.write(Rows.of_records(received_block(ROWS[17:])))
    yield lambda: story.prepare(3)
    yield lambda: story.record(3)
    yield lambda: story.commit(3)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path / "out", monkeypatch)


def calls_of_a_run(disk: Disk, harness: Harness) -> int:
    """How many system calls the run makes when nothing fails; the directories are there afterwards."""
    story = Story(harness)
    for step in steps(story):
        step()
    assert story.read() == ROWS
    return disk.count


def finish(story: Story, rows_known: list[bytes]) -> None:
    """After a restart: what no record covers is written again, and a checkpoint completes."""
    story.unrecorded = list(rows_known)
    story.restore()
    story.checkpoint(9)


@pytest.mark.parametrize("file_format", ["json", "parquet"])
def test_a_death_at_any_call_leaves_each_row_once(tmp_path: Path, disk: Disk, file_format: str) -> None:
    seen = set()
    for k in range(1, calls_of_a_run(disk, Harness(tmp_path / "out", file_format)) + 1):
        harness = Harness(tmp_path / "out" / str(k), file_format)
        disk.fail_at, disk.error, disk.count, disk.failed = k, Died, 0, ""
        done = 0
        try:
            story = Story(harness)
            for step in steps(story):
                step()
                done += 1
        except Died:
            seen.add(disk.failed)
            if done == 0:  # perhaps while the sink was opened
                story = Story(harness)
        assert disk.failed, "the run got shorter than the count promised"
        finish(story, ROWS[17:] if 6 <= done < 10 else [] if done >= 10 else ROWS)
        assert story.read() == ROWS, f"call {k}: {disk.failed} after step {done}"
        assert len(harness.staged()) == 1
        story.sink.close()
    assert seen == set(CALLS) - {"ftruncate"}


@pytest.mark.parametrize("file_format", ["json", "parquet"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_failure_of_any_call_is_named_and_leaves_each_row_once(
    tmp_path: Path, disk: Disk, code: int, file_format: str
) -> None:
    """The engine repeats the call; a sink that is unsure of the disk says so, and is opened again."""
    repeated = reopened = 0
    for k in range(1, calls_of_a_run(disk, Harness(tmp_path / "out", file_format)) + 1):
        harness = Harness(tmp_path / "out" / str(k), file_format)
        disk.fail_at, disk.error, disk.count = k, lambda: OSError(code, os.strerror(code)), 0
        try:
            story = Story(harness)
        except ComponentError as error:
            assert str(harness.path) in str(error)
            story = Story(harness)
        for done, step in enumerate(steps(story)):
            try:
                step()
                continue
            except ComponentError as error:
                assert str(harness.path) in str(error)
                assert os.strerror(code) in str(error)
                assert errno.errorcode[code] in str(error)
            try:
                step()
                repeated += 1
            except ComponentError as error:
                assert "must be opened again" in str(error)
                assert disk.failed in {"fsync", "close"}, f"{disk.failed} could have been repeated"
                reopened += 1
                story.sink.close()
                finish(story, ROWS[17:] if done >= 6 else ROWS)
                break
        assert story.read() == ROWS, f"call {k}: {disk.failed}"
        assert len(harness.staged()) == 1
        story.sink.close()
    assert repeated > 30
    assert reopened > 3


def test_a_failed_fsync_is_not_tried_again(tmp_path: Path, disk: Disk) -> None:
    """A second fsync may succeed although the pages that failed are gone from memory."""
    story = Story(Harness(tmp_path / "out"))
    story.write(b"a")
    disk.fail_at, disk.error = disk.count + 1, lambda: OSError(errno.EIO, "Input/output error")
    with pytest.raises(ComponentError, match=r"cannot sync .*1-0\.staged: Input/output error \(EIO\)"):
        story.prepare(1)
    for call in (lambda: story.prepare(1), lambda: story.write(b"b")):
        with pytest.raises(ComponentError, match="must be opened again"):
            call()


def test_a_write_that_cannot_be_taken_back_makes_the_sink_unsure(tmp_path: Path, disk: Disk) -> None:
    story = Story(Harness(tmp_path / "out"))
    story.write(b"a")
    calls = iter(range(disk.count + 1, disk.count + 3))

    def fail_twice() -> OSError:
        disk.fail_at = next(calls, None)
        return OSError(errno.EIO, "Input/output error")

    disk.fail_at, disk.error = next(calls), fail_twice
    with pytest.raises(ComponentError, match="cannot write"):
        story.write(b"b")
    assert disk.failed == "ftruncate"
    with pytest.raises(ComponentError, match="could not be taken back"):
        story.prepare(1)


def test_close_works_on_a_broken_disk(tmp_path: Path, disk: Disk) -> None:
    story = Story(Harness(tmp_path / "out"))
    story.write(b"a")
    disk.fail_at, disk.error = disk.count + 2, lambda: OSError(errno.EROFS, "Read-only file system")
    story.sink.close()
    assert disk.failed == "unlink"
    story.restore()
    story.checkpoint(1)
    assert story.read() == [b"a"]


def test_a_full_disk_takes_no_part_of_a_block(tmp_path: Path) -> None:
    """The kernel takes what fits and refuses the rest: the part is taken back, and the write can be repeated."""
    sink = LocalFileSink(path=tmp_path, file_format_type="text")
    sink.open(SinkContext(job="job", epoch=1, sink_id="sink"))
    block = Rows.of_records(received_block([b"x" * 99] * 1000))
    sink.write(block)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    try:
        with pytest.raises(ComponentError, match=r"1-0\.staged: File too large \(EFBIG\)"):
            sink.write(block)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / ".staged/job.sink/1-0.staged").stat().st_size == 100_000
    sink.write(block)
    assert sink.prepare(1)["files"][0]["rows"] == 2000
    sink.close()
