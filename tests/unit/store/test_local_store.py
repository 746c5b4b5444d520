"""The local store's own duties: durability, crashes at every point, permissions, odd file systems."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgesocket.checkpoint.commit_log import append, claim, prune, read_log
from edgesocket.checkpoint.effects import Create, List, Read, Remove
from edgesocket.checkpoint.entries import Claim, Commit, Started
from edgesocket.errors import DamagedStateError, FencedError, StoreError
from edgesocket.store import durable, local
from edgesocket.store.local import LocalStore

POINTS = [
    "create.before",
    "create.half-written",
    "create.written",
    "create.synced",
    "create.linked",
    "create.done",
]


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "state")


def failing(*numbers, of):
    """`of`, raising ENOSPC at the calls with these numbers."""
    calls = iter(range(10**6))

    def call(*args, **kwargs):
        if next(calls) in numbers:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return of(*args, **kwargs)

    return call


def visible(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_files_are_private(store):
    os.umask(0o022)
    store.perform(Create("state/blob", b"x"))
    assert stat.S_IMODE((store.directory / "state/blob").stat().st_mode) == 0o600
    for directory in (store.directory, store.directory / "state"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_create_passes_its_points_in_order(tmp_path):
    passed = []
    store = LocalStore(tmp_path, fault=passed.append)
    store.perform(Create("log/1", b"data"))
    assert passed == [f"{point} log/1" for point in POINTS]
    passed.clear()
    store.perform(Create("log/1", b"data"))
    assert passed == [f"{point} log/1" for point in POINTS[:4]]


def test_it_syncs_the_file_before_the_link_and_the_directory_after(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(local, "sync_file", lambda fd: steps.append("sync file"))
    monkeypatch.setattr(local, "sync_directory", lambda path: steps.append(f"sync {path.name}"))
    store = LocalStore(tmp_path, fault=lambda point: steps.append(point.split()[0]))
    (tmp_path / "log").mkdir()
    store.perform(Create("log/1", b"data"))
    assert steps == [*POINTS[:3], "sync file", *POINTS[3:5], "sync log", POINTS[5]]


KILLED = """
import os, sys
from pathlib import Path
from edgesocket.checkpoint.effects import Create
from edgesocket.store.local import LocalStore

def fault(point):
    if point == sys.argv[2] + " log/2":
        os.kill(os.getpid(), 9)

