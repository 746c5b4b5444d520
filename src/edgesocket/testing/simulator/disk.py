"""A disk that forgets what was not synced, tears what was half written, and fails when it is told to.

What processes see (`names`, an inode's `data`) and what a power cut leaves are two things. A name or its removal
becomes durable when its directory is synced, bytes when their file is. A sync that fails may have lost the bytes for
good, although the next one succeeds: the kernel reports a lost write once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

from edgesocket.testing.memory_store import SimulatedCrash
from edgesocket.testing.simulator.inodes import Inode, Trouble


class Disk:
    """See the module's text.

    Attributes:
        names: path -> inode, as processes see it.
        slow_s: how long an operation of a store takes at most, beyond the usual.
        crash_in: so many calls from now the caller dies; 0 for never.
        on_crash: told when that happens.
        dying: the process whose call it was is dead, and nothing it still tries happens.

    Args:
        random: the seed's choices.
        now: the loop's clock.
        host: name of the host whose process is running.
        keep: how likely an unsynced change reaches the disk by itself, 0..1.
    """

    def __init__(self, random: Random, now: Callable[[], float], host: Callable[[], str], keep: float) -> None:
        self.names: dict[str, Inode] = {}
        self.directories: set[str] = {"/", ""}
        self.slow_s = 0.0
        self.crash_in = 0
        self.on_crash: Callable[[], None] = lambda: None
        self.troubles: list[Trouble] = []
        self.dying = False
        self._host = host
        self._random = random
        self._now = now
        self._keep = keep
        self._durable: dict[str, Inode] = {}
        self._changed: dict[str, str] = {}
        """Names whose last change is not synced, in order, and the host it was made on."""
        self._descriptors: dict[int, Inode | str] = {}
        self._next_descriptor = 3

    # ---- trouble -------------------------------------------------------------------------------------------------

    def call(self, kind: str, path: str = "") -> None:
        """Every operation passes here first: it may fail, or the process may die."""
        if self.dying:
            raise SimulatedCrash(f"{kind} {path}")
        if self.crash_in:
            self.crash_in -= 1
            if not self.crash_in:
                self.dying = True
                self.on_crash()
                raise SimulatedCrash(f"{kind} {path}")
        for trouble in self.troubles:
            if kind in trouble.calls and trouble.left > 0 and self._now() < trouble.until:
                trouble.left -= 1
                raise OSError(trouble.code, os.strerror(trouble.code), path)

    def lose_power(self, host: str) -> None:
        """A machine goes down: each change that it has not synced is kept or lost, by itself."""
        for name in [name for name, changed_on in self._changed.items() if changed_on == host]:
            del self._changed[name]
            if self._random.random() < self._keep:
                self._make_durable(name)
            elif name in self._durable:
                self.names[name] = self._durable[name]
            else:
                self.names.pop(name, None)
        for inode in dict.fromkeys(self.names.values()):
            if inode.host == host:
                self._tear(inode)

    def _tear(self, inode: Inode) -> None:
        tail = len(inode.data) - inode.durable
        if tail > 0 and self._random.random() >= self._keep:
            kept = inode.durable + self._random.choice((0, 0, self._random.randint(0, tail)))
            zeros = self._random.choice((0, 0, len(inode.data) - kept))
            inode.data[kept:] = bytes(zeros)
        for start, end in inode.lost:
            end = min(end, len(inode.data))
            if start < end:
                inode.data[start:end] = bytes(end - start)
        inode.lost.clear()
        inode.durable = len(inode.data)

    # ---- files ---------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int) -> int:
        """Open a file or directory as os.open does."""
        self.call("open", path)
        if flags & os.O_DIRECTORY or path in self.directories:
            if path not in self.directories:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            return self._descriptor(path)
        inode = self.names.get(path)
        if inode is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = Inode()
            self._name(path, inode)
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "there already", path)
        return self._descriptor(inode)

    def close(self, descriptor: int) -> None:
        """Close; never fails, and a dead process has closed everything."""
        self._descriptors.pop(descriptor, None)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Append. A failing or dying write may have written a part."""
        inode = self._inode(descriptor)
        try:
            self.call("write")
        except BaseException:
            inode.data += data[: self._random.choice((0, self._random.randint(0, len(data))))]
            raise
        inode.data += data
        inode.host = self._host()
        return len(data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut back to `size` bytes."""
        self.call("truncate")
        inode = self._inode(descriptor)
        del inode.data[size:]
        inode.durable = min(inode.durable, size)

    def sync(self, descriptor: int) -> None:
        """fsync of a file or a directory."""
        target = self._descriptors[descriptor]
        try:
            self.call("fsync")
        except OSError:
            if isinstance(target, Inode) and self._random.random() < 0.5:
                target.lost.append((target.durable, len(target.data)))
                target.durable = len(target.data)
            raise
        if isinstance(target, Inode):
            target.durable = len(target.data)
        else:
            for name in [name for name in self._changed if directory_of(name) == target]:
                self._make_durable(name)
                del self._changed[name]

    def link(self, path: str, target: str) -> None:
        """Give `target`'s file a second name. It may happen although it fails, as on a network file system."""
        try:
            self.call("link", path)
        except OSError:
            if path not in self.names and self._random.random() < 0.5:
                self._name(path, self.names[target])
            raise
        if path in self.names:
            raise FileExistsError(errno.EEXIST, "there already", path)
        self._name(path, self.names[target])

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self.call("unlink", path)
        inode = self.names.pop(path, None)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        inode.links -= 1
        self._changed[path] = self._host()

    def rename(self, path: str, target: str) -> None:
        """Move a file to another name, replacing what is there."""
        self.call("rename", path)
        inode = self.names.pop(path)
        inode.links -= 1
        self._changed[path] = self._host()
        self._name(target, inode)

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        self.call("read", path)
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self.names[path].data)

    def list(self, directory: str) -> list[str]:
        """Names in a directory, in no particular order (here: as they were made)."""
        self.call("list", directory)
        if directory not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return [name.rpartition("/")[2] for name in self.names if directory_of(name) == directory]

    def _name(self, path: str, inode: Inode) -> None:
        self.names[path] = inode
        inode.links += 1
        self._changed[path] = self._host()

    def _make_durable(self, name: str) -> None:
        if name in self.names:
            self._durable[name] = self.names[name]
        else:
            self._durable.pop(name, None)

    def _descriptor(self, target: Inode | str) -> int:
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = target
        return self._next_descriptor

    def _inode(self, descriptor: int) -> Inode:
        inode = self._descriptors[descriptor]
        assert isinstance(inode, Inode)
        return inode


def directory_of(path: str) -> str:
    """The directory that a path lies in."""
    return path.rpartition("/")[0]
