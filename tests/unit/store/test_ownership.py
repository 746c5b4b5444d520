"""Lock file, heartbeat and lease, on a clock that only moves when somebody sleeps."""

import errno
import json
import os
import subprocess
import sys

import pytest

from edgesocket.errors import FencedError, NotOwnerError, StoreError
from edgesocket.store import ownership
from edgesocket.store.identity import HostIdentity
from edgesocket.store.lease import Beat, encode_beat, parse_beat
from edgesocket.store.ownership import Owner, read_beat

HERE = HostIdentity("edge-1", "boot-a")
ELSEWHERE = HostIdentity("edge-2", "boot-b")


class Time:
    """Seconds; whatever is in `at` happens when a sleep passes its moment, in order."""

    def __init__(self):
        self.now = 50_000.0
        self.slept = 0.0
        self.every_second = []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        before = int(self.slept)
        self.now += seconds
        self.slept += seconds
        if int(self.slept) > before:
            for action in self.every_second:
                action()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def start(tmp_path, time):
    """Watch and return a new owner; `epoch` also starts it."""
    made = []

    def new(host=HERE, pid=100, epoch=None, lease_ms=3000, **arguments):
        owner = Owner(tmp_path, "orders", host=host, pid=pid, wall_ms=lambda: 1_700_000_000_000)
        made.append(owner)
        owner.watch(lease_ms, time.clock, time.sleep, **arguments)
        if epoch is not None:
            owner.start(epoch)
        return owner

    yield new
    for owner in made:
        owner.close()


def die(owner):
    """The process is gone: the kernel lets the lock go, the beat stays."""
    owner._unlock()


def test_a_beat_of_a_later_version_is_read_for_what_is_known() -> None:
    beat = Beat("orders", "edge-1", "boot", 100, 1, 1, 1, locked=True, lease_ms=2000)
    said = {**json.loads(encode_beat(beat)), "mood": "fine"}
    assert parse_beat(json.dumps(said).encode()) == beat


