"""A hundred jobs in one process: what is asked of it is answered at once."""

from __future__ import annotations

import http.client
import re
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import wait_until

pytest.importorskip("starlette")

JOBS = 100
ROUNDS = 60
P50_LIMIT_S = 0.010


def job_text(port: int) -> str:
    source = f'source {{ EdgeSocket {{ port = {port}, token = "t" }} }}'
    return f"env {{ job.mode = STREAMING }}\n{source}\nsink {{ Null {{}} }}\n"


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all at the same time."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def median_s(url: str, path: str) -> float:
    """The median time of an answer, over one connection, as a browser asks."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    times = []
    try:
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            times.append(time.perf_counter() - begun)
            assert answer.status == 200
            time.sleep(0.01)
    finally:
        connection.close()
    return statistics.median(times)


@pytest.mark.slow
def test_a_status_is_answered_within_ten_milliseconds(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for number, port in enumerate(free_ports(JOBS)):
        (jobs / f"job-{number:03}.conf").write_text(job_text(port))
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgesocket", "run", str(jobs), "--http", "127.0.0.1:0"],
            stderr=stream,
            cwd=tmp_path,
        )
    try:
        wait_until(lambda: log.read_text().count("listener opened") == JOBS, 60, "a hundred jobs")
        url = re.search(r"http://[\d.:]+", log.read_text())
        assert url is not None
        wait_until(lambda: median_s(url.group(), "/healthz") < 1, 30, "the server")
        found = {
            path: median_s(url.group(), path)
            for path in ("/api/jobs", "/api/jobs/job-050", "/readyz/job-050", "/healthz", "/job-info/job-050")
        }
        assert all(seconds < P50_LIMIT_S for seconds in found.values()), found
        process.terminate()
        assert process.wait(60) == ExitCode.OK
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)
