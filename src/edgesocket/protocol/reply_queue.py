"""Replies owed to a collector, kept as runs.

A collector may write millions of lines before it reads a reply, and nearly all replies are the same word. So what is
owed is a list of (reply, how often), and the bytes are made only when the socket can take some. The socket may take
any number of them: a line can be half out.
"""

from __future__ import annotations

from collections import deque

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.replies import Reply

RUN_BYTES = 128
"""What one run costs in memory, rounded up."""

FULL_BYTES = 1024 * 1024
"""Reading pauses while the runs take this much memory."""


class _Run:
    __slots__ = ("count", "reply", "wire")

    def __init__(self, reply: Reply, count: int) -> None:
        self.reply = reply
        self.wire = reply.encode()
        self.count = count


class ReplyQueue:
    """Replies owed, in order. Not thread-safe.

    Guarantees: a million equal replies in a row take the memory of one; every byte is handed out exactly once.
    """

    __slots__ = ("_runs", "_taken")

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()
        self._taken = 0  # bytes of the first line that are out already

    def add(self, reply: Reply, count: int = 1) -> None:
        """Owe `reply` `count` times more, after everything owed so far."""
        if count <= 0:
            return
        last = self._runs[-1] if self._runs else None
        if last is not None and (last.reply is reply or last.reply == reply):
            last.count += count
        else:
            self._runs.append(_Run(reply, count))

    def __bool__(self) -> bool:
        """Whether any byte is owed."""
        return bool(self._runs)

    @property
    def run_count(self) -> int:
        """How many runs of equal replies are owed."""
        return len(self._runs)

    @property
    def full(self) -> bool:
        """Whether so many runs are owed that no further request should be read."""
        return len(self._runs) * RUN_BYTES >= FULL_BYTES

    def peek(self, max_bytes: int) -> bytes:
        """The next bytes to send, at most `max_bytes`; nothing changes until `consumed` is called."""
        pieces: list[bytes] = []
        wanted = max_bytes + self._taken
        for run in self._runs:
            if wanted <= 0:
                break
            lines = min(run.count, -(-wanted // len(run.wire)))
            pieces.append(run.wire * lines)
            wanted -= len(run.wire) * lines
        return b"".join(pieces)[self._taken : self._taken + max_bytes]

    def consumed(self, byte_count: int) -> None:
        """The first `byte_count` bytes owed are out.

        Raises:
            LocalProtocolError: more bytes than were owed.
        """
        out = byte_count + self._taken
        while self._runs:
            run = self._runs[0]
            lines, part = divmod(out, len(run.wire))
            if lines < run.count:
                run.count -= lines
                self._taken = part
                return
            out -= len(run.wire) * run.count
            self._runs.popleft()
        self._taken = 0
        if out:
            raise LocalProtocolError(f"{out} bytes more were sent than were owed")