class TestWatch:
    def test_a_new_directory_is_claimed_at_once(self, start, time, tmp_path):
        owner = start()
        assert owner.has_lock
        assert time.slept == 0
        assert read_beat(tmp_path).pid == 100, "a second starter can already name us"

    def test_the_lock_of_a_dead_process_on_this_host_does_not_block(self, start, time):
        die(start(epoch=1))
        assert start(pid=101).has_lock
        assert time.slept == 0

    def test_a_live_owner_on_this_host_is_named(self, start, time):
        owner = start(epoch=1)
        time.every_second.append(owner.beat)
        with pytest.raises(NotOwnerError, match=r"pid 100 on edge-1, since 2023-11-14 22:13:20 UTC.*--take-over"):
            start(pid=101)
        assert time.slept <= 1.1

    def test_a_live_owner_on_another_host_is_named_and_the_lock_given_back(self, start, time):
        """On a shared directory without working locks the lock is free, and the beat still tells."""
        owner = start(host=ELSEWHERE, epoch=1)
        die(owner)
        time.every_second.append(lambda: owner._write(owner._next_beat()))
        with pytest.raises(NotOwnerError, match="pid 100 on edge-2"):
            start(pid=101)
        time.every_second.clear()
        assert start(pid=102).has_lock

    def test_a_dead_owner_on_another_host_costs_the_lease(self, start, time):
        die(start(host=ELSEWHERE, epoch=1))
        assert start(pid=101).has_lock
        assert 3.0 <= time.slept < 3.2

    @pytest.mark.parametrize(("own_ms", "waited_s"), [(2000, 10.0), (20_000, 20.0)])
    def test_the_longer_of_two_leases_is_waited_for(self, start, time, own_ms, waited_s):
        die(start(host=ELSEWHERE, epoch=1, lease_ms=10_000))
        start(pid=101, lease_ms=own_ms)
        assert waited_s <= time.slept < waited_s + 1

    def test_after_a_reboot_the_lease_is_waited_for(self, start, time):
        """The same name with another kernel may as well be another host."""
        die(start(host=HostIdentity("edge-1", "boot-before"), epoch=1))
        start(pid=101)
        assert time.slept >= 3.0

    def test_a_kernel_without_a_name_is_never_the_same(self, start, time):
        nameless = HostIdentity("edge-1", "")
        die(start(host=nameless, epoch=1))
        start(host=nameless, pid=101)
        assert time.slept >= 3.0

    def test_a_stopped_holder_of_the_lock_costs_the_lease(self, start, time):
        holder = start(epoch=1)
        successor = start(pid=101)
        assert 3.0 <= time.slept < 3.2
        assert not successor.has_lock
        assert holder.has_lock

    def test_a_holder_that_dies_meanwhile_ends_the_watch(self, start, time):
        holder = start(epoch=1)
        time.every_second.append(lambda: die(holder))
        assert start(pid=101).has_lock
        assert time.slept < 1.2

    def test_after_a_close_nobody_waits_anywhere(self, start, time):
        start(epoch=1).close()
        assert start(host=ELSEWHERE, pid=101).has_lock
        assert time.slept == 0

    def test_an_owner_that_closes_meanwhile_ends_the_watch(self, start, time):
        holder = start(host=ELSEWHERE, epoch=1)
        time.every_second.append(holder.close)
        assert start(pid=101).has_lock
        assert time.slept < 1.2

    def test_take_over_does_not_watch(self, start, time):
        start(epoch=1)
        assert not start(pid=101, take_over=True).has_lock
        assert time.slept == 0

    def test_who_was_taken_over_while_it_lived_is_waited_for(self, start, time):
        """It answers until it notices; at the latest it is overdue a lease after it could still beat."""
        start(epoch=1)
        successor = start(pid=101, epoch=2, take_over=True)
        successor.wait_until_alone()
        assert 3.0 <= time.slept < 3.2

    def test_who_was_taken_over_is_not_waited_for_once_it_is_gone(self, start, time):
        holder = start(epoch=1)
        successor = start(pid=101, epoch=2, take_over=True)
        time.every_second.append(lambda: die(holder))
        successor.wait_until_alone()
        assert time.slept < 1.2

    def test_the_lock_says_nothing_of_an_owner_elsewhere(self, start, time):
        """Locks of another host may not be seen here."""
        die(start(host=ELSEWHERE, epoch=1))
        successor = start(pid=101, epoch=2, take_over=True)
        assert successor.has_lock
        successor.wait_until_alone()
        assert time.slept >= 3.0

    def test_who_was_not_taken_over_is_not_waited_for(self, start, time):
        die(start(epoch=1))
        start(pid=101, epoch=2).wait_until_alone()
        assert time.slept == 0

    def test_who_took_over_without_the_lock_is_not_mistaken_for_dead(self, start, time):
        """The stopped holder dies: its lock is free, but the beat came from somebody who never had it."""
        holder = start(epoch=1)
        successor = start(pid=101, epoch=2)
        die(holder)
        time.every_second.append(lambda: successor._write(successor._next_beat()))
        with pytest.raises(NotOwnerError, match="pid 101"):
            start(pid=102)

    def test_a_starter_with_the_lock_and_no_beat_yet_is_waited_for(self, start, time, tmp_path):
        start()
        (tmp_path / "beat").unlink()
        other = Owner(tmp_path, "orders", host=HERE, pid=102)
        time.every_second.append(lambda: (tmp_path / "beat").write_bytes(b"{"))
        with pytest.raises(NotOwnerError, match="another process"):
            other.watch(3000, time.clock, time.sleep)

    @pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\0" * 300, b'{"job": 1'])
    def test_an_unreadable_beat_is_watched_like_any_other(self, start, time, tmp_path, data):
        (tmp_path / "beat").write_bytes(data)
        assert start().has_lock
        assert time.slept >= 3.0

    def test_a_beat_with_wrong_numbers_is_no_beat(self, start, tmp_path):
        start(epoch=1)
        beat = json.loads((tmp_path / "beat").read_bytes())
        (tmp_path / "beat").write_text(json.dumps(beat | {"epoch": "2"}))
        assert read_beat(tmp_path) is None
        (tmp_path / "beat").write_text(json.dumps(beat | {"since_ms": 10**30}))
        assert read_beat(tmp_path) is None

    def test_a_second_start_touches_no_file(self, start, time, tmp_path):
        owner = start(epoch=1)
        time.every_second.append(owner.beat)
        with pytest.raises(NotOwnerError):
            start(pid=101)
        assert sorted(os.listdir(tmp_path)) == ["beat", "lock"]  # noqa: PTH208
        assert read_beat(tmp_path).pid == 100