store = LocalStore(Path(sys.argv[1]), fault=fault)
store.perform(Create("log/1", b"one"))
store.perform(Create("log/2", b"two" * 1000))
"""


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_a_file_is_whole_or_not_there(tmp_path, point):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), point], check=False)
    assert killed.returncode == -9
    store = LocalStore(tmp_path)
    there = point in ("create.linked", "create.done")
    assert store.perform(Read("log/2")) == (b"two" * 1000 if there else None)
    assert visible(tmp_path) == (["log/1", "log/2"] if there else ["log/1"]), "temp files are cleaned at open"


def test_temp_files_of_live_processes_and_other_hosts_stay(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    live = f".tmp-{local._host_tag()}-{os.getpid()}-0-0"
    for name in (live, ".tmp-deadbeef-1-0-0", ".tmp-x", ".tmp-", f".tmp-{local._host_tag()}-{2**70}-0-0"):
        (log / name).touch()
    old = log / ".tmp-deadbeef-2-0-0"
    old.touch()
    os.utime(old, (1, 1))
    LocalStore(tmp_path)
    assert not old.exists()
    left = [path.name for path in log.iterdir()]
    assert live in left
    assert ".tmp-deadbeef-1-0-0" in left


def test_a_temp_file_that_goes_away_by_itself_is_no_trouble(tmp_path):
    assert not local._is_left_over(tmp_path / ".tmp-deadbeef-1-0-0")


def test_macos_syncs_through_the_drives_cache(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(durable, "_FULL_SYNC", 51)
    monkeypatch.setattr(durable.fcntl, "fcntl", lambda fd, what: asked.append(what))
    LocalStore(tmp_path).perform(Create("a", b""))
    assert asked == [51, 51]


def test_temp_files_are_not_listed(store):
    store.perform(Create("log/1", b""))
    (store.directory / "log/.tmp-x").touch()
    assert store.perform(List("log")) == ["log/1"]


def test_the_top_directory_can_be_listed(store):
    store.perform(Create("spec", b""))
    assert store.perform(List("")) == ["spec"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "log/../../up"])
def test_names_stay_inside(store, name):
    with pytest.raises(ValueError, match="not a name inside"):
        store.perform(Read(name))


class TestFailures:
    @pytest.mark.parametrize("function", ["write_all", "sync_file", "sync_directory", "make_directory"])
    def test_a_failing_step_is_the_stores_error_and_can_be_repeated(self, store, monkeypatch, function):
        monkeypatch.setattr(local, function, failing(0, of=getattr(local, function)))
        with pytest.raises(StoreError, match=r"log/1: cannot be created: No space left on device"):
            store.perform(Create("log/1", b"x"))
        assert [name for name in visible(store.directory) if ".tmp" in name] == []
        made = store.perform(Create("log/1", b"x"))
        assert made == (function != "sync_directory")
        assert store.perform(Read("log/1")) == b"x"

    def test_after_a_failed_sync_nothing_is_read_before_a_good_one(self, store, monkeypatch):
        """What is there but may be lost again must not be taken for the answer to 'did it happen?'."""
        store.perform(Create("log/1", b"x"))
        monkeypatch.setattr(local, "sync_directory", failing(0, 1, 2, 3, of=local.sync_directory))
        with pytest.raises(StoreError):
            store.perform(Create("log/2", b"y"))
        for effect in (Read("log/2"), List("log"), Create("log/3", b"")):
            with pytest.raises(StoreError):
                store.perform(effect)
        assert store.perform(Read("log/2")) == b"y"

    def test_a_link_whose_answer_was_lost_is_recognised(self, store, monkeypatch):
        """A network file system may repeat the link and report that the name is taken, by itself."""
        link = Path.hardlink_to

        def twice(self, target):
            link(self, target)
            link(self, target)

        monkeypatch.setattr(Path, "hardlink_to", twice)
        assert store.perform(Create("log/1", b"x")) is True

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
    def test_without_hard_links_it_refuses_clearly(self, store, monkeypatch, code):
        def refuse(self, target):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(Path, "hardlink_to", refuse)
        with pytest.raises(StoreError, match="choose another state directory"):
            store.perform(Create("log/1", b"x"))
        assert visible(store.directory) == []

    def test_another_failure_of_the_link_is_an_unknown_outcome(self, store, monkeypatch):
        def refuse(self, target):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(Path, "hardlink_to", refuse)
        with pytest.raises(StoreError, match="Input/output error"):
            store.perform(Create("log/1", b"x"))

    def test_a_temp_file_that_cannot_be_removed_does_not_fail_the_create(self, store, monkeypatch):
        unlink = Path.unlink
        monkeypatch.setattr(Path, "unlink", failing(0, of=unlink))
        assert store.perform(Create("log/1", b"x")) is True

    def test_a_directory_in_place_of_a_file_is_damage(self, store):
        (store.directory / "log/1").mkdir(parents=True)
        with pytest.raises(DamagedStateError, match="log/1: cannot be read: Is a directory") as caught:
            store.perform(Read("log/1"))
        assert caught.value.name == "log/1"
        assert store.perform(List("log")) == ["log/1"]
        assert store.perform(Create("log/1", b"")) is False
        with pytest.raises(StoreError, match="cannot be removed"):
            store.perform(Remove("log/1"))

    @pytest.mark.parametrize(
        ("code", "error"),
        [(errno.EACCES, DamagedStateError), (errno.ELOOP, DamagedStateError), (errno.EIO, StoreError)],
    )
    def test_a_file_that_cannot_be_read(self, store, monkeypatch, code, error):
        """No permission is damage of this file (root reads all, so it is played here); a sick disk is the store's."""

        def refuse(self):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(StoreError) as caught:
            store.perform(Read("log/1"))
        assert type(caught.value) is error

    def test_a_directory_that_cannot_be_listed(self, store):
        (store.directory / "log").touch()
        with pytest.raises(StoreError, match="cannot be listed"):
            store.perform(List("log"))

    def test_a_directory_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="file/state"):
            LocalStore(tmp_path / "file/state")

    def test_a_new_directory_that_is_not_durable_is_made_again(self, tmp_path, monkeypatch):
        monkeypatch.setattr(durable, "sync_directory", failing(0, of=durable.sync_directory))
        with pytest.raises(StoreError):
            LocalStore(tmp_path / "state")
        assert not (tmp_path / "state").exists()
        LocalStore(tmp_path / "state")

    def test_a_slow_listing_is_done_again(self, store, monkeypatch):
        """One that was stopped half-way may have missed what was made meanwhile, and what was removed."""
        times = iter([0.0, 5.0, 5.0, 5.1])
        monkeypatch.setattr(local, "_clock", lambda: next(times))
        store.perform(Create("log/1", b""))
        assert store.perform(List("log")) == ["log/1"]
        assert next(times, None) is None

    def test_a_listing_that_is_always_slow_is_an_error(self, store, monkeypatch):
        times = iter(range(0, 10**6, 2))
        monkeypatch.setattr(local, "_clock", lambda: float(next(times)))
        store.perform(Create("log/1", b""))
        with pytest.raises(StoreError, match="takes longer"):
            store.perform(List("log"))


def owner(store, commits):
    log = store.run(read_log())
    store.run(claim(log, Claim(0, 0, "t", "h", "b", 1, "job", "source", (), "", "")))
    store.run(append(log, Started(log.epoch, 0, None, 0, "h", "b")))
    for n in range(1, commits + 1):
        store.run(append(log, Commit(log.epoch, 0, n, {})))
    return log


def test_a_zombie_that_slept_right_before_its_link_does_not_count(tmp_path):
    """Two successors claim, commit and prune while the old owner's create stands between fsync and link(2)."""
    other = LocalStore(tmp_path)
    asleep = False

    def sleep(point):
        nonlocal asleep
        if asleep and point.startswith("create.synced"):
            asleep = False
            owner(other, 1)
            log = owner(other, 5)
            other.run(prune(log, log.keep_from(1), operator_through=0, now_ms=1, keep_at_least=1, keep_age_ms=0))

    zombie_store = LocalStore(tmp_path, fault=sleep)
    zombie = owner(zombie_store, 2)
    asleep = True
    with pytest.raises(FencedError, match="epoch 3"):
        zombie_store.run(append(zombie, Commit(zombie.epoch, 0, 3, {"zombie": True})))
    assert (tmp_path / "log/00000000000000000005.json").exists(), "its create did succeed, in a freed name"
    fresh = other.run(read_log())
    assert all("zombie" not in commit.record for _, commit in fresh.all(Commit))
    assert fresh.last(Commit)[1] == Commit(3, 0, 5, {})
