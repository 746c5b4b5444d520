"""The batches of a simulated collector: the real sender reads them here, and they stay until they are confirmed."""

from __future__ import annotations

from bisect import bisect_left

from edgesocket.collector.source import BatchRun
from edgesocket.protocol.replies import DECODE_FAILED, Reply
from edgesocket.testing.simulator.invariants import Facts, Violation


class SimulatedSpool:
    """A `BatchSource`. It outlives the collector's process; whoever throws a batch away is held to account.

    Attributes:
        kept: id -> payload, rising.
    """

    def __init__(self, facts: Facts) -> None:
        self.kept: dict[int, bytes] = {}
        self._facts = facts
        self._ids: list[int] = []
        self._text = ""

    def add(self, batch_id: int, payload: bytes) -> None:
        """A new batch."""
        self._facts.payloads[batch_id] = payload
        self.kept[batch_id] = payload
        self._ids.append(batch_id)

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        """See BatchSource."""
        ids = self._ids
        start = bisect_left(ids, at_least_id)
        if start == len(ids):
            return None
        first, size = ids[start], 0
        payloads: list[bytes] = []
        for batch_id in ids[start : start + most_batches]:
            payload = self.kept[batch_id]
            size += len(payload)
            if batch_id != first + len(payloads) or (payloads and size > most_bytes):
                break
            payloads.append(payload)
        return BatchRun(first, payloads)

    def refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        """See BatchSource."""
        if reply != DECODE_FAILED or payload != self._facts.payloads[batch_id] or not payload.startswith(b"\xff"):
            raise Violation("one-reply-a-request", f"batch {batch_id}, {payload!r}, was refused for good with {reply}")
        self._drop(batch_id)

    def done(self, below_id: int) -> None:
        """See BatchSource."""
        for batch_id in self._ids[: bisect_left(self._ids, below_id)]:
            self.confirmed(batch_id)

    def confirmed(self, batch_id: int) -> None:
        """A batch is thrown away because it is confirmed."""
        self._facts.evicted(batch_id)
        self._drop(batch_id)

    def recall(self) -> str:
        """See BatchSource."""
        return self._text

    def remember(self, text: str, durable: bool) -> None:  # noqa: ARG002 - BatchSource's; only the process dies here
        """See BatchSource."""
        self._text = text

    def _drop(self, batch_id: int) -> None:
        del self.kept[batch_id]
        del self._ids[bisect_left(self._ids, batch_id)]
