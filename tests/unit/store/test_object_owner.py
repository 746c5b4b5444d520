"""The lease over a bucket, on a clock that only moves when somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="needs obstore: the extra s3")

from edgesocket.errors import FencedError, NotOwnerError, StoreError
from edgesocket.store.identity import HostIdentity
from edgesocket.store.object_owner import ObjectOwner, read_beat
from edgesocket.store.scratch import ScratchDirectory
from tests.support.fake_bucket import FakeBucket

HERE = HostIdentity("edge-1", "boot-a")
ELSEWHERE = HostIdentity("edge-2", "boot-b")
Start = Callable[..., ObjectOwner]


class Time:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        self.meanwhile()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def bucket() -> FakeBucket:
    return FakeBucket()


@pytest.fixture
def start(bucket: FakeBucket, time: Time, tmp_path: Path) -> Iterator[Start]:
    """Watch and return a new owner on a disk; `epoch` also starts it."""
    made: list[ScratchDirectory] = []

    def new(disk: str = "disk", host: HostIdentity = HERE, pid: int = 100, epoch: int = 0, take_over: bool = False):
        scratch = ScratchDirectory(tmp_path / disk)
        made.append(scratch)
        owner = ObjectOwner(bucket, "job/beat", scratch, "job", host=host, pid=pid)  # type: ignore[arg-type]
        owner.watch(3000, time.clock, time.sleep, take_over=take_over)
        if epoch:
            owner.start(epoch)
        return owner

    yield new
    for scratch in made:
        scratch.unlock()


def die(owner: ObjectOwner) -> None:
    """The process is gone: the kernel lets the lock go, the beat stays."""
    owner._unlock()


def test_a_new_place_is_claimed_at_once(start: Start, time: Time, bucket: FakeBucket) -> None:
    start(epoch=1).beat()
    assert time.slept == 0
    beat = read_beat(bucket, "job/beat")  # type: ignore[arg-type]
    assert beat is not None
    assert (beat.pid, beat.epoch, beat.closed) == (100, 1, False)


def test_who_died_on_the_same_disk_is_not_waited_for(start: Start, time: Time) -> None:
    die(start(epoch=1))
    start(pid=101, epoch=2)
    assert time.slept == 0


def test_who_died_elsewhere_is_waited_for_one_lease(start: Start, time: Time) -> None:
    die(start(epoch=1))
    start("another disk", host=ELSEWHERE, epoch=2)
    assert 3.0 <= time.slept < 3.5


def test_the_same_kernel_with_another_disk_is_elsewhere(start: Start, time: Time) -> None:
    """Two containers on one machine: both kernels are the same, and pids mean nothing."""
    die(start(epoch=1))
    start("another disk", epoch=2)
    assert time.slept >= 3.0


def test_an_old_disk_does_not_vouch_for_a_later_owner(start: Start, time: Time) -> None:
    die(start(epoch=1))
    die(start("another disk", epoch=2))
    time.slept = 0.0
    start(epoch=3)
    assert time.slept >= 3.0


def test_who_has_closed_is_not_waited_for_by_anybody(start: Start, time: Time) -> None:
    start(epoch=1).close()
    start("another disk", host=ELSEWHERE, epoch=2)
    assert time.slept == 0


def test_a_live_owner_is_named_and_left_alone(start: Start, time: Time, bucket: FakeBucket) -> None:
    owner = start(epoch=1)
    time.meanwhile = owner.beat
    with pytest.raises(NotOwnerError, match="pid 100 on edge-1"):
        start("another disk", host=ELSEWHERE)
    assert time.slept < 1


def test_who_was_taken_over_is_fenced_at_its_next_beat(start: Start, time: Time) -> None:
    owner = start(epoch=1)
    successor = start("another disk", host=ELSEWHERE, epoch=2, take_over=True)
    with pytest.raises(FencedError, match="edge-2"):
        owner.beat()
    successor.wait_until_alone()
    assert time.slept >= 3.0, "it may answer for a lease, and nobody can tell from here"


def test_without_a_beat_for_a_lease_an_owner_is_overdue(start: Start, time: Time, bucket: FakeBucket) -> None:
    owner = start(epoch=1)
    bucket.away = True
    time.now += 2.9
    with pytest.raises(StoreError):
        owner.beat()
    assert not owner.is_overdue(time.now)
    time.now += 0.2
    assert owner.is_overdue(time.now)
    bucket.away = False
    with pytest.raises(FencedError):
        owner.beat()
    owner.close()


def test_the_beat_of_another_owner_is_not_closed(start: Start, bucket: FakeBucket) -> None:
    owner = start(epoch=1)
    start("another disk", host=ELSEWHERE, epoch=2, take_over=True)
    owner.close()
    beat = read_beat(bucket, "job/beat")  # type: ignore[arg-type]
    assert beat is not None
    assert not beat.closed
