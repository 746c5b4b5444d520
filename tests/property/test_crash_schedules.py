"""Random crash schedules on the real engine, source and store, in one thread.

An eager collector deletes what is acknowledged and resends what is not; the job is killed at random fault points (any
effect of the checkpoint procedure, any moment of writing a file). Whatever happens, nothing at or below an ACK is
missing from the sink in the end, and with a deciding sink each batch is there once.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from edgesocket.testing.sinks import DecidingListSink, ListStorage
from tests.support.rig import Rig

STEPS = 60


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class Story:
    """One seed: a job, a collector, and what happens to them."""

    def __init__(self, directory: Path, seed: int, *, deciding: bool) -> None:
        self.random = random.Random(seed)
        self.rig = Rig(directory, ListStorage(), options={"local_queue_capacity": self.random.choice([3, 8, 100])})
        if deciding:
            self.rig.make_sink = lambda storage: DecidingListSink(storage, with_ids=True)
        self.rig.fault = self._fault
        self.kill_in = 0
        self.next_id = self.random.choice([1, 1000])
        self.step_of_ids = self.random.choice([1, 1, 7])
        self.acked = 0
        self.kept: dict[int, str] = {}
        self.offered: list[int] = []

    def _fault(self, point: str) -> None:
        if point.startswith("after ") and self.rig.incarnation is not None and self.random.random() < 0.3:
            self._poll()  # the collector does not wait for a checkpoint to end
        if self.kill_in:
            self.kill_in -= 1
            if not self.kill_in:
                raise Killed

    def run(self) -> None:
        self._start()
        for _ in range(STEPS):
            action = self.random.choices(
                [
                    self._send,
                    self._resend,
                    self._poll,
                    self._pump,
                    self._checkpoint,
                    self._arm,
                    self._crash,
                    self._again,
                ],
                [10, 2, 6, 5, 4, 2, 1, 1],
            )[0]
            try:
                action()
            except Killed:
                self._crash()
        self.kill_in = 0
        self._start()
        self._finish()

    def _start(self) -> None:
        self.rig.crash()
        while True:
            try:
                self.rig.start()
            except Killed:
                self.rig.crash()
                continue
            break
        try:
            self._catch_up()
        except Killed:
            self._start()

    def _catch_up(self) -> None:
        if self.kept:
            self._take(self.rig.poll(min(self.kept)))
        for batch_id in sorted(self.kept):
            if self._offer(batch_id) != "RECEIVED":
                break

    def _offer(self, batch_id: int) -> str:
        reply = self.rig.offer(batch_id, self.kept[batch_id])
        assert reply == "RECEIVED" or reply.startswith("QUEUE_FULL"), reply
        return reply

    def _send(self) -> None:
        if len(self.kept) < 30:
            batch_id = self.next_id
            self.next_id += self.step_of_ids
            self.kept[batch_id] = f"p{batch_id}"
            self.offered.append(batch_id)
            if self._offer(batch_id) != "RECEIVED":
                self._pump()
                self._catch_up()

    def _resend(self) -> None:
        if self.kept:
            self._offer(self.random.choice(sorted(self.kept)))

    def _poll(self) -> None:
        if self.offered:
            batch_id = self.random.choice(self.offered)
            reply = self.rig.poll(batch_id)
            if reply in ("RESEND", "RETRY") and batch_id in self.kept:
                self._offer(batch_id)
            assert batch_id in self.kept or reply.startswith(("ACK", "PENDING")), f"{batch_id} deleted, now {reply}"
            self._take(reply)

    def _take(self, reply: str) -> None:
        if reply.startswith("ACK:"):
            watermark = int(reply[4:])
            self.acked = max(self.acked, watermark)
            for batch_id in [b for b in self.kept if b <= watermark]:
                del self.kept[batch_id]

    def _pump(self) -> None:
        self.rig.pump()

    def _checkpoint(self) -> None:
        self.rig.checkpoint(force=self.random.random() < 0.5)

    def _arm(self) -> None:
        self.kill_in = self.random.randint(1, 40)

    def _crash(self) -> None:
        self._start()

    def _again(self) -> None:
        self.rig.reconnect()
        self._catch_up()

    def _finish(self) -> None:
        for _ in range(20):
            if not self.kept:
                break
            self._catch_up()
            self.rig.pump()
            self.rig.checkpoint()
            self._take(self.rig.poll(max(self.offered)))
        assert not self.kept, f"never confirmed: {sorted(self.kept)[:10]}"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("deciding", [False, True], ids=["staged", "deciding"])
def test_nothing_acknowledged_is_ever_missing(tmp_path: Path, seed: int, deciding: bool) -> None:
    story = Story(tmp_path, seed, deciding=deciding)
    story.run()

    written = [batch_id for batch_id, _ in story.rig.storage.pairs]
    assert set(story.offered) <= set(written)
    assert all(payload == f"p{batch_id}".encode() for batch_id, payload in story.rig.storage.pairs)
    if deciding:
        assert sorted(written) == sorted(set(written)), "each batch once"