class TestWaitUntilAlone:
    """After a take-over: what the old owner still answers must be in its log before that is read."""

    def test_there_is_nothing_to_wait_for_when_the_last_owner_was_silent_or_gone(self, start, time):
        die(start(host=ELSEWHERE, epoch=1))
        owner = start(pid=101, epoch=2)
        waited = time.slept
        owner.wait_until_alone()
        assert time.slept == waited

    def test_a_live_owner_is_given_the_lease_to_notice(self, start, time):
        start(epoch=1)
        owner = start(pid=101, epoch=2, take_over=True)
        owner.wait_until_alone()
        assert 3.0 <= time.slept < 3.2
        owner.wait_until_alone()
        assert time.slept < 3.2, "once is enough"

    def test_one_with_a_longer_lease_than_ours_is_given_that(self, start, time):
        start(epoch=1, lease_ms=10_000)
        start(pid=101, epoch=2, lease_ms=2000, take_over=True).wait_until_alone()
        assert 10.0 <= time.slept < 10.5

    @pytest.mark.parametrize("take_over", [True, False])
    def test_a_lease_is_waited_for_although_its_owner_was_followed_by_one_that_died(self, start, time, take_over):
        """The beat that is there names the owner in between, who waited for the first one as well."""
        start(host=ELSEWHERE, epoch=1, lease_ms=10_000)._unlock()
        start(pid=101, epoch=2, lease_ms=2000, take_over=True)._unlock()
        start(host=ELSEWHERE, pid=102, epoch=3, lease_ms=2000, take_over=take_over).wait_until_alone()
        assert 10.0 <= time.slept < 10.5

    def test_an_owner_that_is_alone_names_its_own_lease(self, start, tmp_path):
        die(start(host=ELSEWHERE, epoch=1, lease_ms=10_000))
        owner = start(pid=101, epoch=2, lease_ms=2000)
        owner.beat()
        assert read_beat(tmp_path).lease_ms == 2000

    def test_one_that_came_between_the_look_and_the_claim_may_have_a_longer_lease(self, start, time):
        late = start(pid=101, lease_ms=2000)
        start(host=ELSEWHERE, epoch=1, lease_ms=10_000, take_over=True)
        late.start(2)
        late.wait_until_alone()
        assert 10.0 <= time.slept < 10.5

    def test_it_ends_when_the_old_owner_lets_go(self, start, time):
        old = start(epoch=1)
        time.every_second.append(lambda: die(old))
        owner = start(pid=101, epoch=2, take_over=True)
        owner.wait_until_alone()
        assert 1.0 <= time.slept < 1.2
        assert owner.has_lock

    def test_a_free_lock_says_nothing_of_an_owner_on_another_host(self, start, time):
        die(start(host=ELSEWHERE, epoch=1))
        owner = start(pid=101, epoch=2, take_over=True)
        owner.wait_until_alone()
        assert 3.0 <= time.slept < 3.2

    @pytest.mark.parametrize("epoch", [None, 2], ids=["before its claim", "after its claim"])
    def test_the_owner_before_is_waited_for_although_who_took_over_from_it_has_died(self, start, time, epoch):
        """It still answers, on another host: that its successor's lock is free says nothing of it."""
        owner = start(host=ELSEWHERE, epoch=1)
        owner._unlock()
        die(start(pid=101, epoch=epoch, take_over=True))
        third = start(pid=102, epoch=3, take_over=True)
        third.wait_until_alone()
        assert time.slept >= 3.0

    def test_the_owner_before_is_waited_for_although_who_took_over_from_it_has_closed(self, start, time):
        owner = start(host=ELSEWHERE, epoch=1)
        owner._unlock()
        start(pid=101, epoch=2, take_over=True).close()
        third = start(pid=102, epoch=3, take_over=True)
        third.wait_until_alone()
        assert time.slept >= 3.0


class TestBetweenWatchAndClaim:
    def test_an_owner_that_came_and_lives_is_waited_for(self, start, time):
        """Its claim is in the log that the starter reads, so the starter's own claim is one above it."""
        start(epoch=1).close()
        slow = start(pid=200)
        start(host=ELSEWHERE, pid=300, take_over=True).start(2)
        slow.start(3)
        before = time.now
        slow.wait_until_alone()
        assert time.now - before >= 3.0


