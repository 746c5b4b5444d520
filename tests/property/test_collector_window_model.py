"""Retention against a plain model, under any order of sends, replies, polls and lost connections; ids with gaps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edgesocket.collector.reactions import Reaction
from edgesocket.collector.retention import Retention
from edgesocket.collector.window import WindowLimits
from edgesocket.protocol.replies import (
    BAD_REQUEST,
    DECODE_FAILED,
    INVALID_PARAM,
    RECEIVED,
    RETRY,
    Reply,
    queue_full,
)

BATCHES, PAYLOAD_BYTES = 5, 40
FOR_GOOD = [DECODE_FAILED, BAD_REQUEST, INVALID_PARAM]


@dataclass
class ModelBatch:
    size: int
    state: str = "waiting"
    last: str = ""  # last reply since it last went out, on whatever connection


class WindowMachine(RuleBasedStateMachine):
    """`model` is a dict of what should be kept; `wire` the requests of this connection without a reply."""

    @initialize(commit=st.booleans())
    def begin(self, commit: bool) -> None:
        self.commit = commit
        self.window = Retention(WindowLimits(BATCHES, PAYLOAD_BYTES), commit=commit)
        self.model: dict[int, ModelBatch] = {}
        self.held: set[int] = set()  # refused for now, not received since
        self.wire: deque[int] = deque()
        self.next_id = 1
        self.now = 0.0
        self.connected = True

    def open_sizes(self) -> list[int]:
        return [batch.size for batch in self.model.values() if batch.state != "received"]

    def forget(self, batch_id: int) -> None:
        del self.model[batch_id]
        self.held.discard(batch_id)

    @rule(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=4), gap=st.integers(1, 3))
    def offer(self, sizes: list[int], gap: int) -> None:
        self.next_id += gap
        for size in sizes:
            self.model[self.next_id] = ModelBatch(size)
            self.window.counts.offered += 1
            self.next_id += 1

    @precondition(lambda self: self.connected)
    @rule(run=st.integers(1, 4))
    def send(self, run: int) -> None:
        """What may go, or the first `run` of it, as a source would find it."""
        want = self.window.wanted(self.now)
        waiting = sorted(batch_id for batch_id, batch in self.model.items() if batch.state == "waiting")
        if want is None:
            return
        found = [batch_id for batch_id in waiting if batch_id >= want.first_id]
        if not found:
            assert want.first_id >= self.window.cursor
            return
        first = found[0]
        self.window.missing(want.first_id, first - 1)
        want = self.window.wanted(self.now)
        if want is None or want.first_id != first:
            return
        assert first == waiting[0], "the lowest goes first"
        count = 1
        while count < min(run, want.batches) and first + count in waiting:
            count += 1
        size = sum(self.model[first + n].size for n in range(count))
        if not self.window.fits(size):
            return
        self.window.sent(first, count, size)
        for batch_id in range(first, first + count):
            assert not self.held or batch_id <= min(self.held), "nothing above a batch refused for now"
            self.model[batch_id].state = "in flight"
            self.model[batch_id].last = ""
            self.wire.append(batch_id)
        assert len(self.wire) <= BATCHES

    @precondition(lambda self: self.wire)
    @rule(reply=st.sampled_from([RECEIVED, RECEIVED, RECEIVED, queue_full(50), queue_full(0), RETRY, *FOR_GOOD]))
    def answer(self, reply: Reply) -> None:
        batch_id = self.wire.popleft()
        reaction = self.window.answered(batch_id, 1, reply, self.now)
        if reply in FOR_GOOD:
            assert reaction is Reaction.REFUSED
            self.forget(batch_id)
            return
        batch = self.model[batch_id]
        batch.last = str(reply)
        if reply is RECEIVED:
            batch.state = "received"
            self.held.discard(batch_id)
            if not self.commit:
                self.forget(batch_id)
        else:
            batch.state = "waiting"
            self.held.add(batch_id)

    @precondition(lambda self: self.commit)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        watermark = data.draw(st.integers(0, self.next_id + 1))
        gone = [
            batch_id for batch_id, batch in self.model.items() if batch_id <= watermark and batch.last == "RECEIVED"
        ]
        assert self.window.evict(watermark) == len(gone)
        for batch_id in gone:
            self.forget(batch_id)

    @precondition(lambda self: self.commit and self.model)
    @rule(data=st.data())
    def poll_says_send_again(self, data: st.DataObject) -> None:
        batch_id = data.draw(st.sampled_from(sorted(self.model)))
        batch = self.model[batch_id]
        assert self.window.send_again(batch_id) is (batch.state == "received")
        batch.last = "RESEND"
        if batch.state == "received":
            batch.state = "waiting"

    @rule()
    def lose_the_connection(self) -> None:
        self.window.connection_lost()
        self.wire.clear()
        self.connected = False
        for batch in self.model.values():
            if batch.state == "in flight":
                batch.state = "waiting"

    @precondition(lambda self: not self.connected)
    @rule()
    def reconnect(self) -> None:
        lowest = min((id_ for id_, batch in self.model.items() if batch.last == "RECEIVED"), default=None)
        assert self.window.lowest_unconfirmed == lowest
        self.window.send_all_again()
        self.connected = True
        for batch in self.model.values():
            batch.state = "waiting"

    @rule(seconds=st.sampled_from([0.01, 0.06, 15.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def everything_gets_through_in_the_end(self) -> None:
        """From any state: a healthy ingress receives all that is left, and then confirms it."""
        if not self.connected:
            self.reconnect()
        while self.wire:
            self.answer(RECEIVED)
        while any(batch.state == "waiting" for batch in self.model.values()):
            self.now += 15.0
            before = self.window.cursor
            self.send(4)
            assert self.wire or self.window.cursor > before, "stuck"
            while self.wire:
                self.answer(RECEIVED)
        assert self.window.unanswered == 0
        if self.commit:
            self.window.evict(self.next_id)
            self.model.clear()
            self.held.clear()
        assert self.window.left == 0
        assert self.window.in_flight == 0

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.window.left == len(self.model)
        assert self.window.unanswered == len(self.open_sizes())
        doubtful = {id_ for id_, batch in self.model.items() if id_ < self.window.cursor and batch.last != "RECEIVED"}
        assert doubtful <= {id_ for first, last in self.window.in_doubt() for id_ in range(first, last + 1)}
        received = [id_ for id_, batch in self.model.items() if batch.state == "received"]
        assert self.window.unconfirmed == len(received)
        target = self.window.poll_target()
        assert (target is None) is (not received)
        assert target is None or target in received


WindowMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestWindow = WindowMachine.TestCase
