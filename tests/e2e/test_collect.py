"""`edgesocket collect --file` against `edgesocket run`: every line, once, exactly; on a small box, on a bare Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import AgentProcess, status, write_config
from tests.support.jobs import ROOT, TOKEN, Job, free_port, rows, wait_until, write_job

MIB = 1024 * 1024
MOST_IDLE_RSS_BYTES = 40 * MIB
MOST_IDLE_CPU = 0.01
TMPFS_BYTES = 12 * MIB


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


ROOMY = "deduplicate = true\n local_queue_capacity = 200000"
"""A queue that is never full: then records arrive in order."""


@contextmanager
def job(directory: Path, port: int, source: str = ROOMY) -> Iterator[Job]:
    with Job(write_job(directory, port, source=source)) as running:
        assert running.wait_until_listening(), running.log_text()
        yield running


def flags(port: int, tmp_path: Path, *globs: str | Path) -> list[str]:
    files = [part for glob in globs for part in ("--file", str(glob))]
    return [*files, "--from-beginning", "--to", f"127.0.0.1:{port}", "--spool", str(tmp_path / "spool")]


def test_once_delivers_what_is_there_and_ends(tmp_path: Path, out: Path) -> None:
    port = free_port()
    (tmp_path / "logs").mkdir()
    lines = [f"line {number} \u00fc" for number in range(5000)]
    (tmp_path / "logs" / "a.log").write_text("\n".join([*lines, "", "no line end"]))
    with job(tmp_path, port):
        arguments = [*flags(port, tmp_path, tmp_path / "logs" / "*.log"), "--once", "--timeout", "60"]
        with AgentProcess(*arguments, log=tmp_path / "agent.log") as agent:
            assert agent.wait(60) == 0, agent.log_text()
        assert rows(out) == [*lines, "", "no line end"]
        with (tmp_path / "logs" / "a.log").open("a") as stream:
            stream.write("\nmore\n")
        with AgentProcess(*arguments, log=tmp_path / "agent.log") as agent:
            assert agent.wait(60) == 0, agent.log_text()
        assert rows(out) == [*lines, "", "no line end", "more"], "a second run goes on where the first ended"


def test_once_gives_up_in_time_and_the_spool_keeps_the_rest(tmp_path: Path, out: Path) -> None:
    port = free_port()
    (tmp_path / "a.log").write_text("one\ntwo\n")
    arguments = [*flags(port, tmp_path, tmp_path / "a.log"), "--once"]
    with AgentProcess(*arguments, "--timeout", "4", log=tmp_path / "agent.log") as agent:
        assert agent.wait(60) == 75
    (tmp_path / "a.log").unlink()
    with job(tmp_path, port), AgentProcess(*arguments, log=tmp_path / "agent.log") as agent:
        assert agent.wait(60) == 0, agent.log_text()
        assert rows(out) == ["one", "two"]


def test_once_ends_where_the_token_is_refused(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "a.log").write_text("one\n")
    with job(tmp_path, port), AgentProcess(
        *flags(port, tmp_path, tmp_path / "a.log"), "--once",
        log=tmp_path / "agent.log", env={"EDGESOCKET_TOKEN": "wrong"},
    ) as agent:  # fmt: skip
        assert agent.wait(60) == 77
        assert "wrong" not in agent.log_text()


def test_a_file_that_grows_and_is_rotated_is_followed(tmp_path: Path, out: Path) -> None:
    port = free_port()
    path = tmp_path / "app.log"
    path.write_text("")
    with (
        job(tmp_path, port),
        AgentProcess(*flags(port, tmp_path, tmp_path / "app.log*"), log=tmp_path / "agent.log") as agent,
    ):
        expected = []
        for turn in range(4):
            with path.open("a") as stream:
                for number in range(500):
                    expected.append(f"{turn}-{number}")
                    stream.write(f"{turn}-{number}\n")
            path.rename(tmp_path / f"app.log.{turn}")
            path.write_text("")
        wait_until(lambda: len(rows(out)) >= len(expected))
        assert sorted(rows(out)) == sorted(expected)
        assert agent.stop() == 0


def test_envelopes_say_file_and_offset(tmp_path: Path, out: Path) -> None:
    port = free_port()
    (tmp_path / "a.log").write_text("one\ntwo\n")
    with (
        job(tmp_path, port),
        AgentProcess(
            *flags(port, tmp_path, tmp_path / "a.log"), "--envelope", "--once", log=tmp_path / "agent.log"
        ) as agent,
    ):
        assert agent.wait(60) == 0, agent.log_text()
    found = [json.loads(row) for row in rows(out)]
    assert [(one["message"], one["file"], one["offset"]) for one in found] == [
        ("one", str(tmp_path / "a.log"), 0),
        ("two", str(tmp_path / "a.log"), 4),
    ]
    assert all(one["time"].endswith("Z") and one["host"] for one in found)


def test_while_the_ingress_is_stopped_records_go_on_into_the_spool(tmp_path: Path, out: Path) -> None:
    port, health = free_port(), free_port()
    path = tmp_path / "a.log"
    path.write_text("")
    with (
        job(tmp_path, port) as running,
        AgentProcess(*flags(port, tmp_path, path), "--http-port", str(health), log=tmp_path / "agent.log"),
    ):
        wait_until(lambda: not _problems(health))
        os.kill(running.pid, signal.SIGSTOP)
        with path.open("a") as stream:
            stream.write("".join(f"{number}\n" for number in range(50_000)))
        wait_until(lambda: status(health)["spool"]["records"] == 50_000)
        os.kill(running.pid, signal.SIGCONT)
        wait_until(lambda: len(rows(out)) == 50_000)
        assert rows(out) == [str(number) for number in range(50_000)]


def _problems(port: int) -> Any:
    try:
        return status(port)["problems"]
    except OSError as problem:
        return [str(problem)]


@contextmanager
def small_disk(where: Path) -> Iterator[Path]:
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_said_and_ends_by_itself(tmp_path: Path, out: Path) -> None:
    port, health = free_port(), free_port()
    path = tmp_path / "a.log"
    lines = [f"{number:06d} {'x' * 200}" for number in range(60_000)]
    path.write_text("\n".join(lines) + "\n")
    with small_disk(tmp_path / "disk") as disk:
        arguments = flags(port, disk, path)
        (disk / "ballast").write_bytes(b"\0" * (4 * MIB))
        with AgentProcess(*arguments, "--http-port", str(health), log=tmp_path / "agent.log") as agent:
            agent.wait_for_log("the spool cannot be written (No space left on device)")
            assert any("cannot be written" in problem for problem in status(health)["problems"])
            (disk / "ballast").unlink()
            agent.wait_for_log("the spool can be written again")
            with job(tmp_path, port):
                wait_until(lambda: len(rows(out)) >= len(lines), 60, "all rows")
                assert rows(out) == lines
                wait_until(lambda: status(health)["problems"] == [])
                assert agent.stop() == 0


@pytest.mark.slow
def test_an_agent_that_has_nothing_to_do_is_small_and_idle(tmp_path: Path, out: Path) -> None:
    port, logs = free_port(), tmp_path / "logs"
    logs.mkdir()
    for number in range(20):
        (logs / f"{number}.log").write_text(f"{number}\n")
    config = write_config(
        tmp_path / "agent.json", port, tmp_path / "spool",
        {"type": "file", "paths": [str(logs / "*.log")], "from_beginning": True},
        {"type": "syslog", "port": free_port()}, {"type": "http", "port": free_port()}, http={"port": free_port()},
    )  # fmt: skip
    with job(tmp_path, port), AgentProcess(config, log=tmp_path / "agent.log") as agent:
        wait_until(lambda: len(rows(out)) == 20)
        time.sleep(2.0)  # what follows the last record
        before, began = agent.cpu_s(), time.monotonic()
        time.sleep(15.0)
        share = (agent.cpu_s() - before) / (time.monotonic() - began)
        assert agent.rss_bytes() <= MOST_IDLE_RSS_BYTES, f"{agent.rss_bytes() / MIB:.1f} MiB"
        assert share < MOST_IDLE_CPU, f"{100 * share:.2f} % of a core"


@pytest.mark.slow
def test_the_core_install_is_enough(tmp_path: Path, out: Path) -> None:
    """A Python with nothing but the project's own files, against a job of the full environment."""
    port = free_port()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    site = next((tmp_path / "bare" / "lib").glob("python*/site-packages"))
    (site / "edgesocket").symlink_to(ROOT / "src" / "edgesocket")
    bare = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "EDGESOCKET_TOKEN": TOKEN}, "check": False}
    for library in ("numpy", "pyarrow", "yaml", "cryptography"):
        assert subprocess.run([python, "-c", f"import {library}"], capture_output=True, **bare).returncode != 0
    lines = [f"line {number}" for number in range(10_000)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    arguments = [python, "-m", "edgesocket", "collect", *flags(port, tmp_path, tmp_path / "a.*"), "--once"]
    with job(tmp_path, port):
        result = subprocess.run(arguments, capture_output=True, text=True, timeout=60, **bare)
    assert result.returncode == 0, result.stderr
    assert rows(out) == lines
    (tmp_path / "agent.yaml").write_text("to: edge:1\n")
    result = subprocess.run(
        [python, "-m", "edgesocket", "collect", "agent.yaml"], capture_output=True, text=True, timeout=60, **bare
    )
    assert result.returncode == 69
    assert "pip install 'edgesocket[yaml]'" in result.stderr
    packed = subprocess.run(
        [*arguments, "--packet"], capture_output=True, text=True, timeout=60,
        **{**bare, "env": {**bare["env"], "EDGESOCKET_SECRET_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}},
    )  # fmt: skip
    assert packed.returncode == 69
    assert "pip install 'edgesocket[crypto]'" in packed.stderr


def test_starting_imports_nothing_large() -> None:
    """The agent's modules pull in none of the heavy parts of the standard library either."""
    code = "import sys, edgesocket.cli.main, edgesocket.cli.collect; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "pyarrow", "asyncio", "ssl", "http.server", "email", "subprocess", "yaml", "multiprocessing"}
    assert heavy.isdisjoint(loaded), heavy.intersection(loaded)
    assert len(loaded) < 260
