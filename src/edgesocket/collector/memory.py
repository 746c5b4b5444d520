"""Batches in memory, for a caller that has no spool: what `CollectorClient.send` puts into, and the sender reads."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from edgesocket.collector.source import BatchRun
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.replies import Reply

ENTRY_OVERHEAD_BYTES = 256
"""What keeping a batch costs beside its payload, at most; counted into `retain_bytes`."""

_RUN_BATCHES = 4096
"""A run is not made longer than this: the front of a longer one would be slow to throw away."""


class MemorySource:
    """A `BatchSource` that forgets everything with the process. Not thread-safe."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[list[bytes]] = []
        self._highest = 0
        self.count = 0
        """Batches that are kept."""
        self.payload_bytes = 0
        """Their payload bytes."""

    @property
    def kept_bytes(self) -> int:
        """What all of it costs."""
        return self.payload_bytes + self.count * ENTRY_OVERHEAD_BYTES

    def append(self, batch_id: int, payload: bytes) -> None:
        """Take on a batch.

        Raises:
            ValueError: the id is not above every id before, or beyond the largest there is.
        """
        if batch_id != self._highest + 1 or not self._runs or len(self._runs[-1]) >= _RUN_BATCHES:
            self._begin_run(batch_id)
        elif batch_id > MAX_BATCH_ID:
            raise _beyond(batch_id)
        self._runs[-1].append(payload)
        self._highest = batch_id
        self.count += 1
        self.payload_bytes += len(payload)

    def _begin_run(self, batch_id: int) -> None:
        if batch_id > MAX_BATCH_ID:
            raise _beyond(batch_id)
        if batch_id <= self._highest:
            raise ValueError(f"batch id {batch_id} does not rise: {self._highest} was offered before")
        self._firsts.append(batch_id)
        self._runs.append([])

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        """See `BatchSource.read`."""
        place = max(0, bisect_right(self._firsts, at_least_id) - 1)
        if place < len(self._runs) and at_least_id >= self._firsts[place] + len(self._runs[place]):
            place += 1
        if place >= len(self._runs):
            return None
        skip = max(0, at_least_id - self._firsts[place])
        payloads = self._runs[place][skip : skip + most_batches]
        sizes = list(map(len, payloads))
        if sum(sizes) > most_bytes:
            del payloads[max(1, bisect_right(list(accumulate(sizes)), most_bytes)) :]
        return BatchRun(self._firsts[place] + skip, payloads)

    def refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        """Whoever wants to keep it was told by the client."""

    def done(self, below_id: int) -> None:
        """See `BatchSource.done`."""
        whole = 0
        while whole < len(self._runs) and self._firsts[whole] + len(self._runs[whole]) <= below_id:
            self._drop(self._runs[whole])
            whole += 1
        del self._firsts[:whole], self._runs[:whole]
        if self._firsts and self._firsts[0] < below_id:
            cut = below_id - self._firsts[0]
            self._drop(self._runs[0][:cut])
            del self._runs[0][:cut]
            self._firsts[0] = below_id

    def _drop(self, payloads: list[bytes]) -> None:
        self.count -= len(payloads)
        self.payload_bytes -= sum(map(len, payloads))

    def recall(self) -> str:
        """Nothing outlives the process."""
        return ""

    def remember(self, text: str, durable: bool) -> None:
        """Nothing outlives the process."""


def _beyond(batch_id: int) -> ValueError:
    return ValueError(f"batch id {batch_id} is beyond the largest there is ({MAX_BATCH_ID})")
