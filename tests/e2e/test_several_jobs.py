"""Several jobs in one process, and stopping one from outside, as a user does it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import ROOT, Wire, edgesocket, free_port, wait_until, write_job


@pytest.fixture
def ports() -> dict[str, int]:
    return {"a": free_port(), "b": free_port()}


@pytest.fixture
def jobs(tmp_path: Path, ports: dict[str, int]) -> dict[str, Path]:
    return {name: write_job(tmp_path, port, sink="Null {}", name=name) for name, port in ports.items()}


@contextmanager
def running(directory: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / "log").open("wb") as log:
        command = [sys.executable, "-m", "edgesocket", *map(str, arguments)]
        process = subprocess.Popen(command, stderr=log, stdout=log, cwd=ROOT, env={**os.environ})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def log_of(directory: Path) -> str:
    return (directory / "log").read_text()


def wait_for_log(directory: Path, *texts: str) -> None:
    wait_until(lambda: all(text in log_of(directory) for text in texts), what=f"{texts} in the log")


def states(directory: Path) -> dict[str, str]:
    listed = json.loads(edgesocket("jobs", directory / ".edgesocket", "--format", "json").stdout)
    return {job["Job ID"]: job["Job Status"] for job in listed}


def test_jobs_run_beside_each_other_and_end_one_by_one(
    tmp_path: Path, jobs: dict[str, Path], ports: dict[str, int]
) -> None:
    with running(tmp_path, "run", *jobs.values()) as process:
        wait_for_log(tmp_path, "[a] listener opened", "[b] listener opened")
        with Wire(ports["a"]) as a, Wire(ports["b"]) as b:
            assert a.ask("__BATCH__:1:x") == b.ask("__BATCH__:7:y") == "RECEIVED"
        assert states(tmp_path) == {"a": "RUNNING", "b": "RUNNING"}

        stopped = edgesocket("savepoint", jobs["a"])
        assert stopped.returncode == ExitCode.OK, stopped.stderr
        assert "confirmed up to batch 1" in stopped.stdout
        assert states(tmp_path) == {"a": "SAVEPOINT_DONE", "b": "RUNNING"}
        by_name = edgesocket("status", "a", cwd=tmp_path)
        assert "ended at" in by_name.stdout, by_name.stderr
        with Wire(ports["b"]) as b:
            assert b.ask("__BATCH__:8:z") == "RECEIVED", "the other one goes on"

        cancelled = edgesocket("-can", "b", cwd=tmp_path)
        assert cancelled.returncode == ExitCode.OK, cancelled.stderr
        assert "state stays" in cancelled.stdout
        assert process.wait(30) == ExitCode.OK, log_of(tmp_path)
        assert "[b] stopped; every batch received is confirmed (watermark 8)" in log_of(tmp_path)
    assert edgesocket("savepoint", jobs["a"]).returncode == ExitCode.UNAVAILABLE


def test_sigterm_stops_all_gracefully(tmp_path: Path, jobs: dict[str, Path], ports: dict[str, int]) -> None:
    with running(tmp_path, "run", *jobs.values(), "--state-dir", tmp_path / "states") as process:
        wait_for_log(tmp_path, "[a] listener opened", "[b] listener opened")
        with Wire(ports["b"]) as b:
            assert b.ask("__BATCH__:7:y") == "RECEIVED"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == ExitCode.OK, log_of(tmp_path)
    assert "[b] stopped; every batch received is confirmed (watermark 7)" in log_of(tmp_path)
    assert sorted(path.name for path in (tmp_path / "states").iterdir()) == ["a", "b"]


def test_a_job_that_fails_leaves_the_others_alone_and_its_code_is_the_process_s(
    tmp_path: Path, ports: dict[str, int]
) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        bad = write_job(
            tmp_path,
            taken.getsockname()[1],
            sink="Null {}",
            name="bad",
            source="max_retries = 0",
            env="job.retry.times = 0",
        )
        good = write_job(tmp_path, ports["a"], sink="Null {}", name="good")
        with running(tmp_path, "run", bad, good) as process:
            wait_for_log(tmp_path, "[bad] the job has ended", "[good] listener opened")
            with Wire(ports["a"]) as wire:
                assert wire.ask("__BATCH__:1:x") == "RECEIVED"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == ExitCode.UNAVAILABLE, log_of(tmp_path)


def test_a_job_that_was_taken_over_falls_silent_and_the_other_goes_on(
    tmp_path: Path, jobs: dict[str, Path], ports: dict[str, int]
) -> None:
    with running(tmp_path, "run", *jobs.values()) as process:
        wait_for_log(tmp_path, "[a] listener opened", "[b] listener opened")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        other = write_job(elsewhere, free_port(), sink="Null {}", name="a")
        with running(elsewhere, "run", other, "--state-dir", tmp_path / ".edgesocket" / "a", "--take-over") as taker:
            wait_for_log(elsewhere, "listener opened")
            wait_for_log(tmp_path, "[a] the job has ended")
            with Wire(ports["b"]) as b:
                assert b.ask("__BATCH__:1:x") == "RECEIVED"
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", ports["a"]), 5).close()
            taker.send_signal(signal.SIGTERM)
            assert taker.wait(30) == ExitCode.OK, log_of(elsewhere)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == ExitCode.TRY_LATER, log_of(tmp_path)


@pytest.mark.parametrize("same", ["name", "port"])
def test_jobs_that_do_not_fit_are_refused_before_one_starts(tmp_path: Path, ports: dict[str, int], same: str) -> None:
    first = write_job(tmp_path, ports["a"], sink="Null {}", name="a", env="job.name = one")
    name, port = ("one", ports["b"]) if same == "name" else ("two", ports["a"])
    second = write_job(tmp_path, port, sink="Null {}", name="b", env=f"job.name = {name}")
    refused = edgesocket("run", first, second)
    assert refused.returncode == ExitCode.CONFIG
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.conf", "b.conf"], "nothing was made"


def test_a_job_asks_for_labels(tmp_path: Path, ports: dict[str, int]) -> None:
    conf = write_job(tmp_path, ports["a"], sink="Null {}", env="tag_filter { zone = a }")
    refused = edgesocket("run", conf, "--label", "zone=b")
    assert refused.returncode == ExitCode.CONFIG
    assert "env.tag_filter.zone" in refused.stderr
    assert list(tmp_path.iterdir()) == [conf]
    with running(tmp_path, "-c", conf, "--label", "zone=a", "--label", "more=1") as process:
        wait_for_log(tmp_path, "listener opened")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == ExitCode.OK


def test_restore_goes_on_where_savepoint_stopped(tmp_path: Path, jobs: dict[str, Path], ports: dict[str, int]) -> None:
    with running(tmp_path, "-c", jobs["a"]) as process:
        wait_for_log(tmp_path, "listener opened")
        with Wire(ports["a"]) as wire:
            assert wire.ask("__BATCH__:5:x") == "RECEIVED"
        stopped = edgesocket("-s", "a", cwd=tmp_path)
        assert stopped.returncode == ExitCode.OK, stopped.stderr
        assert process.wait(30) == ExitCode.OK
    with running(tmp_path, "-c", jobs["a"], "-r", "a") as process:
        wait_for_log(tmp_path, "listener opened")
        with Wire(ports["a"]) as wire:
            assert wire.ask("__COMMIT__:5") == "ACK:5"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == ExitCode.OK
