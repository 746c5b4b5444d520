"""Watches what a collector sends: section 10 of the protocol, as far as it can be seen from outside."""

from __future__ import annotations

from edgesocket.protocol.collector_session import Answer, Asked
from edgesocket.protocol.replies import ReplyKind
from edgesocket.testing.simulator.invariants import Violation


class Manners:
    """One process of a collector, over all its connections."""

    def __init__(self) -> None:
        self._on_the_way: set[int] = set()
        self._first: set[int] = set()
        """Ids that have to go out again before any higher one: their reply was never read."""
        self._refused: set[int] = set()
        """Ids that were refused for now: nothing above them goes out until they are received."""

    def sends(self, first_id: int, count: int) -> None:
        """Batches go out."""
        for batch_id in range(first_id, first_id + count):
            lowest = min(self._refused, default=batch_id)
            if batch_id > lowest:
                raise Violation("nothing-above-refused", f"{batch_id} goes out although {lowest} was refused for now")
            lowest = min(self._first, default=batch_id)
            if batch_id > lowest:
                raise Violation("unanswered-go-first", f"{batch_id} goes out before {lowest}, whose reply was not read")
            self._first.discard(batch_id)
            self._on_the_way.add(batch_id)

    def reads(self, answer: Answer) -> None:
        """Replies were read."""
        request, reply = answer
        if request.asked is not Asked.RECEIPT or reply is None:
            return
        for batch_id in range(request.first_id, request.first_id + request.lines):
            self._on_the_way.discard(batch_id)
            if reply.kind in (ReplyKind.QUEUE_FULL, ReplyKind.RETRY):
                self._refused.add(batch_id)
            else:
                self._refused.discard(batch_id)

    def lost(self) -> None:
        """The connection is over."""
        self._first |= self._on_the_way
        self._on_the_way.clear()
