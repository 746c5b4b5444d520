"""`edgesocket run` and `serve` with their HTTP server, as processes: flags, files, submitting and stopping jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from edgesocket.errors import ExitCode
from tests.support.jobs import Job, Wire, edgesocket, free_port, rows, wait_for_ack, wait_until, write_job
from tests.support.web import TOKEN, Reply, ask

_URL = re.compile(r"https?://[\w.:\[\]]+:\d+")
ANY_PORT = ("--http", "127.0.0.1:0")


class Server:
    """A process that serves HTTP, with or without jobs."""

    def __init__(self, directory: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.log = directory / "server.log"
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "edgesocket", *arguments],
                stderr=stream,
                stdout=subprocess.DEVNULL,
                cwd=directory,
                env={**os.environ, **(env or {})},
            )
        found = wait_until(lambda: _URL.search(self.text()) or self.process.poll() is not None, 30, "the server")
        assert found is not True, self.text()
        self.url = found.group()

    def text(self) -> str:
        return self.log.read_text()

    def ask(self, path: str, body: Any = None, **more: Any) -> Reply:
        return ask(self.url, path, body, **more)

    def wait_ready(self, name: str = "") -> None:
        wait_until(lambda: self.ask(f"/readyz/{name}" if name else "/readyz").status == 200, 30, "readiness")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


@contextmanager
def server(directory: Path, *arguments: str, env: dict[str, str] | None = None) -> Iterator[Server]:
    running = Server(directory, *arguments, env=env)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(30)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def submitted(port: int, out: Path, name: str = "") -> dict[str, Any]:
    """A job in SeaTunnel's JSON."""
    return {
        "env": {"job.mode": "STREAMING", "checkpoint.interval": 50, **({"job.name": name} if name else {})},
        "source": [{"plugin_name": "EdgeSocket", "port": port, "token": "integration-token", "plugin_output": "in"}],
        "transform": [],
        "sink": [{"plugin_name": "LocalFile", "path": str(out), "file_format_type": "text", "plugin_input": ["in"]}],
    }


def test_a_running_job_is_shown_with_what_it_receives(tmp_path: Path) -> None:
    port = free_port()
    conf = write_job(tmp_path, port)
    with server(tmp_path, "run", str(conf), *ANY_PORT) as one:
        one.wait_ready("job")
        status = json.loads((tmp_path / ".edgesocket/job/status.json").read_text())
        assert status["http"] == one.url, "so that edgesocket top and tail find it"
        with Wire(port) as wire:
            wire.ask(*(f"__BATCH__:{number}:p{number}" for number in range(1, 51)))
            wait_for_ack(wire, 50)
            (job,) = wait_until(
                lambda: [
                    found
                    for found in one.ask("/api/jobs").json["jobs"]
                    if found["status"]["source"]["watermark"] == 50 and found["rates"]["written_rows_per_s"] > 0
                ],
                15,
                "the watermark",
            )
            assert job["state"] == "running"
            assert job["status"]["source"]["replies"]["RECEIVED"] == 50
            assert job["checkpoints"][-1]["status"] == "completed"
            assert job["sessions"][-1]["ended_ms"] is None
            assert one.ask("/job-info/job").json["metrics"]["SinkWriteCount"] == "50"
        assert "edgesocket_" in one.ask("/metrics").body.decode()
        assert one.ask("/stop-job", {"jobId": "job"}).status == 403, "read-only without a token"
        assert one.stop() == ExitCode.OK


def test_with_a_token_a_job_is_stopped_over_http_and_the_process_ends_as_it_did(
    tmp_path: Path, token_file: Path
) -> None:
    port = free_port()
    conf = write_job(tmp_path, port)
    with server(tmp_path, "run", str(conf), *ANY_PORT, "--http-token-file", str(token_file)) as one:
        one.wait_ready()
        with Wire(port) as wire:
            assert wire.ask("__BATCH__:1:last words") == "RECEIVED"
        assert one.ask("/api/jobs/job/stop", {"savepoint": True}).status == 401
        reply = one.ask("/api/jobs/job/stop", {"savepoint": True}, token=TOKEN)
        assert reply.json == {"job": "job", "state": "stopping"}
        assert one.process.wait(30) == ExitCode.OK
        assert "asked to stop by 127.0.0.1, over HTTP" in one.text()
        assert TOKEN not in one.text()
    assert rows(tmp_path / "out") == ["last words"], "what was received went to the sink before the end"


