"""The send window against a plain model, under any order of sends, replies, polls and lost connections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edgesocket.collector.reactions import Reaction
from edgesocket.collector.window import ENTRY_OVERHEAD_BYTES, SendWindow, WindowLimits
from edgesocket.protocol.replies import (
    BAD_REQUEST,
    DECODE_FAILED,
    INVALID_PARAM,
    RECEIVED,
    RETRY,
    Reply,
    queue_full,
)

BATCHES, PAYLOAD_BYTES, RETAIN_BYTES = 5, 40, 3000
FOR_GOOD = [DECODE_FAILED, BAD_REQUEST, INVALID_PARAM]


@dataclass
class ModelBatch:
    size: int
    state: str = "waiting"
    last: str = ""  # last reply, on whatever connection


class WindowMachine(RuleBasedStateMachine):
    """`model` is a dict of what should be kept; `wire` the requests of this connection without a reply."""

    @initialize(commit=st.booleans())
    def begin(self, commit: bool) -> None:
        self.commit = commit
        self.window = SendWindow(WindowLimits(BATCHES, PAYLOAD_BYTES, RETAIN_BYTES), commit=commit)
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

    @rule(size=st.integers(0, 50), gap=st.integers(1, 3))
    def offer(self, size: int, gap: int) -> None:
        kept = sum(batch.size + ENTRY_OVERHEAD_BYTES for batch in self.model.values()) + size + ENTRY_OVERHEAD_BYTES
        opened = self.open_sizes()
        room = (not self.model or kept <= RETAIN_BYTES) and (
            not opened or (len(opened) < BATCHES and sum(opened) + size <= PAYLOAD_BYTES)
        )
        assert self.window.room_for(size) is room
        if room:
            self.next_id += gap
            self.window.offer(self.next_id, b"p" * size)
            self.model[self.next_id] = ModelBatch(size)

    @precondition(lambda self: self.connected)
    @rule()
    def send(self) -> None:
        sent = self.window.next_batch(self.now)
        waiting = [batch_id for batch_id, batch in self.model.items() if batch.state == "waiting"]
        if sent is None:
            return
        batch_id, payload = sent
        assert batch_id == min(waiting), "the lowest goes first"
        assert not self.held or batch_id <= min(self.held), "nothing above a batch refused for now"
        assert len(payload) == self.model[batch_id].size
        self.model[batch_id].state = "in flight"
        self.wire.append(batch_id)
        on_their_way = [self.model[id_].size for id_ in self.wire]
        assert len(on_their_way) <= BATCHES
        assert len(on_their_way) == 1 or sum(on_their_way) <= PAYLOAD_BYTES

    @precondition(lambda self: self.wire)
    @rule(reply=st.sampled_from([RECEIVED, RECEIVED, RECEIVED, queue_full(50), queue_full(0), RETRY, *FOR_GOOD]))
    def answer(self, reply: Reply) -> None:
        batch_id = self.wire.popleft()
        reaction = self.window.answered(batch_id, reply, self.now)
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
            batch_id
            for batch_id, batch in self.model.items()
            if batch_id <= watermark and batch.last == "RECEIVED" and batch.state != "in flight"
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
        assert self.window.lowest_unconfirmed() == lowest
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
            self.send()
            assert self.wire, "stuck"
            self.answer(RECEIVED)
        assert self.window.unanswered == 0
        if self.commit:
            self.window.evict(self.next_id)
            self.model.clear()
            self.held.clear()
        assert self.window.left == 0
        assert self.window.room_for(10_000)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.window.left == len(self.model)
        assert self.window.unanswered == len(self.open_sizes())
        received = [id_ for id_, batch in self.model.items() if batch.state == "received"]
        assert self.window.unconfirmed == len(received)
        target = self.window.poll_target()
        assert (target is None) is (not received)
        assert target is None or target in received


WindowMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestWindow = WindowMachine.TestCase
