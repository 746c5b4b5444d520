"""A spool on a disk that is really full, and one with a large backlog."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.collector.spool.options import SpoolOptions
from tests.support.spool_kit import FIRST_ID, FailingFiles, abandon, open_spool, put, read_all, segments

TMPFS_BYTES = 1024 * 1024
UNMOUNT_LAZILY = 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mount"):
        pytest.skip("no mount(2) here")
    where = tmp_path / "disk"
    where.mkdir()
    if libc.mount(b"tmpfs", str(where).encode(), b"tmpfs", 0, f"size={TMPFS_BYTES}".encode()):
        pytest.skip(f"mounting a small tmpfs is not allowed: {os.strerror(ctypes.get_errno())}")
    try:
        yield where
    finally:
        libc.umount2(str(where).encode(), UNMOUNT_LAZILY)


@pytest.mark.parametrize("crash", [False, True])
def test_a_full_disk_goes_on_by_itself_when_there_is_space_again(small_disk: Path, crash: bool) -> None:
    options = SpoolOptions(max_bytes=16 * TMPFS_BYTES, segment_bytes=64 * 1024)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    spool = open_spool(small_disk / "spool", options)
    number = failures = 0
    while failures < 20:
        try:
            spool.append([b"%06d" % number + b"x" * 700] * 3, {"f": str(number)})
            spool.sync(0.0)
            number += 1
        except OSError as error:
            assert error.errno == errno.ENOSPC
            failures += 1
    assert number > 50
    if crash:
        abandon(spool)
        spool = open_spool(small_disk / "spool", options)
    assert spool.marks == {"f": str(number - 1)}
    # Reading, ids, dead letters' failure and removing work on the full disk.
    found = read_all(spool)
    assert [int(line[:6]) for line in found.values()] == [one for one in range(number) for _ in range(3)]
    ballast.unlink()
    for _ in range(60):
        put(spool, *[b"%06d" % number + b"x" * 700] * 3, f=str(number))
        number += 1
    assert [int(line[:6]) for line in read_all(spool).values()] == [one for one in range(number) for _ in range(3)]
    assert list(read_all(spool))[: len(found)] == list(found)
    assert spool.state().damaged_parts == 0
    spool.done(max(found) + 1)
    spool.close()


def test_done_makes_space_on_a_full_disk(small_disk: Path) -> None:
    options = SpoolOptions(max_bytes=16 * TMPFS_BYTES, segment_bytes=64 * 1024)
    spool = open_spool(small_disk / "spool", options)
    wanted = FIRST_ID
    for number in range(3000):
        while True:
            try:
                put(spool, b"%06d" % number + b"x" * 1500)
                break
            except OSError as error:
                assert error.errno == errno.ENOSPC
                run = spool.read(wanted, 200, 1 << 20)
                assert run is not None
                wanted = run.next_id
                spool.done(wanted)
    assert spool.state().damaged_parts == 0
    assert wanted > FIRST_ID + 2000
    rest = read_all(spool, wanted)
    assert list(rest) == list(range(wanted, FIRST_ID + 3000))
    assert int(rest[max(rest)][:6]) == 2999
    spool.close()


def backlog(directory: Path, count: int, records: int) -> SpoolOptions:
    """Segments of about the same size, with few or many records."""
    options = SpoolOptions(max_bytes=1024**3, segment_bytes=16384)
    spool = open_spool(directory, options)
    line = b"x" * (15_000 // records)
    for number in range(count):
        put(spool, *[line] * records, f=str(number))
    abandon(spool)
    assert len(segments(directory)) == count
    return options


def opened_in_s(directory: Path, options: SpoolOptions) -> float:
    best = 1e9
    for _ in range(3):
        began = time.perf_counter()
        spool = open_spool(directory, options)
        best = min(best, time.perf_counter() - began)
        spool.close()
    return best


@pytest.mark.slow
def test_the_start_does_not_depend_on_the_records_that_wait(tmp_path: Path) -> None:
    few = opened_in_s(tmp_path / "few", backlog(tmp_path / "few", 1000, 2))
    many = opened_in_s(tmp_path / "many", backlog(tmp_path / "many", 1000, 1000))
    small = opened_in_s(tmp_path / "small", backlog(tmp_path / "small", 10, 1000))
    assert many < 3 * few + 0.2  # a million records, or two thousand
    assert (many - small) / 990 < 0.002  # a name, a size and 44 bytes a segment


def test_the_start_reads_only_the_newest_segment(tmp_path: Path) -> None:
    class Counting(FailingFiles):
        read_bytes = 0

        def read(self, fd: int, offset: int, length: int) -> bytes:
            data = super().read(fd, offset, length)
            self.read_bytes += len(data)
            return data

    options = backlog(tmp_path, 100, 100)
    files = Counting()
    spool = open_spool(tmp_path, options, files=files)
    assert files.read_bytes <= 16384 + 100 * 44 + 100
    assert spool.state().records == 100 * 100
    assert spool.marks == {"f": "99"}
    spool.close()