def test_a_job_that_is_submitted_runs_beside_the_first_and_survives_its_end(tmp_path: Path, token_file: Path) -> None:
    first, second = free_port(), free_port()
    conf = write_job(tmp_path, first, name="first")
    with server(tmp_path, "run", str(conf), *ANY_PORT, "--http-token-file", str(token_file)) as one:
        one.wait_ready()
        job = submitted(second, tmp_path / "second")
        assert one.ask("/submit-job?jobName=second", job, token=TOKEN).json == {"jobId": "second", "jobName": "second"}
        one.wait_ready("second")
        assert (tmp_path / ".edgesocket/second/log").is_dir(), "its state lies beside that of the first"
        assert [each["jobName"] for each in one.ask("/running-jobs").json] == ["first", "second"]
        again = one.ask("/submit-job?jobName=second", job, token=TOKEN)
        assert (again.status, "runs in this process already" in again.json["message"]) == (409, True)
        clash = one.ask("/submit-job?jobName=third", job, token=TOKEN)
        assert (clash.status, "binds port" in clash.json["message"]) == (400, True)
        one.ask("/stop-job", {"jobId": "first", "isStopWithSavePoint": True}, token=TOKEN)
        wait_until(lambda: one.ask("/finished-jobs/SAVEPOINT_DONE").json, 20, "the end of the first")
        with Wire(second) as wire:
            assert wire.ask("__BATCH__:1:after the first") == "RECEIVED"
            wait_for_ack(wire, 1)
        assert one.stop() == ExitCode.OK
    assert rows(tmp_path / "second") == ["after the first"]


def test_serve_begins_without_a_job_and_goes_on_after_one(tmp_path: Path, token_file: Path) -> None:
    port, out = free_port(), tmp_path / "out"
    text = (
        "env { job.mode = STREAMING, job.name = clicks, checkpoint.interval = 50 }\n"
        f'source {{ EdgeSocket {{ port = {port}, token = "integration-token" }} }}\n'
        f'sink {{ LocalFile {{ path = "{out}", file_format_type = text }} }}\n'
    ).encode()
    state = tmp_path / "states"
    arguments = ("serve", *ANY_PORT, "--http-token-file", str(token_file), "--state-dir", str(state))
    with server(tmp_path, *arguments) as one:
        wait_until(lambda: one.ask("/healthz").status == 200, 20, "the server")
        assert one.ask("/overview").json["runningJobs"] == "0"
        refused = one.ask("/submit-job?format=hocon&isStartWithSavePoint=true", text, token=TOKEN)
        assert (refused.status, "no state" in refused.json["message"]) == (400, True)
        for batch in (1, 2):
            restored = "&isStartWithSavePoint=true" if batch == 2 else ""
            reply = one.ask(f"/submit-job?format=hocon{restored}", text, token=TOKEN)
            assert reply.json == {"jobId": "clicks", "jobName": "clicks"}, one.text()
            one.wait_ready("clicks")
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:{batch}:b{batch}") == "RECEIVED"
                wait_for_ack(wire, batch)
            assert one.ask("/job-info/clicks").json["isStartWithSavePoint"] is (batch == 2)
            one.ask("/stop-job", {"jobId": "clicks"}, token=TOKEN)
            wait_until(lambda: one.ask("/job-info/clicks").json["jobStatus"] == "SAVEPOINT_DONE", 20, "the stop")
        assert (state / "clicks/log").is_dir()
        assert one.stop() == ExitCode.OK
    assert sorted(rows(out)) == ["b1", "b2"]


def test_what_is_wrong_with_a_submitted_job_is_said_as_check_says_it(tmp_path: Path, token_file: Path) -> None:
    with server(tmp_path, "serve", *ANY_PORT, "--http-token-file", str(token_file)) as one:
        wait_until(lambda: one.ask("/healthz").status == 200, 20, "the server")
        job = submitted(free_port(), tmp_path / "out", "job")
        job["sink"][0]["pth"] = "x"
        job["env"]["parallelism"] = 2
        reply = one.ask("/submit-job", job, token=TOKEN)
        assert reply.status == 400
        assert "2 problems" in reply.json["message"]
        assert "did you mean path?" in reply.json["message"]
        include = one.ask("/submit-job?format=hocon", b'include "/etc/passwd"', token=TOKEN)
        assert include.status == 400
        assert "root:" not in include.body.decode()
        assert one.ask("/submit-job?format=sql", b"SELECT 1", token=TOKEN).status == 400
        assert one.ask("/running-jobs").json == []


def test_a_port_that_is_taken_is_an_error_only_if_it_was_asked_for(tmp_path: Path) -> None:
    conf = write_job(tmp_path, free_port())
    with server(tmp_path, "run", str(conf), *ANY_PORT) as one:
        address = one.url.removeprefix("http://")
        other = write_job(tmp_path, free_port(), name="other")
        refused = edgesocket("run", other, "--http", address)
        assert refused.returncode == ExitCode.UNAVAILABLE
        assert f"port {address.rpartition(':')[2]}" in refused.stderr
        assert one.stop() == ExitCode.OK


