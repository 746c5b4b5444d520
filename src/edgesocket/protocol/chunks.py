"""Memory to receive into, and the whole lines that have arrived in it.

Bytes are received once and never moved again on the way to the sink: blocks point into the receive buffer. So a
buffer cannot be written again while anything refers to it; `BufferPool` asks CPython's reference counts for that. What
nothing refers to is used again at once, while it is still in the processor's cache.

Only the partial line at the end of a buffer is ever copied, into the next buffer. A line longer than a buffer gets
memory of its own, which the system hands out page by page as the line arrives; a line longer than `max_line_bytes` is
skipped to its LF and holds nothing.
"""

from __future__ import annotations

import mmap
import sys
from dataclasses import dataclass

import numpy as np

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.grammar import LF
from edgesocket.protocol.headers import HEADROOM, SLACK
from edgesocket.protocol.lines import OVERLONG, Overlong, exceeds
from edgesocket.records import Bytes

DEFAULT_BUFFER_BYTES = 2 * 1024 * 1024
"""How much is received at once at most: enough to make the fixed cost of a chunk small, and it fits into the cache."""

DEFAULT_KEPT_BUFFERS = 32
"""How many returned buffers a pool remembers; one still in use beyond that is left to its users."""

_LF_BYTE = bytes([LF])


@dataclass(slots=True, eq=False)
class Chunk:
    """Whole lines: `data[start:end]` ends with LF.

    There are `HEADROOM` readable bytes before `start` and `SLACK` after `end`.

    Attributes:
        data: the memory, shared with other chunks; bytes outside `start..end` may change.
        start: where the first line begins.
        end: one past the LF of the last line.
        memory: what `data` is a view of, where that can be searched with memchr.
    """

    data: Bytes
    start: int
    end: int
    memory: bytes | bytearray | None = None

    @classmethod
    def of(cls, lines: bytes) -> Chunk:
        """A chunk over a copy of `lines`, which end with LF."""
        memory = b"%b%b%b" % (bytes(HEADROOM), lines, bytes(SLACK))
        return cls(np.frombuffer(memory, dtype=np.uint8), HEADROOM, HEADROOM + len(lines), memory)


class Buffer:
    """Memory to receive into.

    Attributes:
        capacity: bytes that can be received, the room around them not counted.
        data: the memory as numpy array; everything that keeps bytes alive refers to this object.
        memory: the same where it can be searched with memchr, else None.
        view: the same memory for `recv_into`.
    """

    __slots__ = ("_bare_references", "capacity", "data", "memory", "view")

    def __init__(self, capacity: int, *, lazy: bool = False) -> None:
        """Get memory for `capacity` bytes.

        A bytearray can be searched with memchr. `lazy` memory comes straight from the system instead: pages that are
        never written cost nothing, and all of it goes back the moment that nothing refers to it. (An allocator may hand
        out memory of this size that was in use before, and then every page counts.)
        """
        self.capacity = capacity
        size = HEADROOM + capacity + SLACK
        self.memory = None if lazy else bytearray(size)
        owner = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if self.memory is None else self.memory
        self.data: Bytes = np.frombuffer(owner, dtype=np.uint8)
        self.view = memoryview(owner)
        self._bare_references = sys.getrefcount(self.data)

    @property
    def idle(self) -> bool:
        """Whether nothing outside this object refers to the memory: it may be written again."""
        return sys.getrefcount(self.data) == self._bare_references

    def find_lf(self, start: int, end: int) -> int:
        """Position of the first LF in `start..end-1`, or -1."""
        if self.memory is not None:
            return self.memory.find(_LF_BYTE, start, end)
        hits = self.data[start:end] == LF
        return start + int(hits.argmax()) if np.count_nonzero(hits) else -1

    def rfind_lf(self, start: int, end: int) -> int:
        """Position of the last LF in `start..end-1`, or -1."""
        if self.memory is not None:
            return self.memory.rfind(_LF_BYTE, start, end)
        hits = self.data[start:end] == LF
        return end - 1 - int(hits[::-1].argmax()) if np.count_nonzero(hits) else -1


