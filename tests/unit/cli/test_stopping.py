"""Asking a job to stop: only the process that runs it is asked, and only if it shows signs of life."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from edgesocket.cli.stopping import End, NoEndError, stop_job
from edgesocket.store.directory import DirectoryPlace
from edgesocket.store.identity import host_identity
from edgesocket.store.ownership import Beat
from edgesocket.store.status_file import write_status
from edgesocket.store.stop_request import REQUEST_FILE, ask_to_stop, asked_to_stop, clear_request


def beat(directory: Path, *, pid: int | None = None, boot: str | None = None, closed: bool = False) -> None:
    host = host_identity()
    mine = Beat("edge", host.host, host.boot if boot is None else boot, pid or os.getpid(), 1, 1, 0, True, closed)
    (directory / "beat").write_text(json.dumps(asdict(mine)))


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    return process.pid


def test_a_request_reaches_the_process_it_names_and_no_other(tmp_path: Path) -> None:
    assert asked_to_stop(tmp_path, "one") == ""
    ask_to_stop(tmp_path, "one", "me")
    assert asked_to_stop(tmp_path, "one") == "me"
    assert asked_to_stop(tmp_path, "two") == ""
    clear_request(tmp_path, "two")
    assert (tmp_path / REQUEST_FILE).exists()
    clear_request(tmp_path, "one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"instance": 1}', "\xff"])
def test_a_broken_request_asks_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / REQUEST_FILE).write_text(content)
    assert asked_to_stop(tmp_path, "one") == ""


def test_a_job_that_does_not_run_is_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stop_job("edge", DirectoryPlace(tmp_path), 1) is None
    beat(tmp_path, closed=True)
    assert stop_job("edge", DirectoryPlace(tmp_path), 1) is None
    beat(tmp_path, pid=dead_pid())
    assert stop_job("edge", DirectoryPlace(tmp_path), 1) is None
    assert "does not run" in capsys.readouterr().err
    assert not (tmp_path / REQUEST_FILE).exists()


def test_an_owner_without_signs_of_life_is_named_and_left_alone(tmp_path: Path) -> None:
    beat(tmp_path, boot="another-kernel", pid=4711)
    with pytest.raises(NoEndError, match="pid 4711 on"):
        stop_job("edge", DirectoryPlace(tmp_path), 1)
    assert not (tmp_path / REQUEST_FILE).exists()


def test_the_answer_is_what_the_owner_says_of_its_end(tmp_path: Path) -> None:
    beat(tmp_path)
    write_status(tmp_path, {"instance": "one"})

    def owner() -> None:
        while not asked_to_stop(tmp_path, "one"):
            time.sleep(0.01)
        write_status(tmp_path, {"instance": "one", "end": {"exit_code": 75, "confirmed": 12}})

    thread = threading.Thread(target=owner)
    thread.start()
    try:
        assert stop_job("edge", DirectoryPlace(tmp_path), 30) == End(75, 12)
    finally:
        thread.join(30)


def test_an_owner_that_does_not_end_in_time_is_named(tmp_path: Path) -> None:
    beat(tmp_path)
    write_status(tmp_path, {"instance": "one"})
    with pytest.raises(NoEndError, match=f"pid {os.getpid()} on"):
        stop_job("edge", DirectoryPlace(tmp_path), 0.05)
