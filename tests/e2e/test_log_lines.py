"""The log of a run as programs read it: every line is a JSON object, from the first to the last."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import TOKEN, Job, Wire, edgesocket, free_port, wait_until, write_job


def lines_of(job: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in job.log_text().splitlines()]


def test_every_line_of_a_run_is_json_and_none_holds_the_token(tmp_path: Path) -> None:
    port = free_port()
    with Job(write_job(tmp_path, port), "--log-format", "json", "--log-level", "debug") as job:
        wait_until(lambda: '"event": "listener_opened"' in job.log_text())
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(b"__AUTH__:wrong\n")
            assert stranger.recv(100) == b"AUTH_FAILED\n"
        wire = Wire(port)
        assert wire.ask("__BATCH__:1:hello") == "RECEIVED"
        wait_until(lambda: wire.ask("__COMMIT__:1") == "ACK:1")
        wire.close()
        assert job.stop() == ExitCode.OK
        lines = lines_of(job)
    events = [line["event"] for line in lines]
    for event in ("authentication_failed", "collector_connected", "checkpoint_completed", "job_stopped"):
        assert event in events, events
    assert all({"time", "level", "event", "text"} <= set(line) for line in lines)
    assert {line["job"] for line in lines if line["event"] != "note"} == {"job"}
    failed = next(line for line in lines if line["event"] == "authentication_failed")
    assert failed["level"] == "warning"
    assert failed["what_to_do"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", failed["fields"]["peer"])
    assert TOKEN not in job.log_text()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_job_that_fails_says_so_in_the_form_that_was_asked_for(tmp_path: Path, form: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        conf = write_job(tmp_path, taken.getsockname()[1], source="max_retries = 0", env="job.retry.times = 0")
        done = edgesocket("run", conf, "--log-format", form)
    assert done.returncode == ExitCode.UNAVAILABLE
    last = done.stderr.splitlines()[-1]
    if form == "json":
        assert all(json.loads(line) for line in done.stderr.splitlines())
        assert json.loads(last)["event"] == "job_failed"
        assert json.loads(last)["level"] == "error"
    else:
        assert last.startswith("edgesocket: ")


def test_from_a_level_on_less_is_left_out(tmp_path: Path) -> None:
    port = free_port()
    with Job(write_job(tmp_path, port), "--log-level", "warning") as job:
        wait_until(lambda: _answers(port))
        assert job.stop() == ExitCode.OK
        assert job.log_text() == ""


def _answers(port: int) -> bool:
    try:
        wire = Wire(port)
    except OSError:
        return False
    wire.close()
    return True