class TestBeat:
    def test_it_says_who_and_changes_every_time(self, start, tmp_path):
        owner = start(epoch=1)
        first = read_beat(tmp_path)
        owner.beat()
        second = read_beat(tmp_path)
        assert (first.job, first.host, first.boot, first.pid, first.epoch) == ("orders", "edge-1", "boot-a", 100, 1)
        assert first.since_ms == 1_700_000_000_000
        assert first.locked
        assert not first.closed
        assert second.counter == first.counter + 1

    def test_the_lock_is_taken_when_it_becomes_free(self, start, tmp_path):
        holder = start(epoch=1)
        successor = start(pid=101, epoch=2)
        successor.beat()
        assert not read_beat(tmp_path).locked
        die(holder)
        successor.beat()
        assert successor.has_lock
        assert read_beat(tmp_path).locked

    def test_a_later_epoch_ends_it(self, start, time, tmp_path):
        old = start(epoch=1)
        start(pid=101, epoch=2)
        time.now -= 3.2  # it was not stopped: only the beat tells
        with pytest.raises(FencedError, match="taken over by pid 101 on edge-1"):
            old.beat()
        assert read_beat(tmp_path).pid == 101

    def test_one_that_was_stopped_for_a_lease_does_not_go_on(self, start, time, tmp_path):
        owner = start(epoch=1)
        time.now += 3.0
        assert not owner.is_overdue(time.now)
        owner.beat()
        time.now += 3.1
        assert owner.is_overdue(time.now)
        before = read_beat(tmp_path)
        with pytest.raises(FencedError, match="no beat could be written for 3 s"):
            owner.beat()
        assert read_beat(tmp_path) == before

    def test_who_has_not_started_is_not_overdue(self, start, time):
        assert not start().is_overdue(time.now + 10**6)

    def test_the_lease_counts_from_before_the_write(self, start, time, monkeypatch):
        owner = start(epoch=1)
        write = ownership._write_file

        def slow(*args):
            time.now += 2.0
            write(*args)

        monkeypatch.setattr(ownership, "_write_file", slow)
        owner.beat()
        assert owner.is_overdue(time.now + 1.1)

    def test_a_full_disk_does_not_stop_it(self, start, monkeypatch, tmp_path):
        """The bytes that are there are written over."""
        owner = start(epoch=1)
        inode = (tmp_path / "beat").stat().st_ino
        write = ownership._write_file

        def full(path, flags, data):
            if flags & os.O_CREAT:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(path, flags, data)

        monkeypatch.setattr(ownership, "_write_file", full)
        owner.beat()
        assert read_beat(tmp_path).counter == 3
        assert (tmp_path / "beat").stat().st_ino == inode

    def test_a_directory_that_is_away_is_reported_until_it_is_overdue(self, start, time, monkeypatch):
        owner = start(epoch=1)

        def away(*args):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(ownership, "_write_file", away)
        for _ in range(3):
            time.now += 1.0
            with pytest.raises(StoreError, match="beat: cannot be written: Input/output error"):
                owner.beat()
        time.now += 0.1
        with pytest.raises(FencedError):
            owner.beat()


class TestClose:
    def test_it_leaves_the_beat_of_a_successor_alone(self, start, tmp_path):
        old = start(epoch=1)
        start(pid=101, epoch=2)
        old.close()
        assert read_beat(tmp_path).pid == 101
        assert not read_beat(tmp_path).closed

    def test_it_may_come_twice_and_before_the_start(self, start, tmp_path):
        owner = start()
        for _ in range(2):
            owner.close()
        assert read_beat(tmp_path).closed
        assert not owner.has_lock

    def test_a_failing_disk_does_not_keep_the_lock(self, start, monkeypatch):
        owner = start(epoch=1)

        def away(*args):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(ownership, "_write_file", away)
        owner.close()
        assert not owner.has_lock


class TestCloseBesideABeat:
    def test_a_beat_that_comes_late_takes_no_lock_and_says_nothing(self, start, tmp_path):
        owner = start()
        owner.watch()
        owner.start(1)
        owner.close()
        said = (tmp_path / "beat").read_bytes()
        owner.beat()
        assert not owner.has_lock
        assert (tmp_path / "beat").read_bytes() == said


class TestOddDirectories:
    def test_one_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(StoreError):
            Owner(tmp_path / "file/state", "orders")

    def test_a_lock_that_cannot_be_opened(self, tmp_path, time):
        owner = Owner(tmp_path, "orders")
        (tmp_path / "lock").mkdir()
        with pytest.raises(StoreError, match="lock: cannot be opened"):
            owner.watch(3000, time.clock, time.sleep)

    def test_a_beat_that_cannot_be_read(self, tmp_path, time):
        (tmp_path / "beat").mkdir()
        with pytest.raises(StoreError, match="beat: cannot be read"):
            Owner(tmp_path, "orders").watch(3000, time.clock, time.sleep)


HOLDER = """
import sys
from pathlib import Path
from edgesocket.store.ownership import Owner

owner = Owner(Path(sys.argv[1]), "orders")
owner.watch()
owner.start(1)
print(flush=True)
sys.stdin.read()
"""


def test_the_lock_of_a_real_process_ends_with_kill_9(tmp_path, time):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        silent = Owner(tmp_path, "orders")
        silent.watch(3000, time.clock, time.sleep)
        assert not silent.has_lock
        assert time.slept >= 3.0
        holder.kill()
        holder.wait()
    time.slept = 0.0
    starter = Owner(tmp_path, "orders")
    starter.watch(3000, time.clock, time.sleep)
    assert starter.has_lock
    assert time.slept == 0
    starter.close()
