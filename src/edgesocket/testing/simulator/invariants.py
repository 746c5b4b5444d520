"""What must hold after every step, whatever happened. See docs/simulation.md for the list in words."""

from __future__ import annotations

from heapq import heappop, heappush

from edgesocket.ids import IdRanges
from edgesocket.testing.sinks import ListStorage


class Violation(Exception):  # noqa: N818 - that is the word for it
    """An invariant does not hold.

    Attributes:
        invariant: its name, see docs/simulation.md.
        what: what was seen.
    """

    def __init__(self, invariant: str, what: str) -> None:
        self.invariant = invariant
        self.what = what
        super().__init__(f"{invariant}: {what}")


class Facts:
    """What really happened, kept beside the simulated job, by whoever saw it.

    Attributes:
        payloads: id -> payload of every batch that any collector made.
        refused: ids that were refused for good.
        settled: ids that the operator gave up.
        noted: ids of which the arrival log, or a checkpoint behind it, knows a record.
        duplicates_allowed: fingerprints were damaged, so a resend may be written twice.
    """

    def __init__(self, storages: list[ListStorage]) -> None:
        self.payloads: dict[int, bytes] = {}
        self.refused: set[int] = set()
        self.settled = IdRanges()
        self.noted = IdRanges()
        self.duplicates_allowed = False
        self._storages = storages
        self._seen = [0] * len(storages)
        self._times: list[dict[int, int]] = [{} for _ in storages]
        self._owed: set[int] = set()
        self._owed_heap: list[int] = []
        self._ever_owed: set[int] = set()
        self._highest_watermark = 0
        self._highest_ack = 0

    # ---- batches -------------------------------------------------------------------------------------------------

    def committed(self, batch_id: int) -> bool:
        """Whether every destination shows the batch."""
        return all(batch_id in times for times in self._times)

    @property
    def committed_count(self) -> int:
        """How many batches the first destination shows."""
        return len(self._times[0])

    def owe(self, batch_id: int) -> None:
        """A reply has left that leaves the batch with the ingress, or promises to take it later: no ACK may cover it
        before it is in every destination."""
        self._ever_owed.add(batch_id)
        if batch_id not in self._owed and not self.committed(batch_id):
            self._owed.add(batch_id)
            heappush(self._owed_heap, batch_id)

    def settle(self, first: int, last: int) -> None:
        """The operator gave up `first..last`."""
        self.settled.add(first, last)
        for batch_id in [id_ for id_ in self._owed if first <= id_ <= last]:
            self._owed.discard(batch_id)

    def refuse(self, batch_id: int) -> None:
        """DECODE_FAILED has left for the batch."""
        self.refused.add(batch_id)
        self._owed.discard(batch_id)

    def lowest_owed(self) -> int | None:
        """The lowest batch that is owed."""
        heap = self._owed_heap
        while heap and (heap[0] not in self._owed or self.committed(heap[0])):
            self._owed.discard(heappop(heap))
        return heap[0] if heap else None

    # ---- invariants ----------------------------------------------------------------------------------------------

    def ack_sent(self, watermark: int) -> None:
        """`ACK:<watermark>` goes to the network."""
        lowest = self.lowest_owed()
        if lowest is not None and lowest <= watermark:
            raise Violation("ack-covers-committed", f"ACK:{watermark} covers {lowest}, which is in no sink yet")
        self._highest_ack = max(self._highest_ack, watermark)

    def received_sent(self, batch_id: int) -> None:
        """RECEIVED for a batch goes to the network."""
        if batch_id not in self.noted:
            raise Violation("noted-before-answered", f"RECEIVED for {batch_id}, of which no log knows")
        self.owe(batch_id)

    def evicted(self, batch_id: int) -> None:
        """A collector has thrown a batch away."""
        if not self.committed(batch_id) and batch_id not in self.settled:
            raise Violation("evicted-is-committed", f"batch {batch_id} was thrown away and is in no sink")

    def watermark(self, watermark: int, *, of_owner: bool) -> None:
        """The owner's watermark is this now."""
        if of_owner and watermark < self._highest_watermark:
            raise Violation("watermark-never-falls", f"{watermark} after {self._highest_watermark}")
        self._highest_watermark = max(self._highest_watermark, watermark)

    def look_at_sinks(self) -> None:
        """Look at what the destinations show since the last look."""
        for number, storage in enumerate(self._storages):
            pairs, times = storage.pairs, self._times[number]
            for batch_id, payload in pairs[self._seen[number] :]:
                times[batch_id] = times.get(batch_id, 0) + 1
                if payload != self.payloads.get(batch_id):
                    raise Violation("payload-unchanged", f"batch {batch_id} is {payload!r} in the sink")
                if times[batch_id] > 1 and not (self.duplicates_allowed or batch_id in self.settled):
                    raise Violation("each-batch-once", f"batch {batch_id} is {times[batch_id]} times in a sink")
            self._seen[number] = len(pairs)

    def final(self) -> None:
        """Everything has come to rest: nothing at or below the highest ACK is missing."""
        for batch_id in sorted(self._ever_owed):
            given_up = batch_id in self.refused or batch_id in self.settled
            if batch_id <= self._highest_ack and not given_up and not self.committed(batch_id):
                raise Violation("nothing-acknowledged-missing", f"batch {batch_id} is below ACK:{self._highest_ack}")
