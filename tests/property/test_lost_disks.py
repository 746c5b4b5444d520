"""Random stays of a job on machines whose disks come and go, its state being elsewhere; the real engine and source.

A collector that trusts every ACK sends ids in order, with gaps, late ones, corrected ones and repeated ones. The job
is killed, moves on to a fresh disk, comes back to an old one, loses power, or stops gracefully and goes on elsewhere.
Whatever happens: when a reply says ACK:n, every batch up to n that was ever answered RECEIVED is in the sink with the
payload that was received last, and none up to n was refused last.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from edgesocket.checkpoint import recovery
from edgesocket.engine import starting, stored_notes
from edgesocket.errors import StoreError
from edgesocket.store.scratch import ScratchDirectory
from edgesocket.testing.sinks import ListStorage
from tests.support.rig import Rig

STEPS = 50
SEEDS = 150


class Acknowledged(AssertionError):
    """An ACK covers what it must not cover."""


class Story:
    """One seed."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self._disks = directory / "disks"
        self._made = 0
        options = {
            "local_queue_capacity": self.random.choice([3, 8, 100]),
            "arrival_sync_ms": self.random.choice([1000, 1000, 1000, 0]),
        }
        self.rig = Rig(directory / "state", ListStorage(), options=options)
        self._move(self._fresh_disk())
        self._boots = 1
        self._next = self.random.choice([1, 1, 500])
        self._gap = self.random.choice([1, 1, 3, 20])
        self._received: dict[int, bytes] = {}
        self._refused: set[int] = set()
        self._acked = 0

    def run(self) -> None:
        self._start()
        steps: list[tuple[Callable[[], None], int]] = [
            (self._send, 30),
            (self._send_late, 8),
            (self._send_again, 6),
            (self._poll, 10),
            (self._pump, 10),
            (self._checkpoint, 6),
            (self._tick, 3),
            (self._kill, 4),
            (self._lose_disk, 4),
            (self._return_to_an_old_disk, 2),
            (self._lose_power, 2),
            (self._stop_and_move, 2),
            (self._die_before_started, 2),
        ]
        actions, weights = zip(*steps, strict=True)
        for _ in range(STEPS):
            self.random.choices(actions, weights)[0]()
        for _ in range(3):
            self._pump()
            self._checkpoint()
            self._poll()

    # ---- the collector -----------------------------------------------------------------------------------------------

    def _offer(self, id_: int, payload: str) -> None:
        reply = self.rig.offer(id_, payload)
        if reply == "RECEIVED":
            self._received[id_] = payload.encode()
            self._refused.discard(id_)
        elif id_ not in self._received:
            self._refused.add(id_)

    def _send(self) -> None:
        for _ in range(self.random.choice([1, 1, 4])):
            self._offer(self._next, f"{self._next}")
            self._next += self.random.choice([1, 1, self._gap])

    def _send_late(self) -> None:
        id_ = max(1, self._next - self.random.randrange(1, 30))
        self._offer(id_, self.random.choice([f"{id_}", f"{id_} corrected {self.random.randrange(3)}"]))

    def _send_again(self) -> None:
        if self._received:
            id_, payload = self.random.choice(sorted(self._received.items()))
            self._offer(id_, payload.decode())

    def _poll(self) -> None:
        reply = self.rig.poll(max(1, self._next - self.random.choice([1, 1, 2, 10])))
        if not reply.startswith("ACK:"):
            return
        watermark = int(reply.removeprefix("ACK:"))
        visible = set(self.rig.storage.pairs)
        missing = sorted(pair for pair in self._received.items() if pair[0] <= watermark and pair not in visible)
        if missing:
            raise Acknowledged(f"ACK:{watermark}, and these were received and are not there: {missing[:5]}")
        refused = sorted(id_ for id_ in self._refused if self._acked < id_ <= watermark)
        if refused:
            raise Acknowledged(f"ACK:{watermark}, and these were refused and not sent since: {refused[:5]}")
        self._acked = max(self._acked, watermark)
        self._refused = {id_ for id_ in self._refused if id_ > watermark}

    # ---- the job -----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self.rig.pump()

    def _checkpoint(self) -> None:
        self.rig.checkpoint(force=self.random.random() < 0.3)

    def _tick(self) -> None:
        self.rig.source.tick()

    def _start(self) -> None:
        self.rig.start()

    def _kill(self) -> None:
        self.rig.crash()
        self._start()

    def _lose_disk(self) -> None:
        self.rig.crash()
        self._move(self._fresh_disk())
        self._start()

    def _return_to_an_old_disk(self) -> None:
        self.rig.crash()
        self._move(self._disks / str(self.random.randrange(1, self._made + 1)))
        self._start()

    def _lose_power(self) -> None:
        """What was not synced is gone: here, all of the newest segment, or nothing."""
        self._boots += 1
        self.rig.crash(boot=f"boot-{self._boots}")
        assert self.rig.apart is not None
        segments = sorted(self.rig.apart.directory.glob("arrivals/*.log"))
        if segments and self.random.random() < 0.5:
            self._made += 1  # the vital notes of a disk are synced: a disk that has lost some is another one
            self._move(self._disks / str(self._made))
        self._start()

    def _stop_and_move(self) -> None:
        while self.rig.pump():
            pass
        self.rig.stop()
        if self.random.random() < 0.7:
            self._move(self._fresh_disk())
        self._start()

    def _die_before_started(self) -> None:
        """A machine on which a start never gets to its end."""
        self.rig.crash()
        if self.random.random() < 0.5:
            self._move(self._fresh_disk())
        seen = 0

        def fail(point: str) -> None:
            nonlocal seen
            seen += point.startswith("create.before log/")
            if seen == 2 and point.startswith("create.before log/"):
                raise StoreError("died")

        self.rig.fault = fail
        with pytest.raises(StoreError):
            self.rig.start()
        self.rig.fault = None
        self.rig.crash()
        if self.random.random() < 0.5:
            self._move(self._fresh_disk())
        self._start()

    def _fresh_disk(self) -> Path:
        self._made += 1
        return self._disks / str(self._made)

    def _move(self, disk: Path) -> None:
        if self.rig.apart is not None:
            self.rig.apart.unlock()
        self.rig.apart = ScratchDirectory(disk)
        self.rig.apart.try_lock()

    def close(self) -> None:
        assert self.rig.apart is not None
        self.rig.apart.unlock()


def tell(directory: Path, seed: int) -> None:
    story = Story(directory / str(seed), seed)
    try:
        story.run()
    except Acknowledged as error:
        raise Acknowledged(f"seed {seed}: {error}") from error
    finally:
        story.close()


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power cuts are told in another way here, so nothing has to reach a disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_no_ack_covers_what_a_disk_took_with_it(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 50):
        tell(tmp_path, seed)


def _keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_notes.StoredNotes, "keep", lambda *_: None)


def _believe_every_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "previous_end_is_known", lambda *_: True)


def _keep_what_lies_on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    known = recovery.previous_end_is_known
    monkeypatch.setattr(
        starting, "previous_end_is_known", lambda log, host, boot, _: known(log, host, boot, {""} | _any(log))
    )


def _any(log: object) -> set[str]:
    started = log.last(recovery.Started)  # type: ignore[attr-defined]
    return set() if started is None else {started[1].scratch}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mistake", [_keep_nothing, _believe_every_disk, _keep_what_lies_on_a_disk])
def test_with_one_rule_less_an_ack_covers_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mistake(monkeypatch)
    with pytest.raises(Acknowledged):
        for seed in range(SEEDS):
            tell(tmp_path, seed)
