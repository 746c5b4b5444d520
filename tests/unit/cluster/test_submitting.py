"""What is checked before a job is ordered, and what two people can do at the same moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.orders import Order, OrderRefusedError, Wanted
from edgesocket.cluster.ports import PortRange
from edgesocket.cluster.reconcile import reconcile
from edgesocket.cluster.submitting import Cluster, pool_host, replace_order, submit
from edgesocket.errors import ConfigError
from tests.unit.cluster.cluster_kit import CLUSTER, NODES, FakeWorkers, some_jobs, submission


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return some_jobs(tmp_path / "states")


def ends(jobs: Jobs, order: Order, wanted: Wanted = Wanted.CANCELLED) -> None:
    jobs.append(order.followed_by(wanted, by="me", time_ms=2))


def test_a_submitted_job_is_ordered_in_a_host_of_its_own_and_found_by_its_port(jobs: Jobs) -> None:
    order = submit(jobs, submission(), CLUSTER)
    assert (order.n, order.wanted, order.host) == (1, Wanted.RUNNING, "edge")
    assert jobs.order("edge") == order
    assert [found.job for found in jobs.running_on_port(9999)] == ["edge"]
    assert jobs.registry.jobs() == ["edge"]


def test_a_job_that_is_submitted_already_is_refused_until_it_is_cancelled(jobs: Jobs) -> None:
    order = submit(jobs, submission(), CLUSTER)
    with pytest.raises(OrderRefusedError, match="submitted already"):
        submit(jobs, submission(), CLUSTER)
    ends(jobs, order)
    assert submit(jobs, submission(), CLUSTER).n == 3


@pytest.mark.parametrize(
    ("one", "other", "refused"),
    [("", "", True), ("zone = a", "", True), ("zone = a", "zone = b", False), ("zone = a", "zone = a", True)],
)
def test_two_jobs_with_one_port_that_a_worker_could_be_given_both_are_refused(
    jobs: Jobs, one: str, other: str, refused: bool
) -> None:
    submit(jobs, submission("one", tag_filter=one), CLUSTER)
    if not refused:
        submit(jobs, submission("other", tag_filter=other), CLUSTER)
        return
    with pytest.raises(ConfigError, match="job one listens on port 9999 too") as caught:
        submit(jobs, submission("other", tag_filter=other), CLUSTER)
    problem = caught.value.problems[0]
    assert problem.location.startswith("other.conf:")
    assert "cancel one" in problem.fix
    assert jobs.order("other") is None


def test_another_port_is_fine_and_so_is_the_port_of_a_job_that_has_ended(jobs: Jobs) -> None:
    order = submit(jobs, submission("one"), CLUSTER)
    submit(jobs, submission("two", port=9998), CLUSTER)
    ends(jobs, order)
    submit(jobs, submission("three"), CLUSTER)


def test_without_knowing_the_workers_jobs_that_could_meet_are_refused(jobs: Jobs) -> None:
    submit(jobs, submission("one", tag_filter="zone = a"), Cluster())
    with pytest.raises(ConfigError, match="some worker could be given both"):
        submit(jobs, submission("two", tag_filter="rack = 7"), Cluster())
    submit(jobs, submission("three", tag_filter="rack = 7"), Cluster(NODES))


def test_of_two_that_collide_at_the_same_moment_not_both_stay(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    append = jobs.append

    def append_behind_another(order: Order) -> None:
        monkeypatch.setattr(jobs, "append", append)
        other = submission("other")
        assert submit(jobs, other, CLUSTER).wanted is Wanted.RUNNING  # the first check has seen neither
        append(order)

    monkeypatch.setattr(jobs, "append", append_behind_another)
    with pytest.raises(ConfigError, match="job other listens"):
        submit(jobs, submission("edge"), CLUSTER)
    found = jobs.order("edge")
    assert found is not None
    assert found.wanted is Wanted.CANCELLED
    other = jobs.order("other")
    assert other is not None
    assert other.wanted is Wanted.RUNNING


def test_a_port_that_ray_takes_on_a_worker_that_fits_is_refused_with_the_fix(jobs: Jobs) -> None:
    with pytest.raises(ConfigError, match="10002-19999 that Ray takes") as caught:
        submit(jobs, submission(port=10091), Cluster(NODES, [("10.0.0.1", PortRange(10002, 19999))]))
    assert "--min-worker-port=20000" in caught.value.problems[0].fix


def test_labels_and_port_are_refused_together(jobs: Jobs) -> None:
    with pytest.raises(ConfigError) as caught:
        taken = [("10.0.0.1", PortRange(10002, 19999))]
        submit(jobs, submission(port=10091, tag_filter='zone = "!a"'), Cluster(NODES, taken))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("name", ['".hidden"'])
def test_a_name_that_hides_in_the_root_is_refused(jobs: Jobs, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a name in a cluster"):
        submit(jobs, submission(name), CLUSTER)


def test_jobs_of_one_host_ask_for_the_same_labels(jobs: Jobs) -> None:
    submit(jobs, submission("one", 1001, "zone = a", host="shared"), CLUSTER)
    submit(jobs, submission("two", 1002, "zone = a", host="shared"), CLUSTER)
    with pytest.raises(ConfigError, match="host shared runs job one, whose tag_filter contradicts"):
        submit(jobs, submission("three", 1003, "zone = b", host="shared"), CLUSTER)


def test_shared_hosts_fill_up_one_after_the_other(jobs: Jobs) -> None:
    hosts = []
    for number in range(5):
        job = submission(f"j{number}", 1000 + number, "zone = a")
        host = pool_host(jobs, job.spec, 2)
        submit(jobs, submission(f"j{number}", 1000 + number, "zone = a", host=host), CLUSTER)
        hosts.append(host)
    assert hosts == ["pool-zone.a-1", "pool-zone.a-1", "pool-zone.a-2", "pool-zone.a-2", "pool-zone.a-3"]


def test_a_replaced_job_waits_for_the_host_that_runs_it(jobs: Jobs) -> None:
    before = submit(jobs, submission(), CLUSTER)
    after = replace_order(jobs, submission(port=9000, host="edge~2"), CLUSTER, before)
    assert (after.n, after.after, after.host, after.port) == (2, "edge", "edge~2", 9000)


def test_reconcile_makes_the_hosts_that_are_missing_and_no_other(jobs: Jobs) -> None:
    submit(jobs, submission("one", 1001), CLUSTER)
    submit(jobs, submission("two", 1002, host="shared"), CLUSTER)
    submit(jobs, submission("three", 1003, host="shared"), CLUSTER)
    ends(jobs, submit(jobs, submission("four", 1004), CLUSTER), Wanted.STOPPED)
    workers = FakeWorkers()
    workers.hosts = ["one"]
    result = reconcile(jobs, workers)
    assert result.made == ["shared"]
    assert sorted(order.job for order in result.jobs) == ["one", "three", "two"]
    assert reconcile(jobs, workers).made == []


def test_reconcile_makes_a_host_anew_that_retired_as_it_was_told(jobs: Jobs) -> None:
    submit(jobs, submission("one", 1001), CLUSTER)
    workers = FakeWorkers()
    workers.hosts = ["one"]
    workers.retired = ["one"]
    made: list[str] = []
    workers.ensure_host = lambda order: made.append(order.host)  # type: ignore[method-assign]
    reconcile(jobs, workers, ["one"])
    assert made == ["one"]


def test_reconcile_goes_on_past_an_order_that_cannot_be_read(jobs: Jobs) -> None:
    submit(jobs, submission("one", 1001), CLUSTER)
    submit(jobs, submission("two", 1002), CLUSTER)
    place: Any = jobs.place("one")
    (place.scratch / "orders" / f"{1:020}.json").write_text("{")
    result = reconcile(jobs, FakeWorkers())
    assert [name for name, _ in result.unreadable] == ["one"]
    assert result.made == ["two"]


def test_a_job_that_loses_its_new_port_while_it_is_replaced_goes_on_as_it_was(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(jobs, submission("one", port=9999), CLUSTER)
    submit(jobs, submission("two", port=9998), CLUSTER)
    before = jobs.order("one")
    looks = iter([[], [jobs.order("two")]])
    monkeypatch.setattr(type(jobs), "running_on_port", lambda *_: next(looks))
    with pytest.raises(ConfigError, match="job two listens on port 9998 too"):
        replace_order(jobs, submission("one", port=9998), CLUSTER, before)
    now = jobs.order("one")
    assert now is not None and before is not None
    assert (now.n, now.wanted, now.port, now.text) == (before.n + 2, Wanted.RUNNING, 9999, before.text)