class BufferPool:
    """Buffers of one size, used again when nothing refers to them any more.

    Not thread-safe: one pool a receiver thread. Other threads may drop their references whenever they like.
    """

    __slots__ = ("_kept", "_returned", "buffer_bytes")

    def __init__(self, buffer_bytes: int = DEFAULT_BUFFER_BYTES, kept_buffers: int = DEFAULT_KEPT_BUFFERS) -> None:
        self.buffer_bytes = buffer_bytes
        self._kept = kept_buffers
        self._returned: list[Buffer] = []

    def take(self) -> Buffer:
        """An idle buffer, the one used last first, or a new one."""
        returned = self._returned
        for index in range(len(returned) - 1, -1, -1):
            if returned[index].idle:
                return returned.pop(index)
        return Buffer(self.buffer_bytes)

    def give_back(self, buffer: Buffer) -> None:
        """The taker will not write to `buffer` again; blocks may still refer to it."""
        if buffer.capacity != self.buffer_bytes:
            return
        self._returned.append(buffer)
        if len(self._returned) > self._kept:
            del self._returned[0]


class LineReceiver:
    """Takes received bytes and hands on regions of whole lines.

    Guarantees: the lines do not depend on how the stream was cut; bytes handed on are not written again while anything
    refers to their chunk's `data`; holds one buffer, or up to `max_line_bytes` + 1 of one line; each byte is
    searched once.
    """

    __slots__ = ("_buffer", "_fill", "_max_line_bytes", "_pool", "_skipping", "_start")

    def __init__(self, pool: BufferPool, max_line_bytes: int) -> None:
        self._pool = pool
        self._max_line_bytes = max_line_bytes
        self._buffer = pool.take()
        self._start = HEADROOM  # of the line that is not complete yet
        self._fill = HEADROOM  # one past the last byte received
        self._skipping = False

    def writable(self) -> memoryview:
        """Memory to receive the next bytes into, never empty. Valid until the next call of any method."""
        self._make_room()
        return self._buffer.view[self._fill : HEADROOM + self._buffer.capacity]

    def received(self, byte_count: int) -> list[Chunk | Overlong]:
        """`byte_count` bytes have arrived in `writable()`; returns the whole lines they complete, in order."""
        begin, end = self._fill, self._fill + byte_count
        if end > HEADROOM + self._buffer.capacity:
            raise LocalProtocolError("more bytes were received than there was room for")
        done: list[Chunk | Overlong] = []
        if self._skipping:
            line_feed = self._buffer.find_lf(begin, end)
            if line_feed < 0:
                return done  # what was received is overwritten by what comes next
            self._skipping = False
            self._start = line_feed + 1
            done.append(OVERLONG)
        self._fill = end
        last = self._buffer.rfind_lf(max(begin, self._start), end)
        if last >= 0:
            done.append(Chunk(self._buffer.data, self._start, last + 1, self._buffer.memory))
            self._start = last + 1
        held = end - self._start
        if held and exceeds(held, self._buffer.view[end - 1], self._max_line_bytes):
            self._skipping = True
            self._fill = self._start
        return done

    def close(self) -> None:
        """Give the memory back; the receiver is not used again."""
        self._pool.give_back(self._buffer)
        self._start = self._fill = HEADROOM

    def _make_room(self) -> None:
        """Choose where the next bytes go: behind the last ones, at the front of this buffer, or into another one."""
        buffer, usual = self._buffer, self._pool.buffer_bytes
        held = self._fill - self._start
        room = HEADROOM + buffer.capacity - self._fill
        if buffer.capacity == usual or held >= usual:
            if room and self._start == HEADROOM:
                return  # nothing of this buffer was handed on yet
            idle = buffer.idle
            if room >= max(1, usual // 2) and (held or not idle):
                return  # small chunks share a buffer, so that each does not pin one of its own
            if idle and held < buffer.capacity:
                self._carry_over(buffer, held)
                return
        self._carry_over(self._pool.take() if held < usual else self._long_line_buffer(), held)
        self._pool.give_back(buffer)

    def _long_line_buffer(self) -> Buffer:
        return Buffer(self._max_line_bytes + len(b"\r\n"), lazy=True)

    def _carry_over(self, target: Buffer, held: int) -> None:
        """Move the partial line to the front of `target`."""
        if held:
            target.view[HEADROOM : HEADROOM + held] = self._buffer.view[self._start : self._fill]
        self._buffer = target
        self._start, self._fill = HEADROOM, HEADROOM + held
