"""The lookup answers from the store, and a collector understands it."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cluster.attempts import Attempt, Attempts
from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.lookup import Directory, LookupServer
from edgesocket.cluster.submitting import submit
from edgesocket.collector.lookup import JobFinder
from tests.unit.cluster.cluster_kit import CLUSTER, some_jobs, submission


def ran(jobs: Jobs, name: str, *, endpoint: str = "", epoch: int = 3) -> None:
    """The job has run on 10.0.0.2."""
    place = jobs.place(name)
    attempt = Attempt(time_ms=1_700_000_000_000, host=name, start=1, node="n", address="10.0.0.2", pid=7, order=1)
    Attempts(place.open_store()).note(attempt)
    place.write_status({"state": "running", "epoch": epoch, "endpoint": endpoint})


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return some_jobs(tmp_path / "states")


@pytest.fixture
def url(jobs: Jobs) -> Iterator[str]:
    with LookupServer(("127.0.0.1", 0), Directory(jobs)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("piece", [b"G", b"\n"])
def test_who_drips_a_request_is_not_waited_for(url: str, piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgesocket.cluster.lookup.REQUEST_S", 0.3)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 5) as peer:
        while time.monotonic() - began < 10:
            try:
                peer.sendall(piece)
            except OSError:
                break
            time.sleep(0.05)
    assert time.monotonic() - began < 5


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=5) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


def test_where_a_job_is_bound_is_its_endpoint_unless_it_names_one(jobs: Jobs, url: str) -> None:
    for name, port, endpoint in (("edge", 9999, ""), ("other", 9998, "lb.example:443")):
        submit(jobs, submission(name, port), CLUSTER)
        ran(jobs, name, endpoint=endpoint)
    assert get(f"{url}/jobs/edge") == {
        "endpoint": "10.0.0.2:9999", "address": "10.0.0.2:9999", "epoch": 3,
        "since": "2023-11-14T22:13:20+00:00", "running": False,
    }  # fmt: skip
    assert get(f"{url}/jobs/other")["endpoint"] == "lb.example:443"
    assert get(f"{url}/jobs/other")["address"] == "10.0.0.2:9998"
    assert sorted(get(f"{url}/jobs")["jobs"]) == ["edge", "other"]
    assert get(f"{url}/healthz") == {"status": "ok"}


@pytest.mark.parametrize("path", ["/jobs/nobody", "/jobs/..%2F.cluster", "/jobs/", "/", f"/jobs/{'x' * 5000}"])
def test_what_is_not_there_is_404(jobs: Jobs, url: str, path: str) -> None:
    submit(jobs, submission(), CLUSTER)
    if path == "/jobs/":
        assert get(url + path) == {"jobs": {}}
        return
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(url + path)
    with caught.value as error:
        assert error.code == 404


def test_however_many_ask_the_store_is_read_once_a_moment(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(jobs, submission(), CLUSTER)
    ran(jobs, "edge")
    now = [100.0]
    directory = Directory(jobs, lambda: now[0])
    looks: list[str] = []
    view = jobs.view
    monkeypatch.setattr(jobs, "view", lambda name, at: looks.append(name) or view(name, at))
    for _ in range(50):
        assert directory.job("edge") is not None
    assert looks == ["edge"]
    now[0] += 1.0
    directory.job("edge")
    assert len(looks) == 2


def test_a_collector_finds_the_job(jobs: Jobs, url: str) -> None:
    submit(jobs, submission("a b"), CLUSTER)
    ran(jobs, "a b")
    assert JobFinder(url, "a b")() == ("10.0.0.2", 9999)


def test_a_collector_is_told_why_it_does_not(jobs: Jobs, url: str) -> None:
    with pytest.raises(OSError, match="it knows no such job"):
        JobFinder(url, "nobody")()
    with pytest.raises(OSError, match=r"asking http://127\.0\.0\.1:1/jobs/edge where the job is: .*refused"):
        JobFinder("http://127.0.0.1:1", "edge")()
