"""What was appended last, still in memory: a sender that keeps up needs no look into the file.

While the sender follows, the text of its batch lines is written here already, when the records are still in the
processor's cache. Only a short cut: what is not here any more, or is wanted a second time, is read from its file.
Durability is not its matter: the reader takes an append only from the part of a segment that may be read.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from edgesocket.collector.spool.shelf import Segment
from edgesocket.protocol.collector_session import write_ahead
from edgesocket.protocol.ended_lines import EndedLines

RECENT_BYTES = 8 * 1024 * 1024
"""About so much is kept: what is not durable yet, and what the sender has not come to."""
RECORD_COST_BYTES = 64
"""What keeping a record costs beside its bytes."""
BATCH_HEAD_BYTES = 32
"""What a record gets before it in the batch lines, at most."""


class RecentAppend(NamedTuple):
    """An append in memory: where its frames are in their segment, the ordinal of its first record, its records.

    `cost`: bytes of memory, about.
    """

    segment: Segment
    offset: int
    end: int
    ordinal: int
    lines: Sequence[bytes]
    cost: int


class Recent:
    """See the module's text. One thread puts and forgets, one takes."""

    def __init__(self, most_bytes: int = RECENT_BYTES) -> None:
        """Args: how much is kept."""
        self._appends: deque[RecentAppend] = deque()
        self._most_bytes = most_bytes
        self._bytes = 0
        self._changed = threading.Condition()
        self._taken = 0
        self._reader_stands = False
        self._reader_follows = False

    def put(
        self, segment: Segment, offset: int, ordinal: int, lines: Sequence[bytes], first_id: int | None = None
    ) -> None:
        """An append was written behind all others, up to the end of a segment. Its lines must not change any more.

        Args:
            segment: where it was written.
            offset: where it begins there.
            ordinal: of its first record.
            lines: its records.
            first_id: the id that its first record has or will probably have, if that is known.
        """
        cost = segment.size - offset + len(lines) * RECORD_COST_BYTES
        if first_id is not None and self._reader_follows and isinstance(lines, EndedLines) and lines:
            write_ahead(first_id, lines)
            cost = 2 * (segment.size - offset) + len(lines) * BATCH_HEAD_BYTES
        with self._changed:
            self._appends.append(RecentAppend(segment, offset, segment.size, ordinal, lines, cost))
            self._bytes += cost
            while self._bytes > self._most_bytes:
                self._reader_follows = False
                self._drop_first()

    def take(self, segment: Segment, offset: int, limit: int) -> RecentAppend | None:
        """The append that begins there and ends at or below the limit; None: look into the file.

        What lies before that place is dropped: it has been passed by.
        """
        with self._changed:
            while self._appends:
                first = self._appends[0]
                if first.segment is segment:
                    if first.offset > offset or first.end > limit:
                        return None
                    if first.offset == offset:
                        self._taken += 1
                        self._reader_stands = False
                        self._reader_follows = True
                        self._drop_first()
                        self._changed.notify()
                        return first
                elif first.segment.name.number > segment.name.number:
                    return None
                self._drop_first()
            return None

    def forget(self, segment: Segment, above: int) -> None:
        """A segment was cut to so many bytes."""
        with self._changed:
            while self._appends and self._appends[-1].segment is segment and self._appends[-1].end > above:
                self._bytes -= self._appends.pop().cost

    def let_reader_come(self, timeout_s: float) -> None:
        """Wait until the reader has taken so much that more than half is free, as long as it takes anything at all."""
        with self._changed:
            until = time.monotonic() + timeout_s
            taken = self._taken
            while self._bytes > self._most_bytes // 2 and not self._reader_stands:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    self._reader_stands = self._taken == taken
                    return
                self._changed.wait(left_s)

    def _drop_first(self) -> None:
        self._bytes -= self._appends.popleft().cost
