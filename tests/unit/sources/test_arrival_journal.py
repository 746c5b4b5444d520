"""Notes of arrivals: down before a reply, kept while they cannot be written, and written once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgesocket.checkpoint.arrival_log import Event, EventKind
from edgesocket.errors import StoreError
from edgesocket.ingress.service import Burst, Note, NoteKind
from edgesocket.sources.arrival_journal import ArrivalJournal
from edgesocket.store import arrivals
from edgesocket.store.arrivals import ArrivalWriter, read_segments


class Disk:
    """Lets writes or syncs fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.broken = False
        self.syncs = 0
        write, sync = os.write, arrivals.sync_file

        def faulty_write(fd: int, data: bytes) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "no room")
            return write(fd, data)

        def faulty_sync(fd: int) -> None:
            if self.broken:
                raise OSError(errno.EIO, "broken")
            self.syncs += 1
            sync(fd)

        monkeypatch.setattr(os, "write", faulty_write)
        monkeypatch.setattr(arrivals, "sync_file", faulty_sync)


class Kit:
    """A journal on a directory, its clock and what it reported."""

    def __init__(self, directory: Path, disk: Disk, *, sync_each: bool = False) -> None:
        self.directory = directory
        self.disk = disk
        self.now = 100.0
        self.reports: list[str] = []
        self.journal = ArrivalJournal(
            ArrivalWriter(directory, 1, 1, 1000, clock=lambda: self.now),
            sync_each=sync_each,
            report=lambda event: self.reports.append(str(event)),
            clock=lambda: self.now,
        )
        self._sequence = 0

    def write(self, first: int, last: int, *, kind: NoteKind = NoteKind.ACCEPTED, must_sync: bool = False) -> None:
        self._sequence += 1
        self.journal.write(Burst(self._sequence, (Note(kind, first, last),), must_sync))

    def events(self) -> list[Event]:
        segments = read_segments(self.directory)
        assert not any(segment.damage or segment.torn for segment in segments)
        return [event for segment in segments for event in segment.events]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def kit(tmp_path: Path, disk: Disk) -> Kit:
    return Kit(tmp_path, disk)


def test_a_burst_is_in_the_file_when_write_returns(kit: Kit) -> None:
    kit.write(1, 5)
    kit.write(7, 7, kind=NoteKind.HELD)

    assert kit.events() == [Event(1, EventKind.ACCEPTED, 1, 5, 0), Event(2, EventKind.HELD, 7, 7, 0)]
    assert kit.journal.failing_since is None
    assert not kit.reports


def test_a_burst_that_cannot_be_written_waits_and_is_written_before_the_next(kit: Kit) -> None:
    kit.write(1, 1)
    kit.disk.full = True
    with pytest.raises(StoreError, match="no room"):
        kit.write(2, 2)
    assert kit.journal.failing_since == 100.0
    with pytest.raises(StoreError):
        kit.journal.catch_up()

    kit.disk.full = False
    kit.now = 107.0
    kit.write(3, 3)

    assert [event.lo for event in kit.events()] == [1, 2, 3]
    assert kit.journal.failing_since is None
    assert len(kit.reports) == 2, "when it begins, and when it ends"
    assert "no room" in kit.reports[0]
    assert "after 7 s" in kit.reports[1]


def test_it_catches_up_by_itself(kit: Kit) -> None:
    kit.disk.full = True
    with pytest.raises(StoreError):
        kit.write(1, 1)
    with pytest.raises(StoreError):
        kit.journal.sync_if_due(kit.now)
    kit.disk.full = False

    kit.journal.sync_if_due(kit.now)

    assert [event.lo for event in kit.events()] == [1]
    assert kit.journal.failing_since is None


