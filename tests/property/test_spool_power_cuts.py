"""Power cuts, failing syncs and full disks at any call, on a disk in memory that keeps no more than it must.

A feeder appends numbered records with a mark that says which number comes next, as an input does, and begins again at
the durable mark after each crash. A sender reads, and confirms some. Through all of it no number is lost, none comes
twice, and no id ever means two numbers.
"""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.collector.spool.files import Files
from edgesocket.collector.spool.options import FsyncPolicy, SpoolOptions, WhenFull
from edgesocket.collector.spool.spool import Spool
from edgesocket.errors import CollectorError, SpoolFullError

BLOCK = 64


class PowerCut(BaseException):
    """The machine is gone."""


class Inode:
    """A file: what programs see, what is on the disk, and which blocks still have to go there."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.disk = bytearray()
        self.dirty: set[int] = set()

    def write(self, offset: int, data: bytes) -> None:
        self.seen[len(self.seen) :] = bytes(max(0, offset + len(data) - len(self.seen)))
        self.seen[offset : offset + len(data)] = data
        self.dirty.update(range(offset // BLOCK, (offset + len(data) - 1) // BLOCK + 1) if data else ())

    def truncate(self, size: int) -> None:
        del self.seen[size:]
        self.dirty = {block for block in self.dirty if block * BLOCK < size}

    def flush(self, blocks: set[int], size: int) -> None:
        """Some blocks, and a length, get to the disk."""
        del self.disk[size:]
        self.disk[len(self.disk) :] = bytes(max(0, size - len(self.disk)))
        for block in blocks:
            start, end = block * BLOCK, min((block + 1) * BLOCK, size)
            if start < end:
                self.disk[start:end] = self.seen[start:end].ljust(end - start, b"\0")
        self.dirty -= blocks


class SimulatedDisk(Files):
    """Names and bytes that were not synced survive a power cut by chance only; a failed sync forgets what was dirty."""

    def __init__(self, choice: Random) -> None:
        self.choice = choice
        self.names_seen: dict[Path, Inode] = {}
        self.names_disk: dict[Path, Inode] = {}
        self.created: dict[Path, Inode] = {}
        self.pending: list[tuple[str, Path, Path | None]] = []
        self.open_files: dict[int, Inode] = {}
        self.next_fd = 1000
        self.calls_to_cut = -1
        self.full = False
        self.failing = 0.0

    def tick(self) -> None:
        self.calls_to_cut -= 1
        if self.calls_to_cut == 0:
            raise PowerCut

    def fail(self, number: int = errno.EIO) -> None:
        if self.choice.random() < self.failing:
            raise OSError(number, "injected")

    def cut(self) -> None:
        """What is left after a power cut."""
        self._apply(self.pending[: self.choice.randint(0, len(self.pending))])
        self.pending = []
        for inode in set(self.names_disk.values()) | set(self.names_seen.values()):
            chosen = {block for block in inode.dirty if self.choice.random() < 0.5}
            size = self.choice.choice((len(inode.disk), len(inode.seen)))
            inode.flush(chosen, size)
            inode.seen, inode.dirty = bytearray(inode.disk), set()
        self.names_seen = dict(self.names_disk)
        self.open_files.clear()
        self.calls_to_cut = -1

    def _apply(self, changes: list[tuple[str, Path, Path | None]]) -> None:
        for what, path, other in changes:
            if what == "create":
                self.names_disk[path] = self.created[path]
            elif what == "unlink":
                self.names_disk.pop(path, None)
            elif other is not None and path in self.names_disk:
                self.names_disk[other] = self.names_disk.pop(path)

    def make_directory(self, directory: Path) -> None:
        self.tick()

    def names(self, directory: Path) -> list[str]:
        return sorted(path.name for path in self.names_seen if path.parent == directory)

    def create(self, path: Path, *, append: bool = True) -> int:
        self.tick()
        self.fail()
        if path in self.names_seen:
            raise FileExistsError(errno.EEXIST, "it is there")
        inode = Inode()
        self.names_seen[path] = inode
        self.created[path] = inode
        self.pending.append(("create", path, None))
        return self._opened(inode)

    def open(self, path: Path, *, write: bool = False) -> int:
        self.tick()
        if path not in self.names_seen:
            raise FileNotFoundError(errno.ENOENT, "it is not there")
        return self._opened(self.names_seen[path])

    def _opened(self, inode: Inode) -> int:
        self.next_fd += 1
        self.open_files[self.next_fd] = inode
        return self.next_fd

    def close(self, fd: int) -> None:
        self.open_files.pop(fd, None)

    def size(self, path: Path) -> int:
        if path not in self.names_seen:
            raise FileNotFoundError(errno.ENOENT, "it is not there")
        return len(self.names_seen[path].seen)

    def write(self, fd: int, buffers: object) -> None:
        data = b"".join(buffers)  # type: ignore[call-overload]
        inode = self.open_files[fd]
        try:
            self.tick()
            if self.full:
                raise OSError(errno.ENOSPC, "no space")
            self.fail()
        except (OSError, PowerCut):
            inode.write(len(inode.seen), data[: self.choice.randint(0, len(data))])
            raise
        inode.write(len(inode.seen), data)

    def read(self, fd: int, offset: int, length: int) -> bytes:
        return bytes(self.open_files[fd].seen[offset : offset + length])

    def sync(self, fd: int) -> None:
        inode = self.open_files[fd]
        try:
            self.tick()
            self.fail()
        except OSError:
            inode.dirty = set()  # the kernel calls them clean
            raise
        inode.flush(set(inode.dirty), len(inode.seen))

    def sync_directory(self, directory: Path) -> None:
        self.tick()
        self.fail()
        mine = [change for change in self.pending if change[1].parent == directory]
        self._apply(mine)
        self.pending = [change for change in self.pending if change not in mine]

    def truncate(self, fd: int, size: int) -> None:
        self.tick()
        self.fail()
        self.open_files[fd].truncate(size)

    def rename(self, old: Path, new: Path) -> None:
        self.tick()
        self.fail()
        self.names_seen[new] = self.names_seen.pop(old)
        self.pending.append(("rename", old, new))

    def unlink(self, path: Path) -> None:
        self.tick()
        self.fail()
        if self.names_seen.pop(path, None) is not None:
            self.pending.append(("unlink", path, None))


class World:
    """Feeder, spool and sender, and what they know of each other."""

    def __init__(self, directory: Path, seed: int, policy: FsyncPolicy, when_full: WhenFull = WhenFull.BLOCK) -> None:
        self.choice = Random(seed)
        self.disk = SimulatedDisk(self.choice)
        self.directory = directory
        self.options = SpoolOptions(max_bytes=40_000, segment_bytes=4096, fsync=policy, when_full=when_full)
        self.drops = when_full is not WhenFull.BLOCK
        self.now_us = 1000
        self.ids: dict[int, int] = {}
        self.done_below_number = 0
        self.synced = 0
        self.notices: list[str] = []
        self.open()

    def open(self) -> None:
        self.now_us += 100_000
        self.disk.failing = 0.0
        self.spool = Spool.open(
            self.directory, self.options, self.now_us, files=self.disk, on_notice=self.notices.append
        )
        self.disk.failing = self.choice.choice((0.0, 0.0, 0.05, 0.3))
        self.number = int(self.spool.marks.get("next", "0"))
        self.appended = self.taken_to = self.number
        assert self.number >= self.synced, "something that was durable is lost"
        self.wanted = 1

    def power_cut(self) -> None:
        self.spool._lock.release()
        self.disk.cut()
        self.disk.full = False
        self.open()
        self.check()

    def check(self) -> None:
        """Everything that is not confirmed is there, once."""
        failing, self.disk.failing = self.disk.failing, 0.0
        found: list[int] = []
        at = 1
        while (run := self.spool.read(at, 50, 100_000)) is not None:
            self.take(run.first_id, run.payloads)
            found += [int(payload.split(b":")[0]) for payload in run.payloads]
            at = run.next_id
        if self.drops:
            assert found == sorted(set(found)), "something comes twice"
            assert not found or found[-1] < int(self.spool.marks["next"])
        elif found:
            assert found == list(range(found[0], found[0] + len(found)))
            assert found[-1] + 1 == int(self.spool.marks["next"])
            assert found[0] <= self.done_below_number
        else:
            assert self.done_below_number == int(self.spool.marks.get("next", "0"))
        self.disk.failing = failing

    def take(self, first_id: int, payloads: list[bytes]) -> None:
        for batch_id, payload in enumerate(payloads, first_id):
            number = int(payload.split(b":")[0])
            assert self.ids.setdefault(batch_id, number) == number, "an id means two records"

    def step(self) -> None:
        what = self.choice.random()
        if what < 0.45:
            count = self.choice.randint(0, 6)
            lines = [b"%d:" % (self.appended + one) + b"x" * self.choice.choice((0, 30, 900)) for one in range(count)]
            result = self.spool.append(lines, {"next": str(self.appended + count), f"m{self.appended % 3}": "x"})
            self.appended += count
            if result.taken:  # marks of what is dropped wait in memory for the next append
                self.taken_to = self.appended
        elif what < 0.7:
            if self.spool.sync(0.0):
                self.synced = self.taken_to
        elif what < 0.85:
            run = self.spool.read(self.wanted, self.choice.randint(1, 20), 5000)
            if run is not None:
                self.take(run.first_id, run.payloads)
                self.wanted = run.next_id
        elif what < 0.95:
            below = self.choice.randint(1, self.wanted)
            known = [number for batch_id, number in self.ids.items() if batch_id < below]
            self.done_below_number = max(self.done_below_number, max(known, default=-1) + 1)
            self.spool.done(below)
        elif what < 0.97:
            self.disk.full = not self.disk.full
        else:
            self.disk.calls_to_cut = self.choice.randint(1, 12)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            try:
                self.step()
            except PowerCut:
                self.power_cut()
            except SpoolFullError:
                self.disk.full = False
                self.done_below_number = max(
                    self.done_below_number, max((n for i, n in self.ids.items() if i < self.wanted), default=-1) + 1
                )
                try:
                    self.spool.done(self.wanted)
                except OSError:
                    pass
                except PowerCut:
                    self.power_cut()
            except (OSError, CollectorError) as problem:
                assert "injected" in str(problem) or "no space" in str(problem), problem
        self.disk.calls_to_cut = -1
        self.disk.full = False
        self.power_cut()


@pytest.mark.parametrize("policy", [FsyncPolicy.GROUP, FsyncPolicy.EACH, FsyncPolicy.INTERVAL])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_is_lost_and_no_id_means_two_things(policy: FsyncPolicy, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), seed, policy)
        try:
            world.run(150)
        finally:
            world.spool._lock.release()


@pytest.mark.parametrize("when_full", [WhenFull.DROP_OLDEST, WhenFull.DROP_NEWEST])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_dropping_takes_neither_marks_nor_ids_along(when_full: WhenFull, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), seed, FsyncPolicy.GROUP, when_full)
        try:
            world.run(200)
        finally:
            world.spool._lock.release()