def test_without_the_libraries_jobs_run_and_only_who_asks_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('starlette', 'uvicorn') else find(name, *a)\n"
    )
    conf = write_job(tmp_path, free_port())
    env = {"PYTHONPATH": str(blocked)}
    refused = edgesocket("run", conf, *ANY_PORT, env={**os.environ, **env})
    assert refused.returncode == ExitCode.UNAVAILABLE
    assert "pip install 'edgesocket[web]'" in refused.stderr
    with Job(conf, env={**env, "EDGESOCKET_HTTP": ""}) as job:
        assert job.wait_until_listening()
        assert "status page" not in job.log_text()
        assert job.stop() == ExitCode.OK


def test_seatunnel_yaml_switches_the_server_on_and_off(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    conf, port = write_job(tmp_path, free_port()), free_port()
    engine = tmp_path / "seatunnel.yaml"
    http = "seatunnel:\n  engine:\n    http:\n      enable-http: {on}\n      port: {port}\n      context-path: /x\n"
    engine.write_text(http.format(on="true", port=port))
    env = {"EDGESOCKET_HTTP": ""}
    with server(tmp_path, "run", str(conf), "--seatunnel-yaml", str(engine), env=env) as one:
        assert one.url == f"http://127.0.0.1:{port}"
        assert "context-path has no effect" in one.text()
        one.wait_ready()
        assert one.stop() == ExitCode.OK
    engine.write_text(http.format(on="false", port=port))
    with Job(conf, "--seatunnel-yaml", str(engine), env=env) as job:
        assert job.wait_until_listening()
        assert "status page" not in job.log_text()
        assert job.stop() == ExitCode.OK


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, token_file: Path) -> None:
    if shutil.which("curl") is None:
        assert not os.environ.get("CI"), "in CI curl is there"
        pytest.skip("curl is not installed")
    page = (Path(__file__).parents[2] / "docs/http.md").read_text("utf-8").replace("\\\n", " ")
    commands = [line for line in page.splitlines() if line.startswith("curl ")]
    assert len(commands) == 5
    assert token_file.name == "token", "as on the page"
    conf = write_job(tmp_path, free_port())
    (tmp_path / "clicks.conf").write_text(write_job(tmp_path, free_port(), name="other").read_text())
    with server(tmp_path, "run", str(conf), *ANY_PORT, "--http-token-file", str(token_file)) as one:
        one.wait_ready()
        answers = []
        for command in sorted(commands, key=lambda command: "/stop" in command):  # the job is stopped last
            asked = command.replace("http://127.0.0.1:8080", one.url)
            run = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, cwd=tmp_path, check=True)
            answers.append(json.loads(run.stdout))
            wait_until(lambda: one.ask("/readyz").status == 200 or "/stop" in command, 20, "all jobs")  # noqa: B023
        assert [answer.get("status", answer.get("jobName", answer.get("state"))) for answer in answers] == [
            *["ok"] * 3,
            "clicks",
            "stopping",
        ]


CONFIGURATION = f"""
headers = {{ Authorization = "Bearer {TOKEN}" }}

[parameters]
count = 1
rows = 1

[phases.coverage]
unexpected-methods = ["DELETE"]

[[operations]]
include-operation-id = ["submitJob", "replay"]
# What makes a job right, or two fields exclude each other, is more than a JSON schema says.
checks.positive_data_acceptance.expected-statuses = ["200", "400", "401", "403", "404", "409"]

[[operations]]
include-tag = "probes"
# That something is not well is what a probe says with 503.
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", "503"]
"""


_OPTIONS = (
    "--phases examples,coverage,fuzzing --seed 1 --max-examples 3 --request-timeout 20 --exclude-operation-id tail "
    "--no-color"
)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_answer_is_as_the_document_says_whatever_is_asked(tmp_path: Path, token_file: Path) -> None:
    program = Path(sysconfig.get_path("scripts")) / "schemathesis"
    if not program.exists():
        assert not os.environ.get("CI"), "in CI schemathesis is there"
        pytest.skip("schemathesis is not installed")
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION)
    with server(tmp_path, "serve", *ANY_PORT, "--http-token-file", str(token_file)) as one:
        wait_until(lambda: one.ask("/healthz").status == 200, 20, "the server")
        for name in ("one", "two"):
            assert one.ask("/submit-job", submitted(free_port(), tmp_path / name, name), token=TOKEN).status == 200
            one.wait_ready(name)
        run = subprocess.run(
            [str(program), "--config-file", str(configuration), "run", f"{one.url}/openapi.json", *_OPTIONS.split()],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=200,
            check=False,
        )
        assert run.returncode == 0, run.stdout + one.text()
        assert "a bug" not in one.text()
        assert one.process.poll() is None
