"""Orders, the registry and the lookup of a cluster whose states lie in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="needs obstore: the extra s3")
pytest.importorskip("moto.server", reason="needs moto's server")

from edgesocket.cluster.attempts import Attempt, Attempts
from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.lookup import Directory
from edgesocket.cluster.orders import OrderRefusedError, Wanted
from edgesocket.cluster.submitting import submit
from edgesocket.errors import ConfigError
from edgesocket.store.place import root_of
from tests.support.s3_faults import DROP, KEYS, LOSE, FaultyS3, faulty_s3
from tests.unit.cluster.cluster_kit import CLUSTER, submission


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with faulty_s3() as proxy:
        yield proxy


@pytest.fixture(params=["good", "failing now and then"])
def jobs(
    request: pytest.FixtureRequest, server: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Jobs]:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setenv("EDGESOCKET_SCRATCH", str(tmp_path))
    root = root_of(f"s3://{server.bucket()}/states")
    if request.param != "good":
        fates = (503, DROP, LOSE, 500)
        server.fate = lambda asked: None if asked.count % 4 else fates[asked.count // 4 % len(fates)]
    yield Jobs(root)
    server.fate = lambda asked: None


def test_jobs_are_submitted_refused_found_and_ended(jobs: Jobs) -> None:
    order = submit(jobs, submission("edge"), CLUSTER)
    with pytest.raises(OrderRefusedError):
        submit(jobs, submission("edge"), CLUSTER)
    with pytest.raises(ConfigError, match="job edge listens on port 9999 too"):
        submit(jobs, submission("other"), CLUSTER)
    assert submit(jobs, submission("third", 9998, host="edge"), CLUSTER).n == 1
    assert sorted(jobs.registry.jobs()) == ["edge", "third"]
    assert sorted(one.job for one in jobs.running_on_host("edge")) == ["edge", "third"]
    jobs.append(order.followed_by(Wanted.STOPPED, by="me", time_ms=2))
    assert [one.job for one in jobs.running_on_port(9999)] == []
    assert jobs.view("edge", 0.0).state == "STOPPED"


def test_a_host_that_was_replaced_sees_it(jobs: Jobs) -> None:
    first = jobs.registry.begin_host("edge", {"time_ms": 1})
    assert not jobs.registry.is_replaced("edge", first)
    second = jobs.registry.begin_host("edge", {"time_ms": 2})
    assert second == first + 1
    assert jobs.registry.is_replaced("edge", first)
    assert jobs.registry.starts_ms("edge") == [1, 2]


def test_the_lookup_finds_where_a_job_is(jobs: Jobs) -> None:
    submit(jobs, submission("edge"), CLUSTER)
    attempt = Attempt(time_ms=1, host="edge", start=1, node="n", address="10.0.0.2", pid=7, order=1)
    Attempts(jobs.store("edge")).note(attempt)
    found = Directory(jobs).job("edge")
    assert found is not None
    assert found["endpoint"] == "10.0.0.2:9999"