def test_a_burst_that_was_written_and_not_synced_is_not_written_twice(kit: Kit) -> None:
    kit.disk.broken = True
    with pytest.raises(StoreError):
        kit.write(1, 1, must_sync=True)
    with pytest.raises(StoreError):
        kit.write(2, 2)
    kit.disk.broken = False
    syncs = kit.disk.syncs

    kit.journal.catch_up()

    assert [event.lo for event in kit.events()] == [1, 2]
    assert kit.disk.syncs > syncs, "what had to be synced is"


@pytest.mark.parametrize("sync_each", [True, False])
def test_every_burst_is_synced_if_that_is_asked_for(tmp_path: Path, disk: Disk, sync_each: bool) -> None:
    kit = Kit(tmp_path, disk, sync_each=sync_each)
    kit.write(1, 1)
    assert bool(disk.syncs) == sync_each


def test_a_sync_that_is_late_is_reported_once_and_stops_nothing(kit: Kit) -> None:
    kit.write(1, 1)
    kit.disk.broken = True
    for _ in range(3):
        kit.now += 2
        kit.journal.sync_if_due(kit.now)
    kit.write(2, 2)
    assert len(kit.reports) == 1
    kit.disk.broken = False
    kit.now += 2
    kit.journal.sync_if_due(kit.now)
    assert len(kit.reports) == 2


def test_a_clean_end_needs_everything_written(kit: Kit) -> None:
    kit.disk.full = True
    with pytest.raises(StoreError):
        kit.write(1, 1)
    with pytest.raises(StoreError):
        kit.journal.close(clean=True)


class Vital:
    """Keeps notes, or fails."""

    def __init__(self) -> None:
        self.away = False
        self.notes: list[tuple[int, int]] = []

    def keep(self, first_sequence: int, last_sequence: int, burst: bytes) -> None:
        if self.away:
            raise StoreError("away")
        self.notes.append((first_sequence, last_sequence))

    def kept(self) -> list[tuple[str, bytes]]:
        return []

    def forget_through(self, sequence: int) -> bool:
        return False


class TestVitalNotes:
    @pytest.fixture
    def vital(self) -> Vital:
        return Vital()

    def journal(self, tmp_path: Path, vital: Vital, *, sync_each: bool = False) -> ArrivalJournal:
        writer = ArrivalWriter(tmp_path / "apart", 1, 1, 1000)
        return ArrivalJournal(writer, sync_each=sync_each, report=lambda _: None, vital=vital)

    def burst(self, sequence: int, count: int, *, must_sync: bool) -> Burst:
        return Burst(sequence, tuple(Note(NoteKind.ACCEPTED, n, n) for n in range(1, count + 1)), must_sync)

    def test_only_what_must_be_synced_is_kept_elsewhere_too(self, tmp_path: Path, vital: Vital) -> None:
        journal = self.journal(tmp_path, vital)
        journal.write(self.burst(1, 1, must_sync=True))
        journal.write(self.burst(2, 3, must_sync=False))
        journal.write(self.burst(5, 2, must_sync=True))
        assert vital.notes == [(1, 1), (5, 6)]
        journal.close(clean=True)

    def test_every_burst_is_where_each_is_synced(self, tmp_path: Path, vital: Vital) -> None:
        journal = self.journal(tmp_path, vital, sync_each=True)
        journal.write(self.burst(1, 1, must_sync=False))
        assert vital.notes == [(1, 1)]
        journal.close(clean=True)

    def test_a_burst_that_could_not_be_kept_is_not_noted_until_it_is(self, tmp_path: Path, vital: Vital) -> None:
        journal = self.journal(tmp_path, vital)
        vital.away = True
        with pytest.raises(StoreError):
            journal.write(self.burst(1, 1, must_sync=True))
        assert journal.failing_since is not None
        with pytest.raises(StoreError):
            journal.catch_up()
        vital.away = False
        journal.catch_up()
        assert vital.notes == [(1, 1)]
        assert journal.failing_since is None
        journal.close(clean=True)
        [segment] = read_segments(tmp_path / "apart")
        assert len(segment.events) == 1, "and it is in the log once"
