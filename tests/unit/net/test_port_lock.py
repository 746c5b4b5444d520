"""One job a port: who holds the lock, who is told, and what a strange file under its name can do (nothing)."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.net.port_lock import LockUnusableError, PortHeldError, PortLock

HOLD_AND_WAIT = """
import sys
from edgesocket.net.port_lock import PortLock
lock = PortLock(sys.argv[1], "the other job")
lock.acquire(9999)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[PortLock]:
    lock = PortLock(str(tmp_path), "demo")
    yield lock
    lock.release()


@pytest.fixture
def other_process(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-c", HOLD_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def lock_file(directory: Path) -> Path:
    (found,) = directory.iterdir()
    return found


def test_a_second_job_is_told_who_holds_the_port(tmp_path: Path, other_process: "subprocess.Popen[str]") -> None:
    with pytest.raises(PortHeldError, match=rf"another EdgeSocket job \(pid {other_process.pid}, job the other job\)"):
        PortLock(str(tmp_path), "demo").acquire(9999)


def test_a_second_server_of_the_same_process_is_refused_too(tmp_path: Path, lock: PortLock) -> None:
    lock.acquire(9999)

    with pytest.raises(PortHeldError, match="job demo"):
        PortLock(str(tmp_path), "twin").acquire(9999)


def test_a_killed_holder_does_not_block(lock: PortLock, other_process: "subprocess.Popen[str]") -> None:
    other_process.kill()
    other_process.wait()

    lock.acquire(9999)

    assert lock.held


def test_the_name_of_a_dead_holder_is_replaced(tmp_path: Path, lock: PortLock) -> None:
    lock.acquire(9999)
    path = lock_file(tmp_path)
    lock.release()
    path.write_text("pid 1, job a very long name that is longer than ours\n")

    lock.acquire(9999)

    assert path.read_text() == f"pid {os.getpid()}, job demo\n"


def test_each_port_has_its_own_lock(tmp_path: Path, lock: PortLock) -> None:
    lock.acquire(9999)
    second = PortLock(str(tmp_path), "demo")
    second.acquire(9998)

    assert len(list(tmp_path.iterdir())) == 2
    second.release()


def test_release_removes_the_file_and_lets_another_in(tmp_path: Path, lock: PortLock) -> None:
    lock.acquire(9999)
    lock.release()
    lock.release()

    assert list(tmp_path.iterdir()) == []
    assert not lock.held
    second = PortLock(str(tmp_path), "next")
    second.acquire(9999)
    second.release()


def test_taking_it_twice_is_taking_it_once(tmp_path: Path, lock: PortLock) -> None:
    before = open_descriptors()
    lock.acquire(9999)
    lock.acquire(9999)
    lock.release()

    assert open_descriptors() == before


def test_every_user_of_the_host_may_write_its_name(tmp_path: Path, lock: PortLock) -> None:
    old = os.umask(0o077)
    try:
        lock.acquire(9999)
    finally:
        os.umask(old)

    assert stat.S_IMODE(lock_file(tmp_path).stat().st_mode) == 0o666


def test_a_file_removed_while_we_open_it_guards_nothing_and_is_made_anew(
    tmp_path: Path, lock: PortLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.acquire(9999)
    path = lock_file(tmp_path)
    lock.release()
    real_open, opened = os.open, []

    def open_then_remove(name: Path, flags: int, mode: int = 0o777) -> int:
        fd = real_open(name, flags, mode)
        opened.append(fd)
        if len(opened) == 1:
            path.unlink()  # the holder before us has just released it
        return fd

    path.touch()
    monkeypatch.setattr("edgesocket.net.port_lock.os.open", open_then_remove)
    lock.acquire(9999)

    assert len(opened) == 2
    assert os.path.samestat(path.stat(), os.fstat(opened[-1]))


@pytest.mark.parametrize("kind", ["symlink", "pipe", "hard link", "directory"])
def test_something_odd_under_its_name_is_not_opened_or_written(tmp_path: Path, lock: PortLock, kind: str) -> None:
    directory = tmp_path / "locks"
    directory.mkdir()
    probe = PortLock(str(directory), "demo")
    probe.acquire(9999)
    path = lock_file(directory)
    probe.release()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard link":
        os.link(victim, path)
    else:
        path.mkdir()

    with pytest.raises(LockUnusableError, match="edgesocket-port-9999"):
        probe.acquire(9999)

    assert victim.read_text() == "precious"
    assert not probe.held


def test_a_directory_that_is_not_there_makes_the_lock_unusable_not_held(tmp_path: Path) -> None:
    with pytest.raises(LockUnusableError, match="No such file"):
        PortLock(str(tmp_path / "missing"), "demo").acquire(9999)


def test_what_a_stranger_wrote_into_the_file_is_made_harmless(tmp_path: Path, lock: PortLock) -> None:
    lock.acquire(9999)
    lock_file(tmp_path).write_bytes(b"pid 1\x1b[31m\njob \xff" + b"x" * 5000)

    with pytest.raises(PortHeldError) as caught:
        PortLock(str(tmp_path), "demo").acquire(9999)

    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 300


def test_refresh_keeps_the_file_young(tmp_path: Path, lock: PortLock) -> None:
    lock.acquire(9999)
    path = lock_file(tmp_path)
    os.utime(path, (0, 0))

    lock.refresh()

    assert path.stat().st_mtime > 1_000_000
    lock.release()
    lock.refresh()
