"""Lines out of a pipe, for the inputs that have one: read when it is readable, flushed when it falls silent."""

from __future__ import annotations

import os
import select

from edgesocket.collector.intake.framing import Framer, FramingCounts, FramingOptions

READ_BYTES = 64 * 1024


class PipeLines:
    """The records of one pipe, terminal or file. Never blocks as long as it is read only when it is readable.

    The descriptor is not made non-blocking: others may share it, such as the terminal of a shell. What is asked for is
    one piece, of which a read returns what is there.
    """

    def __init__(self, descriptor: int, options: FramingOptions, counts: FramingCounts) -> None:
        """Args: the descriptor (not closed here), how bytes become records, what to count in."""
        self.descriptor = descriptor
        self._framer = Framer(options, counts=counts)
        self._idle_flush_s = options.idle_flush_s
        self._flush_at: float | None = None
        self.bytes_read = 0
        """Total."""
        self.ended = False
        """Whether the other end is closed and everything was returned."""

    @property
    def next_time(self) -> float | None:
        """When `read` has something to do although nothing came."""
        return self._flush_at

    def read(self, budget_bytes: int, now: float, *, readable: bool) -> list[bytes]:
        """Records that are complete now."""
        records: list[bytes] = []
        if readable and not self.ended:
            data = self._read(max(1, min(budget_bytes, READ_BYTES)))
            if not data:
                self.ended = True
                self._flush_at = None
                return self._framer.flush(final=True)
            self.bytes_read += len(data)
            records = self._framer.feed(data)
            waits = self._framer.pending_bytes > 0 and self._idle_flush_s is not None
            self._flush_at = now + (self._idle_flush_s or 0.0) if waits else None
        elif self._flush_at is not None and now >= self._flush_at:
            self._flush_at = None
            records = self._framer.flush()
        return records

    def read_all(self, budget_bytes: int, now: float) -> list[bytes]:
        """Records of what is there, of about so many bytes at most."""
        records: list[bytes] = []
        until = self.bytes_read + budget_bytes
        while self.bytes_read < until and not self.ended:
            readable = is_readable(self.descriptor)
            records += self.read(until - self.bytes_read, now, readable=readable)
            if not readable:
                break
        return records

    def finish(self) -> list[bytes]:
        """Nothing more is read: what is not complete."""
        self.ended = True
        self._flush_at = None
        return self._framer.flush(final=True)

    def _read(self, size: int) -> bytes:
        try:
            return os.read(self.descriptor, size)
        except BlockingIOError:
            return b""  # somebody else made it non-blocking, and took what was there
        except OSError:
            return b""


def is_readable(descriptor: int) -> bool:
    """Whether a read would not wait: there is something, or the end."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))
