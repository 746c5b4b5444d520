"""The byte cap, and what happens at it. And disks that fail: nothing is lost, nothing comes twice."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgesocket.collector.spool.options import AppendResult, FsyncPolicy, SpoolOptions, WhenFull
from edgesocket.collector.spool.spool import Spool
from edgesocket.errors import CollectorError, SpoolFullError
from tests.support.spool_kit import FIRST_ID, FailingFiles, NoticeList, abandon, open_spool, put, read_all, segments

CAP = 64 * 1024
LINE = b"x" * 500


def options(when_full: WhenFull, fsync: FsyncPolicy = FsyncPolicy.GROUP) -> SpoolOptions:
    return SpoolOptions(max_bytes=CAP, segment_bytes=8192, when_full=when_full, fsync=fsync)


def on_disk(directory: Path) -> int:
    return sum(path.stat().st_size for path in segments(directory))


def fill(spool: Spool, directory: Path, count: int) -> list[AppendResult]:
    results = []
    for number in range(count):
        results.append(spool.append([b"%04d" % number + LINE], {"f": str(number)}))
        spool.sync(0.0)
        assert on_disk(directory) <= CAP
        assert on_disk(directory) == spool.state().bytes
    return results


def numbers(found: dict[int, bytes]) -> list[int]:
    return [int(line[:4]) for line in found.values()]


def test_block_refuses_until_something_is_done(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.BLOCK))
    taken = 0
    with pytest.raises(SpoolFullError, match="full"):
        while True:
            spool.append([b"%04d" % taken + LINE], {"f": str(taken)})
            spool.sync(0.0)
            taken += 1
            assert on_disk(tmp_path) <= CAP
    assert on_disk(tmp_path) > CAP * 0.8
    assert spool.state().full_since_us
    assert numbers(read_all(spool)) == list(range(taken))
    with pytest.raises(SpoolFullError):
        spool.append([LINE], {})
    assert spool.marks == {"f": str(taken - 1)}
    spool.done(FIRST_ID + taken // 2)
    put(spool, b"%04d" % taken + LINE)
    assert spool.state().full_since_us is None
    assert numbers(read_all(spool, FIRST_ID + taken // 2)) == list(range(taken // 2, taken + 1))
    spool.close()
    assert on_disk(tmp_path) <= CAP


def test_a_spool_whose_records_are_all_done_takes_whatever_an_empty_one_takes(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.BLOCK))
    for number in range(6):
        size = 7000 if number % 2 else CAP - 2000
        put(spool, b"%04d" % number + b"x" * size)
        assert numbers(read_all(spool, FIRST_ID + number)) == [number]
        spool.done(FIRST_ID + number + 1)
    assert spool.state().dropped_newest_records == 0
    spool.close()


def test_room_is_what_can_be_appended(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.BLOCK))
    while (room := spool.room_bytes()) > 0:
        put(spool, *[b"y" * 99] * max(1, min(room, 3000) // 100))
    assert on_disk(tmp_path) <= CAP
    spool.close()


def test_an_append_that_does_not_fit_leaves_marks_alone_for_the_next_one(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.BLOCK))
    with pytest.raises(SpoolFullError):
        fill(spool, tmp_path, 10_000)
    for _ in range(2000):
        assert spool.append([], {"g": "x" * 40}) == AppendResult(0)
        spool.sync(0.0)
    assert on_disk(tmp_path) <= CAP
    read_all(spool)
    spool.done(FIRST_ID + 60)
    put(spool, b"0000")
    assert spool.marks["g"] == "x" * 40
    spool.close()


def test_drop_newest_drops_the_new_records_and_goes_on_with_their_marks(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.DROP_NEWEST))
    results = fill(spool, tmp_path, 300)
    taken = sum(result.taken for result in results)
    assert taken == results.index(AppendResult(0, 1))
    assert sum(result.dropped for result in results) == 300 - taken
    assert spool.state().dropped_newest_records == 300 - taken
    assert spool.state().full_since_us
    assert numbers(read_all(spool)) == list(range(taken))
    spool.done(FIRST_ID + taken)
    put(spool, b"0300" + LINE)
    assert spool.marks == {"f": "299"}
    spool.close()


def test_drop_oldest_drops_whole_segments_without_ids(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.DROP_OLDEST))
    results = fill(spool, tmp_path, 400)
    assert all(result.taken == 1 for result in results)
    dropped = sum(result.dropped for result in results)
    assert spool.state().dropped_oldest_records == dropped > 200
    found = read_all(spool)
    assert numbers(found) == list(range(dropped, 400))
    assert list(found) == list(range(FIRST_ID, FIRST_ID + 400 - dropped))
    assert spool.marks == {"f": "399"}
    spool.close()
    spool = open_spool(tmp_path, options(WhenFull.DROP_OLDEST))
    assert spool.marks == {"f": "399"}
    assert read_all(spool) == found
    spool.close()


def test_drop_oldest_never_drops_what_has_an_id(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, options(WhenFull.DROP_OLDEST))
    fill(spool, tmp_path, 50)
    first = read_all(spool)
    assert numbers(first) == list(range(50))
    fill(spool, tmp_path, 400)
    found = read_all(spool)
    assert {batch_id: found[batch_id] for batch_id in first} == first
    assert list(found) == list(range(FIRST_ID, FIRST_ID + len(found)))
    # All have ids now: only new ones can go.
    before = spool.state().dropped_newest_records
    assert spool.append([LINE] * 40, {"f": "last"}) == AppendResult(0, 40)
    assert spool.state().dropped_newest_records == before + 40
    assert read_all(spool) == found
    spool.close()


def test_drop_oldest_can_drop_the_segment_that_is_written_to(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SpoolOptions(max_bytes=CAP, segment_bytes=16384, when_full=WhenFull.DROP_OLDEST))
    for number in range(30):
        spool.append([b"%04d" % number, b"z" * 20_000], {"f": str(number)})
        assert on_disk(tmp_path) <= CAP
    spool.sync(0.0)
    assert numbers({0: next(iter(read_all(spool).values()))})[0] >= 26
    assert spool.marks == {"f": "29"}
    abandon(spool)
    spool = open_spool(tmp_path)
    assert spool.marks == {"f": "29"}
    spool.close()


@pytest.mark.parametrize("when_full", [WhenFull.DROP_OLDEST, WhenFull.DROP_NEWEST])
def test_a_record_that_can_never_fit_is_dropped_alone(tmp_path: Path, when_full: WhenFull) -> None:
    spool = open_spool(tmp_path, options(when_full))
    fill(spool, tmp_path, 20)
    assert spool.append([b"x" * CAP], {"f": "big"}) == AppendResult(0, 1)
    put(spool, b"0020")
    assert numbers(read_all(spool)) == list(range(21))
    assert spool.marks == {"f": "big"}
    spool.close()


@pytest.mark.parametrize("call", ["write", "create"])
@pytest.mark.parametrize("fsync", [FsyncPolicy.GROUP, FsyncPolicy.EACH, FsyncPolicy.NEVER])
def test_a_full_disk_leaves_the_spool_as_it_was(tmp_path: Path, call: str, fsync: FsyncPolicy) -> None:
    files = FailingFiles()
    files.error = errno.ENOSPC
    spool = open_spool(tmp_path, options(WhenFull.BLOCK, fsync), files=files)
    for number in range(60):
        if number % 7 == 0:
            files.fail[call] = 3
        while True:
            try:
                spool.append([b"%04d" % number + LINE], {"f": str(number)})
                break
            except OSError as error:
                assert error.errno == errno.ENOSPC
        if number % 5 == 0:
            try:
                spool.sync(0.0)
            except OSError:
                pass
        files.fail.clear()
    spool.sync(0.0)
    assert numbers(read_all(spool)) == list(range(60))
    assert spool.marks == {"f": "59"}
    abandon(spool)
    notices = NoticeList()
    spool = open_spool(tmp_path, options(WhenFull.BLOCK), on_notice=notices)
    assert numbers(read_all(spool)) == list(range(60))
    assert notices == []
    spool.close()


def test_a_write_whose_rest_cannot_be_cut_off_stops_the_spool_until_it_can(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    put(spool, b"0000")
    files.fail = {"write": 1, "truncate": 2}
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            spool.append([b"0001"], {})
    put(spool, b"0001")
    assert numbers(read_all(spool)) == [0, 1]
    spool.close()


class LosingFiles(FailingFiles):
    """After a sync that failed, what was written since the last good one is not on the disk, though it can be read."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.durable: dict[int, int] = {}
        self.bad: set[int] = set()

    def sync(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        try:
            super().sync(fd)
        except OSError:
            self.bad.add(inode)
            raise
        if inode not in self.bad:
            self.durable[inode] = os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        inode = os.fstat(fd).st_ino
        if size <= self.durable.get(inode, 0):
            self.bad.discard(inode)

    def lose_power(self) -> None:
        for path in segments(self.directory):
            size = self.durable.get(path.stat().st_ino, 0)
            data = path.read_bytes()
            path.write_bytes(data[:size] + bytes(max(0, len(data) - size)))


@pytest.mark.parametrize("fsync", [FsyncPolicy.GROUP, FsyncPolicy.EACH])
@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_failed_sync_is_never_trusted(tmp_path: Path, fsync: FsyncPolicy, failures: int) -> None:
    """What a failed sync may have lost is written again elsewhere: it is all there after a power cut, once."""
    files = LosingFiles(tmp_path)
    spool = open_spool(tmp_path, options(WhenFull.BLOCK, fsync), files=files)
    stored = -1
    for number in range(60):
        if number % 11 == 3:
            files.fail["sync"] = failures
        while True:
            try:
                spool.append([b"%04d" % number + LINE], {"f": str(number)})
                break
            except OSError:
                continue
        if number % 4 == 0:
            while True:
                try:
                    spool.sync(0.0)
                    break
                except OSError:
                    continue
            stored = number
            assert numbers(read_all(spool)) == list(range(number + 1))
    before = read_all(spool)
    abandon(spool)
    files.lose_power()
    spool = open_spool(tmp_path, options(WhenFull.BLOCK))
    found = read_all(spool)
    assert numbers(found)[: stored + 1] == list(range(stored + 1))
    assert len(numbers(found)) == len(set(numbers(found)))
    assert {batch_id: found[batch_id] for batch_id in before} == before
    assert int(spool.marks["f"]) == numbers(found)[-1]
    spool.close()


def test_a_sync_that_fails_for_good_says_so_and_close_too(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    spool.append([b"a"], {})
    files.fail["sync"] = 99
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            spool.sync(0.0)
    with pytest.raises(OSError, match="Input/output"):
        spool.close()
    open_spool(tmp_path).close()  # the lock is free all the same


def test_ids_that_cannot_be_made_durable_are_not_used(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    put(spool, b"a")
    for call in ("rename", "sync_directory", "sync_directory"):
        files.fail[call] = 1
        with pytest.raises(OSError, match="Input/output"):
            spool.read(0, 9, 99)
    assert read_all(spool) == {FIRST_ID: b"a"}
    spool.close()


def test_a_dead_letter_that_cannot_be_kept_is_put_again(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    put(spool, b"a", b"b")
    for call in ("write", "sync", "create", "sync_directory"):
        files.fail[call] = 1
        with pytest.raises(OSError, match="Input/output"):
            spool.refused(FIRST_ID, b"a", "DECODE_FAILED")
        assert spool.state().dead_letters == 0 or call == "sync"
    spool.refused(FIRST_ID, b"a", "DECODE_FAILED")
    assert spool.state().dead_letters == 1
    assert list(read_all(spool)) == [FIRST_ID + 1]
    spool.close()
    spool = open_spool(tmp_path)
    assert spool.state().dead_letters == 1
    spool.close()


def test_the_start_needs_no_space(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a", f="1")
    abandon(spool)
    with segments(tmp_path)[-1].open("ab") as file:
        file.write(b"torn")
    files = FailingFiles()
    files.error = errno.ENOSPC
    files.fail["write"] = files.fail["create"] = 100
    spool = open_spool(tmp_path, files=files)
    assert read_all(spool) == {FIRST_ID: b"a"}
    assert spool.marks == {"f": "1"}
    spool.done(FIRST_ID + 1)
    spool.close()


def test_a_start_on_a_disk_that_does_not_sync_says_so(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a")
    abandon(spool)
    files = FailingFiles()
    files.fail["sync"] = 1
    spool = open_spool(tmp_path, files=files)  # written anew
    assert read_all(spool) == {FIRST_ID: b"a"}
    abandon(spool)
    put_back = segments(tmp_path)[-1]
    put_back.write_bytes(put_back.read_bytes()[:-44])  # without its seal
    files.fail["sync"] = 99
    with pytest.raises(CollectorError, match="cannot be made durable"):
        open_spool(tmp_path, files=files)
    open_spool(tmp_path).close()
