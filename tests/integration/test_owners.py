"""One job, one owner: two real processes on one state directory, dead, stopped and live owners, and the port's lock."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import Job, Wire, free_port, rows, wait_for_ack, wait_until, write_job

pytestmark = pytest.mark.slow

LEASE = "lease_ms = 2000\n job.name = shared"
NO_RETRY = "max_retries = 1\n reconnect_interval_ms = 100"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def _start(conf: Path, state: Path, *options: str, **keywords: object) -> Job:
    return Job(conf, "--state-dir", str(state), *options, **keywords)  # type: ignore[arg-type]


def _two_jobs(tmp_path: Path, *, same_port: bool, env: str = LEASE) -> tuple[Path, Path, int, int]:
    """Two job files of one job, writing into the same directory."""
    first_port = free_port()
    second_port = first_port if same_port else free_port()
    first = write_job(tmp_path, first_port, env=env, source=NO_RETRY, name="first")
    second = write_job(tmp_path, second_port, env=env, source=NO_RETRY, name="second")
    return first, second, first_port, second_port


def _files(state: Path) -> dict[str, tuple[int, int, bytes]]:
    """What must not be touched by somebody else: inode, time and content of all but the signs of life."""
    return {
        str(path.relative_to(state)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(state.rglob("*"))
        if path.is_file() and path.name not in ("beat", "status.json") and not path.name.startswith(".")
    }


def _beat_pid(state: Path) -> int:
    return int(json.loads((state / "beat").read_bytes())["pid"])


def _expect_refusal(job: Job, owner: Job) -> None:
    """It ends with 75 and names who owns the job: pid and host."""
    assert job.wait() == ExitCode.TRY_LATER, job.log_text()
    text = job.log_text()
    assert f"pid {owner.pid} on {socket.gethostname()}" in text, text
    assert "--take-over" in text
    assert "listener opened" not in text


@pytest.mark.parametrize("same_port", [False, True], ids=["two ports", "one port"])
def test_of_two_started_at_once_one_runs_and_the_other_names_it(tmp_path: Path, state: Path, same_port: bool) -> None:
    first_conf, second_conf, *_ = _two_jobs(tmp_path, same_port=same_port)
    with _start(first_conf, state) as first, _start(second_conf, state) as second:
        wait_until(lambda: first.process.poll() is not None or second.process.poll() is not None, what="a refusal")
        owner, other = (first, second) if second.process.poll() is not None else (second, first)

        _expect_refusal(other, owner)
        assert owner.wait_until_listening()
        assert owner.stop() == ExitCode.OK, owner.log_text()


@pytest.mark.parametrize("same_port", [False, True], ids=["two ports", "one port"])
def test_a_second_one_touches_no_file_of_a_running_job(tmp_path: Path, state: Path, same_port: bool) -> None:
    first_conf, second_conf, port, _ = _two_jobs(tmp_path, same_port=same_port)
    with _start(first_conf, state) as owner:
        assert owner.wait_until_listening()
        wire = Wire(port)
        assert wire.ask("__BATCH__:1:a") == "RECEIVED"
        assert wait_for_ack(wire, 1) == "ACK:1"
        before = _files(state)

        with _start(second_conf, state) as other:
            _expect_refusal(other, owner)

        assert _files(state) == before
        assert _beat_pid(state) == owner.pid
        assert json.loads((state / "status.json").read_text())["pid"] == owner.pid
        assert wire.ask("__BATCH__:2:b") == "RECEIVED", "the owner goes on"
        assert wait_for_ack(wire, 2) == "ACK:2"
        wire.close()
        assert owner.stop() == ExitCode.OK


def test_the_lock_of_a_killed_owner_keeps_nobody_waiting(tmp_path: Path, state: Path) -> None:
    conf = write_job(tmp_path, free_port(), env="lease_ms = 30000")  # far longer than any start takes
    started = time.monotonic()
    with _start(conf, state) as first:
        assert first.wait_until_listening()
        plain_start_s = time.monotonic() - started
        wait_until(lambda: (state / "beat").exists())
        first.kill()
        assert (state / "lock").exists()

        started = time.monotonic()
        with _start(conf, state) as second:
            assert second.wait_until_listening(), second.log_text()
            assert time.monotonic() - started < plain_start_s * 2 + 5, "it must not wait for the lease"
            assert second.stop() == ExitCode.OK


def test_a_stopped_owner_wakes_up_fenced_and_says_nothing_more(tmp_path: Path, state: Path) -> None:
    first_conf, second_conf, first_port, second_port = _two_jobs(tmp_path, same_port=False)
    with _start(first_conf, state) as first:
        assert first.wait_until_listening()
        old = Wire(first_port)
        assert old.ask(*(f"__BATCH__:{n}:p{n}" for n in range(1, 21))) == " ".join(["RECEIVED"] * 20)
        assert wait_for_ack(old, 20) == "ACK:20"
        os.kill(first.pid, signal.SIGSTOP)
        first.wait_for_state("T")
        old.send(*(f"__BATCH__:{n}:z{n}" for n in range(21, 61)), "__COMMIT__:20", "__COMMIT__:60")

        with _start(second_conf, state) as second:
            assert second.wait_until_listening(), second.log_text()
            wire = Wire(second_port)
            assert wire.ask("__COMMIT__:20") == "ACK:20"
            assert wire.ask(*(f"__BATCH__:{n}:p{n}" for n in range(21, 51))) == " ".join(["RECEIVED"] * 30)
            assert wait_for_ack(wire, 50) == "ACK:50"
            before = _files(state)

            os.kill(first.pid, signal.SIGCONT)
            assert first.wait(20) == ExitCode.TRY_LATER, first.log_text()

            assert _everything_from(old) == b"", "not a byte after the lease"
            assert _files(state) == before, "a fenced owner writes nothing more"
            assert _beat_pid(state) == second.pid
            assert wire.ask("__COMMIT__:50", "__COMMIT__:51") == "ACK:50 RETRY"
            wire.close()
            assert second.stop() == ExitCode.OK, second.log_text()
    assert sorted(rows(tmp_path / "out"), key=lambda row: int(row[1:])) == [f"p{n}" for n in range(1, 51)]

    with _start(second_conf, state) as third:
        assert third.wait_until_listening(), third.log_text()
        wire = Wire(second_port)
        assert wire.ask("__COMMIT__:50", "__COMMIT__:51") == "ACK:50 RETRY"
        wire.close()


@pytest.mark.parametrize("point", ["create.synced:log/", "create.written:queue", "before Complete"])
def test_an_owner_that_slept_inside_a_checkpoint_cannot_complete_it(tmp_path: Path, state: Path, point: str) -> None:
    first_conf, second_conf, first_port, second_port = _two_jobs(tmp_path, same_port=False)
    # The claim and `started` are the first two files in log/; so this is the checkpoint with records, or a later one.
    nth = 3 if "log/" in point else 2
    with _start(first_conf, state, kill_at=(point, nth), signal_at_point=signal.SIGSTOP) as first:
        assert first.wait_until_listening()
        old = Wire(first_port)
        offered = acked = 0
        old.socket.settimeout(1.0)
        with contextlib.suppress(OSError):
            while True:
                assert old.ask(f"__BATCH__:{offered + 1}:p{offered + 1}") == "RECEIVED"
                offered += 1
                reply = old.ask(f"__COMMIT__:{offered}")
                acked = int(reply[4:]) if reply.startswith("ACK:") else acked
        first.wait_for_state("T")

        with _start(second_conf, state) as second:
            assert second.wait_until_listening(), second.log_text()
            wire = Wire(second_port)
            top = offered + 10
            for n in range(acked + 1, top + 1):
                assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
            assert wait_for_ack(wire, top) == f"ACK:{top}"

            os.kill(first.pid, signal.SIGCONT)
            assert first.wait(20) == ExitCode.TRY_LATER, first.log_text()

            assert b"ACK" not in _everything_from(old)
            assert wire.ask(f"__BATCH__:{top + 1}:p{top + 1}") == "RECEIVED"
            assert wait_for_ack(wire, top + 1) == f"ACK:{top + 1}"
            wire.close()
            assert second.stop() == ExitCode.OK, second.log_text()
    assert {f"p{n}" for n in range(1, top + 2)} <= set(rows(tmp_path / "out"))


def test_take_over_fences_a_live_owner_within_five_seconds(tmp_path: Path, state: Path) -> None:
    # With rare checkpoints the first one finds out late: it goes on answering after the other one's claim.
    env = f"{LEASE}\n checkpoint.interval = 3000"
    first_conf, second_conf, first_port, second_port = _two_jobs(tmp_path, same_port=False, env=env)
    with _start(first_conf, state) as first:
        assert first.wait_until_listening()
        with _collector(first_port) as collector, _start(second_conf, state, "--take-over") as second:
            assert second.wait_until_listening(), second.log_text()
            assert first.wait(5) == ExitCode.TRY_LATER, first.log_text()
            received = collector.end()
            assert received > 0

            # What was answered while one was already claiming for the other is either known there, or not confirmed.
            wire = Wire(second_port)
            top = received + 10
            known = {n: wire.ask(f"__COMMIT__:{n}") for n in range(1, received + 1)}
            for n in range(received + 1, top + 1):
                assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
            for n, reply in known.items():
                assert reply.partition(":")[0] in ("ACK", "PENDING", "RESEND"), f"{n} was RECEIVED, and now {reply}"
                if reply == "RESEND":
                    assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
            assert wait_for_ack(wire, top) == f"ACK:{top}"
            wire.close()
            assert second.stop() == ExitCode.OK, second.log_text()
    assert {f"p{n}" for n in range(1, top + 1)} <= set(rows(tmp_path / "out"))


def test_take_over_with_the_same_port_waits_for_the_port(tmp_path: Path, state: Path) -> None:
    port = free_port()
    conf = write_job(tmp_path, port, env=LEASE)
    with _start(conf, state) as first:
        assert first.wait_until_listening()
        wire = Wire(port)
        with _start(conf, state, "--take-over", log=tmp_path / "second.log") as second:
            assert second.wait_until_listening(), second.log_text()
            assert first.wait(5) == ExitCode.TRY_LATER, first.log_text()
            wire.close()
            with Wire(port) as wire:
                assert wire.ask("__BATCH__:1:a") == "RECEIVED"


def test_a_fenced_owner_ends_even_if_its_disk_never_comes_back(tmp_path: Path, state: Path) -> None:
    first_conf, second_conf, *_ = _two_jobs(tmp_path, same_port=False)
    with _start(first_conf, state, kill_at=("create.written:queue", 1), signal_at_point=None) as first:
        assert first.wait_until_listening()
        with _start(second_conf, state, "--take-over") as second:
            assert second.wait_until_listening(), second.log_text()
            assert first.wait(15) == ExitCode.TRY_LATER, first.log_text()


def test_the_port_of_a_connected_job_is_kept_for_it(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "other").mkdir()
    first_conf = write_job(tmp_path, port, name="holder")
    second_conf = write_job(tmp_path / "other", port, source=NO_RETRY, name="thief")
    with Job(first_conf) as first:
        assert first.wait_until_listening()
        wire = Wire(port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)  # the listener is suspended

        with Job(second_conf) as second:
            assert second.wait() == ExitCode.UNAVAILABLE, second.log_text()
            text = second.log_text()
            assert f"port {port}" in text
            assert f"pid {first.pid}" in text
            assert "job holder" in text

        wire.close()
        wait_until(lambda: first.log_text().count("listener opened") == 2, what="reopening the port")
        with Wire(port) as wire:
            assert wire.ask("__BATCH__:1:a") == "RECEIVED"


class _Collector(threading.Thread):
    """Sends 1, 2, 3, ... one by one until the connection ends."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._wire = Wire(port)
        self._ending = False
        self._received = 0
        self._unexpected = ""

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                n = self._received + 1
                reply = self._wire.ask(f"__BATCH__:{n}:p{n}")
                if not reply:
                    return
                if reply != "RECEIVED":
                    self._unexpected = reply
                    return
                self._received = n
                time.sleep(0.002)

    def end(self) -> int:
        """Wait for the end of the connection; returns the highest id that was RECEIVED."""
        self.join(20)
        assert not self.is_alive()
        assert not self._unexpected, self._unexpected
        self._wire.close()
        return self._received


@contextlib.contextmanager
def _collector(port: int) -> Iterator[_Collector]:
    collector = _Collector(port)
    collector.start()
    yield collector


def _everything_from(wire: Wire) -> bytes:
    """What still comes on this connection until it ends."""
    wire.socket.settimeout(10)
    pieces = []
    try:
        while piece := wire.socket.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    finally:
        wire.close()
    return b"".join(pieces)
