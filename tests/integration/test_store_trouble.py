"""The disk below the state directory is full or read-only for a while, and is healed.

What holds then: a batch is answered RECEIVED only while its arrival can be noted; where it cannot, the conversation is
closed without an answer, and the collector sends it again later. Rows go on to the sinks. No checkpoint completes, so
`__COMMIT__` answers PENDING and no ACK moves. Status and log say since when and why. When the disk is healed everything
goes on by itself. Only a process that cannot even show that it lives ends after its lease, because another host may
take the job over: as on a read-only file system.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import Job, Wire, edgesocket, free_port, rows, wait_for_ack, wait_until, write_job

PATIENCE_S = 30.0
TMPFS_BYTES = 4 * 1024 * 1024
PAGE_BYTES = 4096


def _can_mount() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and Path("/proc/mounts").exists()


def _mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")


def _unmount(target: Path) -> None:
    subprocess.run(["umount", "--lazy", str(target)], capture_output=True, check=False)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _can_mount(), reason="small file systems are mounted, which takes root on Linux"),
]


class Disk:
    """A small file system of its own at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take all the room there is but `leave_bytes`."""
        free = self._free()
        with self._filler.open("ab") as file:
            file.write(bytes(max(0, free - leave_bytes)))
        assert self._free() <= leave_bytes + PAGE_BYTES

    def heal(self) -> None:
        """Give the room back."""
        self._filler.unlink()

    def _free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    target = tmp_path / "state"
    target.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", target)
    yield Disk(target)
    _unmount(target)


@contextmanager
def _read_only(path: Path) -> Iterator[None]:
    """What is at `path` can be read and not written any more, as after an error of the file system."""
    _mount("--bind", path, path)
    try:
        _mount("-o", "remount,bind,ro", path)
        yield
    finally:
        _unmount(path)


class Collector:
    """Sends batches one by one, connects again as often as it has to, and remembers what it was told."""

    def __init__(self, port: int) -> None:
        self.received = 0
        self.acked = 0
        self._port = port
        self._wire: Wire | None = None

    def offer(self, patience_s: float = PATIENCE_S) -> str:
        """Offer the next batch until it is answered; returns the reply, or "" when there is none for so long."""
        n = self.received + 1
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            reply = self._ask(f"__BATCH__:{n}:p{n}")
            if reply == "RECEIVED":
                self.received = n
            if reply:
                return reply
        return ""

    def offer_until(self, n: int) -> None:
        """Have every batch up to `n` received."""
        deadline = time.monotonic() + PATIENCE_S
        while self.received < n:
            assert time.monotonic() < deadline
            if self.offer() != "RECEIVED":
                time.sleep(0.05)

    def offer_many(self, n: int) -> None:
        """Have the next `n` batches received, written at once."""
        first = self.received + 1
        with Wire(self._port) as wire:
            wire.socket.sendall(b"".join(b"__BATCH__:%d:p%d\n" % (id_, id_) for id_ in range(first, first + n)))
            assert {wire.read() for _ in range(n)} == {"RECEIVED"}
        self.received += n

    def poll(self) -> str:
        """Ask what is confirmed; what was acknowledged stays acknowledged. Sends again what it is asked for."""
        reply = ""
        deadline = time.monotonic() + PATIENCE_S
        while not reply and time.monotonic() < deadline:
            reply = self._ask(f"__COMMIT__:{self.received}")
        if reply.startswith("ACK:"):
            assert int(reply[4:]) >= self.acked
            self.acked = int(reply[4:])
        if reply == "RESEND":
            for n in range(self.acked + 1, self.received + 1):
                self._ask(f"__BATCH__:{n}:p{n}")
        return reply

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _ask(self, line: str) -> str:
        try:
            if self._wire is None:
                self._wire = Wire(self._port)
            reply = self._wire.ask(line) if self._wire.authenticated == "ACK" else ""
        except OSError:
            reply = ""
        if not reply:
            self.close()
            time.sleep(0.05)
        return reply

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _job(directory: Path, disk: Disk, **job: str) -> tuple[Path, int, list[str]]:
    port = free_port()
    return write_job(directory, port, **job), port, ["--state-dir", str(disk.path)]


def _status(conf: Path, disk: Disk) -> dict[str, Any]:
    done = edgesocket("status", conf, "--state-dir", disk.path, "--format", "json")
    assert done.returncode == 0, done.stderr
    live: dict[str, Any] = json.loads(done.stdout)["live"] or {}
    return live


def _status_text(conf: Path, disk: Disk) -> str:
    return edgesocket("status", conf, "--state-dir", disk.path).stdout


def _fails_for_s(conf: Path, disk: Disk, part: str) -> float:
    return float(_status(conf, disk).get(part, {}).get("failing_for_s") or 0)


@pytest.mark.parametrize("when", ["before the first checkpoint", "later"])
def test_no_room_for_checkpoints(tmp_path: Path, disk: Disk, when: str) -> None:
    """Notes of arrivals still fit, fingerprints do not: batches are RECEIVED, nothing is confirmed, then all is."""
    many = 10_000  # their fingerprints take some 200 KB in every checkpoint
    env = f"checkpoint.interval = {4000 if when == 'before the first checkpoint' else 400}"
    conf, port, options = _job(tmp_path, disk, env=env, source="local_queue_capacity = 20000")
    with Job(conf, *options) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_many(many)
        if when == "later":
            wait_until(lambda: collector.poll() == f"ACK:{many}", PATIENCE_S, "the first checkpoints")
        before = collector.acked
        disk.fill(leave_bytes=100_000)
        collector.offer_until(many + 10)
        wait_until(lambda: "did not complete" in job.log_text(), PATIENCE_S, "a failed checkpoint")

        assert "No space left on device" in job.log_text(), "the log names the cause"
        wait_until(lambda: _fails_for_s(conf, disk, "checkpoints") > 1, PATIENCE_S, "saying since when")
        text = _status_text(conf, disk)
        assert "CHECKPOINTS FAIL since" in text
        assert "No space left on device" in text
        collector.offer_until(many + 20)
        assert collector.poll() == "PENDING"
        assert collector.acked == before

        disk.heal()
        wait_until(lambda: collector.poll() == f"ACK:{many + 20}", PATIENCE_S, "going on without a restart")
        wait_until(lambda: "checkpoints complete again after" in job.log_text(), PATIENCE_S)
        wait_until(lambda: _fails_for_s(conf, disk, "checkpoints") == 0, PATIENCE_S)
        collector.close()
        assert job.stop() == ExitCode.OK, job.log_text()
    assert rows(tmp_path / "out") == [f"p{n}" for n in range(1, many + 21)], "each once"


def test_no_room_for_a_note_of_what_arrives(tmp_path: Path, disk: Disk) -> None:
    """What cannot be noted is not answered; the resend is, when there is room again, and is no second row."""
    conf, port, options = _job(tmp_path, disk)
    with Job(conf, *options) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_until(10)
        wait_until(lambda: collector.poll() == "ACK:10", PATIENCE_S, "a checkpoint")
        disk.fill()
        answered = 0
        while collector.offer(patience_s=1.0):  # what is left of the open block
            answered += 1
            assert answered < 1000
        received = collector.received

        assert collector.poll() == ("PENDING" if received > 10 else "ACK:10"), "polls are answered"
        assert collector.offer(patience_s=1.0) == ""
        wait_until(lambda: "ARRIVAL LOG FAILS since" in _status_text(conf, disk), PATIENCE_S, "the status")
        assert "the arrival log fails" in job.log_text()
        assert "No space left on device" in job.log_text()
        assert "could not be recorded, so it was not answered" in job.log_text()
        assert job.process.poll() is None

        disk.heal()
        assert collector.offer() == "RECEIVED", "by itself"
        collector.offer_until(received + 20)
        wait_until(lambda: collector.poll() == f"ACK:{received + 20}", PATIENCE_S, "confirming it all")
        assert "the arrival log can be written again after" in job.log_text()
        assert _status(conf, disk)["source"]["resends"] == 1, "the batch that was admitted and not answered"
        collector.close()
        assert job.stop() == ExitCode.OK, job.log_text()
    assert rows(tmp_path / "out") == [f"p{n}" for n in range(1, received + 21)]


def test_killed_while_the_disk_is_full(tmp_path: Path, disk: Disk) -> None:
    """Nothing at or below the last ACK is missing afterwards, and what was RECEIVED and is lost answers RESEND."""
    conf, port, options = _job(tmp_path, disk, env="checkpoint.interval = 300")
    with Job(conf, *options) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_until(100)
        wait_until(lambda: collector.poll() == "ACK:100", PATIENCE_S, "a checkpoint")
        collector.offer_until(101)
        disk.fill()
        while collector.received < 130 and collector.offer(patience_s=1.0):
            pass
        assert collector.received > 101
        wait_until(lambda: "did not complete" in job.log_text(), PATIENCE_S, "a failed checkpoint")
        collector.poll()
        acked = collector.acked
        collector.close()
        job.kill()

        assert edgesocket("run", conf, *options).returncode == ExitCode.UNAVAILABLE, "no claim fits on the disk"
        disk.heal()
        with Job(conf, *options) as again:
            assert again.wait_until_listening(), again.log_text()
            with Wire(port) as wire:
                for n in range(1, collector.received + 1):
                    reply = wire.ask(f"__COMMIT__:{n}")
                    assert reply == (f"ACK:{acked}" if n <= acked else "RESEND"), f"{n}: {reply}"
                for n in range(acked + 1, collector.received + 1):
                    assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
                assert wait_for_ack(wire, collector.received) == f"ACK:{collector.received}"
            assert again.stop() == ExitCode.OK
    assert sorted(set(rows(tmp_path / "out"))) == sorted(f"p{n}" for n in range(1, collector.received + 1))


def test_stopped_while_the_disk_is_full(tmp_path: Path, disk: Disk) -> None:
    conf, port, options = _job(tmp_path, disk, env="checkpoint.interval = 300\n checkpoint.timeout = 2000")
    with Job(conf, *options) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_until(10)
        wait_until(lambda: collector.poll() == "ACK:10", PATIENCE_S, "a checkpoint")
        collector.offer_until(11)
        disk.fill()
        collector.offer_until(12)
        collector.close()
        assert job.stop() == ExitCode.TRY_LATER, job.log_text()
        assert "the last confirmed batch is 10" in job.log_text() or "batch is 11" in job.log_text()
        disk.heal()
        with Job(conf, *options) as again:
            assert again.wait_until_listening(), again.log_text()
            with Wire(port) as wire:
                assert wire.ask("__COMMIT__:12") == "RESEND"


def test_a_read_only_file_system_ends_the_job_after_its_lease(tmp_path: Path, disk: Disk) -> None:
    """It cannot show that it lives, so another host may own the job soon: it falls silent (75), and goes on later."""
    conf, port, options = _job(tmp_path, disk, env="lease_ms = 3000")
    with Job(conf, *options) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_until(50)
        wait_until(lambda: collector.poll() == "ACK:50", PATIENCE_S, "a checkpoint")
        with _read_only(disk.path):
            while job.process.poll() is None:
                collector.offer(patience_s=0.2)
                if collector.received > 50:
                    collector.poll()
            assert job.wait() == ExitCode.TRY_LATER, job.log_text()
            assert "Read-only file system" in job.log_text()
            assert edgesocket("run", conf, *options).returncode == ExitCode.UNAVAILABLE
        acked = collector.acked
        collector.close()

        with Job(conf, *options) as again:
            assert again.wait_until_listening(), again.log_text()
            with Wire(port) as wire:
                assert wire.ask("__COMMIT__:50") == f"ACK:{acked}"
                for n in range(acked + 1, collector.received + 1):
                    assert wire.ask(f"__COMMIT__:{n}") == "RESEND"
                for n in range(acked + 1, collector.received + 11):
                    assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
                top = collector.received + 10
                assert wait_for_ack(wire, top) == f"ACK:{top}"
            assert again.stop() == ExitCode.OK
    assert set(rows(tmp_path / "out")) == {f"p{n}" for n in range(1, top + 1)}


def test_a_file_system_that_was_taken_away_confirms_nothing(tmp_path: Path, disk: Disk) -> None:
    """An empty directory is in its place: files can be made there, but they are nobody's state."""
    env = "checkpoint.interval = 1000\n checkpoint.failure.timeout = 4000\n job.retry.interval.seconds = 0"
    conf, port, options = _job(tmp_path, disk, env=env)
    with Job(conf, *options) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_until(10)
        wait_until(lambda: collector.poll() == "ACK:10", PATIENCE_S, "a checkpoint")
        collector.offer_until(20)
        _mount("-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", disk.path)
        try:
            before = collector.acked
            wait_until(lambda: "did not complete" in job.log_text(), PATIENCE_S, "a failed checkpoint")
            if before < 20:  # the checkpoint was not quicker than the mount
                assert collector.poll() == "PENDING"
        finally:
            _unmount(disk.path)
        collector.offer_until(30)
        # It goes on by itself, at the latest from the last checkpoint: then what came later is asked for again.
        wait_until(lambda: collector.poll() == "ACK:30", PATIENCE_S, "confirming it all")
        collector.close()
        assert job.stop() == ExitCode.OK, job.log_text()
    assert set(rows(tmp_path / "out")) == {f"p{n}" for n in range(1, 31)}


