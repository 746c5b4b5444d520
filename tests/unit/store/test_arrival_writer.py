"""Writing the arrival log: one write a burst, syncs when due, and what happens when the disk says no."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgesocket.checkpoint.arrival_log import Change, EventKind, encode_header
from edgesocket.errors import StoreError
from edgesocket.store import arrivals
from edgesocket.store.arrivals import ArrivalWriter, read_segments


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "arrivals"


@pytest.fixture
def syncs(monkeypatch):
    """Names of what was synced, in order; the sync itself still happens."""
    done = []
    sync_file, sync_directory = arrivals.sync_file, arrivals.sync_directory

    def file(fd):
        done.append("file")
        sync_file(fd)

    def names(path):
        done.append("names")
        sync_directory(path)

    monkeypatch.setattr(arrivals, "sync_file", file)
    monkeypatch.setattr(arrivals, "sync_directory", names)
    return done


def writer(directory, epoch=1, first=1, sync_ms=1000, **arguments):
    return ArrivalWriter(directory, epoch, first, sync_ms, **arguments)


def accept(log, *ids, sync=False):
    for id_ in ids:
        log.append(log.bursts.accepted(id_, id_), sync)


def ids(directory):
    return [event.lo for segment in read_segments(directory) for event in segment.events]


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def segment(epoch, first):
    return f"{epoch:020d}-{first:020d}.log"


def fail(*numbers, of, code=errno.ENOSPC):
    calls = iter(range(10**6))

    def call(*args):
        if next(calls) in numbers:
            raise OSError(code, os.strerror(code))
        return of(*args)

    return call


class TestAppend:
    def test_a_burst_can_be_read_as_soon_as_it_is_taken(self, directory):
        log = writer(directory, epoch=7, first=100)
        log.append(log.bursts.accepted(1, 5))
        log.append(log.bursts.burst([Change(EventKind.HELD, 6, 6), Change(EventKind.SETTLED, 7, 9)]))
        (found,) = read_segments(directory)
        assert (found.name, found.epoch, found.first_sequence) == (segment(7, 100), 7, 100)
        assert [event[1:4] for event in found.events] == [(1, 1, 5), (2, 6, 6), (3, 7, 9)]
        assert (found.torn, found.damage) == (False, "")
        log.close(clean=True)

    def test_a_burst_is_one_write(self, directory, monkeypatch):
        log = writer(directory)
        accept(log, 1)
        written = []
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: written.append(len(data)) or write(fd, data))
        log.append(log.bursts.burst([Change(EventKind.ACCEPTED, 2, 5), Change(EventKind.HELD, 6, 6)]))
        assert written == [8 + 8 + 2 * 17]
        log.close(clean=False)

    def test_nothing_is_no_write(self, directory):
        log = writer(directory)
        log.append(b"")
        assert names(directory) == []
        log.close(clean=True)

    def test_files_are_private(self, directory):
        log = writer(directory)
        accept(log, 1)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / segment(1, 1)).stat().st_mode) == 0o600
        log.close(clean=True)

    def test_a_write_in_pieces_is_finished(self, directory, monkeypatch):
        log = writer(directory)
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        accept(log, 1, 2)
        assert ids(directory) == [1, 2]
        log.close(clean=True)

    def test_it_passes_its_fault_points(self, directory):
        passed = []
        log = writer(directory, fault=passed.append)
        accept(log, 1)
        assert passed == [f"arrivals.{point} {segment(1, 1)}" for point in ("half-written", "written")]
        assert ids(directory) == [1]
        log.close(clean=True)


class TestSync:
    def test_nothing_is_due_before_something_was_written(self, directory, clock, syncs):
        log = writer(directory, clock=clock)
        assert log.sync_if_due(clock.now + 10**6) is False
        assert syncs == []
        log.close(clean=True)

    def test_it_is_due_sync_ms_after_the_first_unsynced_burst(self, directory, clock, syncs):
        log = writer(directory, clock=clock, sync_ms=1000)
        accept(log, 1)
        clock.now += 0.9
        accept(log, 2)
        assert log.sync_if_due(clock.now) is False
        clock.now += 0.1
        assert log.sync_if_due(clock.now) is True
        assert syncs == ["file", "names"]
        assert log.sync_if_due(clock.now + 10**6) is False
        accept(log, 3)
        assert log.sync_if_due(clock.now + 1.0) is True
        assert syncs == ["file", "names", "file"], "the name is durable already"
        log.close(clean=True)
        assert syncs == ["file", "names", "file"], "nothing was left to sync"

    def test_a_burst_may_ask_for_it(self, directory, syncs):
        log = writer(directory)
        accept(log, 1, sync=True)
        assert syncs == ["file", "names"]
        log.close(clean=True)

    def test_with_0_every_burst_is_synced(self, directory, syncs):
        log = writer(directory, sync_ms=0)
        accept(log, 1, 2)
        assert syncs == ["file", "names", "file"]
        log.close(clean=True)

    def test_a_clean_close_syncs_and_an_unclean_one_does_not(self, directory, syncs):
        log = writer(directory)
        accept(log, 1)
        log.close(clean=False)
        assert syncs == []
        log = writer(directory, epoch=2, first=2)
        accept(log, 2)
        log.close(clean=True)
        assert syncs == ["file", "names"]
        assert ids(directory) == [1, 2]

    def test_a_rotated_segment_is_still_synced(self, directory, syncs):
        log = writer(directory)
        accept(log, 1)
        log.rotate()
        accept(log, 2)
        log.sync()
        assert syncs == ["file", "names", "file", "names"]
        log.close(clean=True)

    def test_appends_do_not_wait_for_a_sync(self, directory, monkeypatch):
        log = writer(directory)
        accept(log, 1)
        syncing, go_on = threading.Event(), threading.Event()

        def slow(fd):
            syncing.set()
            assert go_on.wait(30)

        monkeypatch.setattr(arrivals, "sync_file", slow)
        thread = threading.Thread(target=log.sync)
        thread.start()
        assert syncing.wait(30)
        accept(log, 2)
        assert ids(directory) == [1, 2]
        go_on.set()
        thread.join()
        log.close(clean=True)


class TestFailingDisk:
    @pytest.mark.parametrize("cut", [0, 1, 20, 32])
    def test_a_burst_that_did_not_fit_leaves_nothing(self, directory, monkeypatch, cut):
        """The half of it that was written is cut off again; once there is room, all goes on in the same file."""
        log = writer(directory)
        accept(log, 1)

        def full(fd, data):
            os.write(fd, bytes(data)[:cut])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(arrivals, "write_all", full)
        with pytest.raises(StoreError, match="cannot be written: No space left on device"):
            accept(log, 2)
        monkeypatch.undo()
        assert ids(directory) == [1]
        accept(log, 3)
        assert ids(directory) == [1, 3]
        assert names(directory) == [segment(1, 1)]
        log.close(clean=True)
        assert ids(directory) == [1, 3]

    def test_a_half_record_that_cannot_be_cut_off_ends_its_segment(self, directory, monkeypatch):
        log = writer(directory)
        accept(log, 1)

        def full(fd, data):
            os.write(fd, bytes(data)[:20])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(arrivals, "write_all", full)
        monkeypatch.setattr(os, "ftruncate", fail(0, of=os.ftruncate, code=errno.EIO))
        with pytest.raises(StoreError):
            accept(log, 2)
        monkeypatch.undo()
        accept(log, 3, sync=True)
        assert ids(directory) == [1, 3]
        assert [found.torn for found in read_segments(directory)] == [True, False]
        assert names(directory) == [segment(1, 1), segment(1, 3)], "the number of the refused burst is not used again"
        log.close(clean=True)

    def test_a_segment_that_cannot_be_started_leaves_no_file(self, directory, monkeypatch):
        log = writer(directory)
        monkeypatch.setattr(arrivals, "write_all", fail(0, of=arrivals.write_all))
        with pytest.raises(StoreError, match="cannot be created"):
            accept(log, 1)
        assert names(directory) == []
        accept(log, 2)
        assert ids(directory) == [2]
        log.close(clean=True)

    @pytest.mark.parametrize("rotated", [False, True])
    def test_after_a_failed_sync_the_segment_is_written_anew(self, directory, monkeypatch, clock, rotated):
        """The kernel may have dropped the dirty pages; memory has them until a sync succeeds."""
        log = writer(directory, clock=clock)
        accept(log, 1, sync=True)
        accept(log, 2)
        if rotated:
            log.rotate()
            accept(log, 3)

        def lose_it(fd):
            os.ftruncate(fd, len(encode_header(1, 1)) + 33)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(arrivals, "sync_file", lose_it)
        with pytest.raises(StoreError, match="cannot be synced: Input/output error"):
            log.sync()
        assert ids(directory)[:1] == [1]
        clock.now += 5
        with pytest.raises(StoreError):
            log.sync_if_due(clock.now)
        monkeypatch.undo()
        clock.now += 5
        assert log.sync_if_due(clock.now) is True
        accept(log, 4)
        assert ids(directory) == ([1, 2, 3, 4] if rotated else [1, 2, 4])
        assert not [name for name in names(directory) if not name.endswith(".log") or name.startswith(".")]
        log.close(clean=True)
        assert all(not found.damage and not found.torn for found in read_segments(directory))

    def test_bursts_that_come_during_a_failing_sync_are_due_too(self, directory, monkeypatch, clock):
        log = writer(directory, clock=clock)
        accept(log, 1)

        def busy(fd):
            clock.now += 1
            accept(log, 2)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(arrivals, "sync_file", busy)
        monkeypatch.setattr(arrivals._OpenSegment, "rebuild", fail(0, of=None))
        with pytest.raises(StoreError):
            log.sync()
        monkeypatch.undo()
        assert log.sync_if_due(clock.now + 1) is True
        assert ids(directory) == [1, 2]
        log.close(clean=True)

    def test_one_failure_heals_at_once_when_the_new_file_can_be_synced(self, directory, monkeypatch):
        log = writer(directory)
        accept(log, 1)
        monkeypatch.setattr(arrivals, "sync_file", fail(0, of=arrivals.sync_file))
        log.sync()
        accept(log, 2)
        assert ids(directory) == [1, 2]
        log.close(clean=True)

    def test_it_does_not_keep_more_unsynced_than_it_may(self, directory, monkeypatch):
        monkeypatch.setattr(arrivals, "UNSYNCED_LIMIT_BYTES", 100)
        log = writer(directory)
        accept(log, 1, 2, 3)
        with pytest.raises(StoreError, match="syncs have failed for too long"):
            accept(log, 4)
        log.sync()
        accept(log, 5)
        log.close(clean=True)
        assert ids(directory) == [1, 2, 3, 5]

    def test_what_a_dead_process_was_writing_anew_is_removed(self, directory):
        directory.mkdir()
        (directory / f".rebuilt-{segment(1, 1)}").touch()
        log = writer(directory, epoch=2)
        assert names(directory) == []
        log.close(clean=True)

    def test_a_directory_that_cannot_be_used(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="cannot be used"):
            writer(tmp_path / "file" / "arrivals")


class TestSegments:
    def test_rotation_costs_nothing_until_the_next_burst(self, directory):
        log = writer(directory)
        log.rotate()
        accept(log, 1, 2)
        log.rotate()
        log.rotate()
        assert names(directory) == [segment(1, 1)]
        accept(log, 3)
        assert names(directory) == [segment(1, 1), segment(1, 3)]
        log.close(clean=True)

    def test_whole_segments_are_deleted_when_all_their_events_are_covered(self, directory):
        log = writer(directory)
        for id_ in (1, 2, 3, 4, 5, 6):
            accept(log, id_)
            if id_ % 2 == 0:
                log.rotate()
        assert log.delete_through(1) == []
        assert log.delete_through(2) == [segment(1, 1)]
        assert log.delete_through(3) == []
        assert log.delete_through(6) == [segment(1, 3), segment(1, 5)]
        accept(log, 7)
        assert ids(directory) == [7]
        log.close(clean=True)

    def test_the_segment_in_use_stays(self, directory):
        log = writer(directory)
        accept(log, 1)
        assert log.delete_through(100) == []
        accept(log, 2)
        assert ids(directory) == [1, 2]
        log.close(clean=True)

    def test_segments_of_earlier_epochs_go_and_of_later_ones_stay(self, directory):
        for epoch, first in ((1, 1), (2, 3), (9, 4)):
            log = writer(directory, epoch=epoch, first=first)
            accept(log, first)
            log.close(clean=True)
        log = writer(directory, epoch=5, first=4)
        accept(log, 4)
        assert log.delete_through(3) == [segment(1, 1), segment(2, 3)]
        assert names(directory) == [segment(5, 4), segment(9, 4)]
        log.close(clean=True)

    def test_a_deleted_segment_needs_no_sync(self, directory, syncs):
        log = writer(directory)
        accept(log, 1)
        log.rotate()
        log.delete_through(1)
        log.close(clean=True)
        assert syncs == []

    def test_a_directory_that_cannot_be_cleaned(self, directory):
        log = writer(directory)
        (directory / segment(1, 1)).mkdir()
        (directory / segment(1, 2)).touch()
        with pytest.raises(StoreError, match="cannot be cleaned"):
            log.delete_through(1)
        log.close(clean=True)


class TestReading:
    def test_no_directory_is_no_segments(self, directory):
        assert read_segments(directory) == []

    def test_they_come_in_order_and_other_files_are_passed_over(self, directory):
        for epoch, first in ((10, 50), (2, 9), (2, 30)):
            log = writer(directory, epoch=epoch, first=first)
            accept(log, first)
            log.close(clean=True)
        (directory / "README").touch()
        (directory / ".rebuilt-x").touch()
        assert [(found.epoch, found.first_sequence) for found in read_segments(directory)] == [
            (2, 9),
            (2, 30),
            (10, 50),
        ]

    def test_an_empty_file_keeps_what_its_name_says(self, directory):
        directory.mkdir()
        (directory / segment(3, 40)).touch()
        (found,) = read_segments(directory)
        assert (found.epoch, found.first_sequence, found.torn, found.damage) == (3, 40, True, "")

    def test_a_file_under_another_name_is_damage(self, directory):
        directory.mkdir()
        (directory / segment(3, 40)).write_bytes(encode_header(2, 40))
        (found,) = read_segments(directory)
        assert (found.epoch, found.first_sequence) == (3, 40)
        assert found.damage == f"was written as {segment(2, 40)}"

    def test_a_directory_in_place_of_a_segment_is_damage(self, directory):
        (directory / segment(3, 40)).mkdir(parents=True)
        (found,) = read_segments(directory)
        assert found.damage == "cannot be read: Is a directory"
        assert found.name == segment(3, 40)

    def test_a_directory_that_cannot_be_read(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="cannot be read"):
            read_segments(tmp_path / "file")


KILLED = """
import os, sys
from pathlib import Path
from edgesocket.store.arrivals import ArrivalWriter