def test_a_sink_without_room_holds_rows_back_until_the_queue_is_full(tmp_path: Path, disk: Disk) -> None:
    """Rows wait in the queue, QUEUE_FULL follows, nothing is confirmed; then it goes on without a restart."""
    out = disk.path / "out"
    sink = f'LocalFile {{ path = "{out}", file_format_type = text }}'
    source = "local_queue_capacity = 20"
    port = free_port()
    conf = write_job(tmp_path, port, sink=sink, source=source, env="checkpoint.interval = 300")
    state = tmp_path / "elsewhere"
    with Job(conf, "--state-dir", str(state)) as job, Collector(port) as collector:
        assert job.wait_until_listening(), job.log_text()
        collector.offer_until(5)
        wait_until(lambda: collector.poll() == "ACK:5", PATIENCE_S, "a checkpoint")
        disk.fill()
        deadline = time.monotonic() + PATIENCE_S
        while not (reply := collector.offer()).startswith("QUEUE_FULL"):
            assert reply == "RECEIVED"
            assert time.monotonic() < deadline
        assert 5 + 18 <= collector.received <= 5 + 18 + 20, "the queue, and what the pump has in its hands"
        assert collector.poll() == "PENDING"
        assert "does not take rows" in job.log_text()
        assert "No space left on device" in job.log_text()
        live = Disk(state)
        wait_until(lambda: _fails_for_s(conf, live, "sinks") > 0, PATIENCE_S, "the status")
        assert "A SINK FAILS since" in _status_text(conf, live)

        disk.heal()
        held = collector.received + 1
        collector.offer_until(held + 10)
        wait_until(lambda: collector.poll() == f"ACK:{held + 10}", PATIENCE_S, "going on")
        assert "takes rows again after" in job.log_text()
        collector.close()
        assert job.stop() == ExitCode.OK, job.log_text()
    assert rows(out) == [f"p{n}" for n in range(1, held + 11)], "each once"