left = int(sys.argv[3])

def fault(point):
    global left
    if point.startswith(sys.argv[2]):
        left -= 1
        if not left:
            os.kill(os.getpid(), 9)

log = ArrivalWriter(Path(sys.argv[1]), 1, 1, 1000, fault=fault)
for id_ in range(1, 10):
    log.append(log.bursts.accepted(id_, id_))
"""


@pytest.mark.parametrize(("point", "survive"), [("arrivals.half-written", 2), ("arrivals.written", 3)])
def test_kill_9_loses_only_the_burst_that_was_being_written(directory, point, survive):
    """What was answered is in the log although nothing was synced; what was not may be there in half."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(directory), point, "3"], check=False)
    assert killed.returncode == -9
    (found,) = read_segments(directory)
    assert [event.lo for event in found.events] == list(range(1, survive + 1))
    assert found.torn == (point == "arrivals.half-written")
    assert found.damage == ""


def test_make_durable_syncs_every_segment_and_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for epoch in (1, 2):
        writer = ArrivalWriter(tmp_path, epoch, epoch * 10, 1000)
        writer.append(writer.bursts.accepted(epoch, epoch))
        writer.close(clean=False)
    synced: list[str] = []
    monkeypatch.setattr(arrivals, "sync_file", lambda fd: synced.append(f"{os.fstat(fd).st_ino}"))
    monkeypatch.setattr(arrivals, "sync_directory", lambda directory: synced.append(directory.name))

    arrivals.make_durable(tmp_path)

    assert synced == [*(f"{path.stat().st_ino}" for path in sorted(tmp_path.glob("*.log"))), tmp_path.name]


def test_make_durable_of_a_directory_that_is_not_there_is_nothing_to_do(tmp_path: Path) -> None:
    arrivals.make_durable(tmp_path / "none")
