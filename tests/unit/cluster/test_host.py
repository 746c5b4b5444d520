"""A host carries out orders: it starts, stops, starts again, gives up, and ends itself when it was replaced."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cluster.attempts import Attempts
from edgesocket.cluster.host import FENCED_GRACE_S, IDLE_S, ORDERS_LOOK_S, HostFacts, JobHost, Surroundings
from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.orders import Order, Wanted
from edgesocket.cluster.submitting import submit
from edgesocket.errors import ConfigError, ConfigProblem, FencedError, ListenerError, NotOwnerError, StoreError
from tests.unit.cluster.cluster_kit import CLUSTER, some_jobs, submission

WAIT_S = 10.0


class FakeJob:
    """Runs until it is told how to end."""

    def __init__(self, order: Order, take_over: bool) -> None:
        self.order = order
        self.take_over = take_over
        self.end: queue.Queue[int | BaseException] = queue.Queue()
        self.fenced = False
        self.stuck = False

    def run(self) -> int:
        outcome = self.end.get(timeout=WAIT_S)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def stop(self) -> None:
        self.end.put(0)


@dataclass
class Bench:
    """A host with everything around it faked; the test turns it."""

    jobs: Jobs
    made: queue.Queue[FakeJob] = field(default_factory=queue.Queue)
    clock: float = 0.0
    wall_ms: int = 1_000_000_000
    exits: list[int] = field(default_factory=list)
    gave_way: int = 0
    retire_error: Exception | None = None
    begun: list[int] = field(default_factory=list)
    retired: int = 0
    moves: list[str] = field(default_factory=list)
    refuse: ConfigError | None = None
    lines: list[tuple[str, str]] = field(default_factory=list)

    def host(self, name: str = "edge", follows: int = 0) -> JobHost:
        def give_way() -> None:
            self.gave_way += 1

        def retire() -> None:
            self.retired += 1
            if self.retire_error is not None:
                raise self.retire_error

        def relocate(order: Order, reason: str) -> bool:
            self.moves.append(reason)
            return False

        host = JobHost(
            HostFacts(name=name, node="n", address="10.0.0.1", pid=7, follows=follows),
            Surroundings(
                registry=self.jobs.registry, place=self.jobs.place, make_job=self.make, relocate=relocate,
                end_process=self.exits.append, give_way=give_way, begun=self.begun.append, retire=retire,
                now=lambda: self.clock, wall_ms=lambda: self.wall_ms,
                report=lambda job, event: self.lines.append((job, str(event))),
            ),
        )  # fmt: skip
        host._begin()
        return host

    def make(self, order: Order, take_over: bool, start: int, report: Callable[[object], None]) -> FakeJob:
        if self.refuse is not None:
            raise self.refuse
        job = FakeJob(order, take_over)
        self.made.put(job)
        return job

    def next_job(self) -> FakeJob:
        return self.made.get(timeout=WAIT_S)

    def order(self, name: str = "edge") -> Order:
        found = self.jobs.order(name)
        assert found is not None
        return found

    def wanted(self, name: str = "edge") -> Wanted:
        return self.order(name).wanted

    def end(self, wanted: Wanted, name: str = "edge") -> None:
        self.jobs.append(self.order(name).followed_by(wanted, by="me", time_ms=2))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(some_jobs(tmp_path / "states"))


def settled(host: JobHost, name: str = "edge") -> None:
    """Wait until the thread of a job has ended."""
    host._wake.clear()
    while name in host.states() and not host._slots[name].ended:
        assert host._wake.wait(WAIT_S)
        host._wake.clear()


def test_a_host_runs_what_it_is_ordered_to_and_takes_it_over(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    host = bench.host()
    job = bench.next_job()
    assert (job.order.job, job.take_over) == ("edge", True)
    assert host.states()["edge"]["state"] == "running"
    attempt = bench.jobs.view("edge", 0.0).attempt
    assert attempt is not None
    assert (attempt.host, attempt.start, attempt.address, attempt.order) == ("edge", 1, "10.0.0.1", 1)
    job.stop()


def test_jobs_of_other_hosts_and_jobs_that_are_not_to_run_are_left_alone(bench: Bench) -> None:
    submit(bench.jobs, submission("other", 1001), CLUSTER)
    submit(bench.jobs, submission("gone", 1002, host="edge"), CLUSTER)
    bench.end(Wanted.CANCELLED, "gone")
    host = bench.host()
    assert host.states() == {}


def test_a_new_order_is_found_when_told_and_by_itself_later(bench: Bench) -> None:
    host = bench.host("shared")
    submit(bench.jobs, submission("one", 1001, host="shared"), CLUSTER)
    host.turn()
    assert host.states() == {}
    host.look("one")
    host.turn()
    bench.next_job().stop()
    submit(bench.jobs, submission("two", 1002, host="shared"), CLUSTER)
    bench.clock += ORDERS_LOOK_S
    host.turn()
    job = bench.next_job()
    assert job.order.job == "two"
    job.stop()


def test_a_cancelled_job_is_stopped(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    host = bench.host()
    bench.next_job()
    bench.end(Wanted.CANCELLED)
    host.look("edge")
    host.turn()
    settled(host)
    host.turn()
    assert host.states() == {}
    assert bench.wanted() is Wanted.CANCELLED


def test_a_job_that_somebody_stopped_elsewhere_is_not_started_again(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    host = bench.host()
    bench.next_job().end.put(0)
    settled(host)
    assert bench.wanted() is Wanted.STOPPED


@pytest.mark.parametrize("error", [StoreError("the disk is away"), FencedError("x"), NotOwnerError("x")])
def test_what_a_restart_heals_is_started_again_without_taking_over(bench: Bench, error: Exception) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    bench.host()
    bench.next_job().end.put(error)
    again = bench.next_job()
    assert not again.take_over  # perhaps somebody runs it on purpose
    assert bench.wanted() is Wanted.RUNNING
    again.stop()


def test_a_job_that_no_restart_heals_has_failed_and_stays_so(bench: Bench) -> None:
    bench.refuse = ConfigError([ConfigProblem("env.x", "is off")])
    submit(bench.jobs, submission(), CLUSTER)
    host = bench.host()
    settled(host)
    assert bench.wanted() is Wanted.FAILED
    assert "is off" in bench.order().reason
    bench.refuse = None
    bench.host()
    assert bench.made.empty()


def test_a_port_that_stays_taken_moves_the_job(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    bench.host()
    for _ in range(2):
        bench.next_job().end.put(ListenerError("port 9999 is taken"))
    bench.next_job().stop()
    assert bench.moves == ["port 9999 is taken"]


def test_a_moved_job_is_not_taken_over_from_the_host_that_lets_it_go(bench: Bench) -> None:
    bench.wall_ms = 2_000
    before = submit(bench.jobs, submission(), CLUSTER)
    fresh = before.followed_by(Wanted.RUNNING, by="me", time_ms=1_500, host="edge~2", after="edge")
    bench.jobs.append(fresh)
    bench.host("edge~2")
    first = bench.next_job()
    assert not first.take_over
    first.end.put(NotOwnerError("it runs already"))
    second = bench.next_job()
    assert not second.take_over
    bench.wall_ms += 200_000  # the old host never let go: it is lost
    second.end.put(NotOwnerError("it runs already"))
    third = bench.next_job()
    assert third.take_over
    third.stop()


def test_a_replaced_host_gives_way_at_once(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    old = bench.host()
    job = bench.next_job()
    old.turn()
    assert bench.gave_way == 0
    bench.host()
    old.turn()
    assert bench.gave_way == 1
    assert bench.begun == [1, 2]
    job.stop()
    bench.next_job().stop()


def test_a_process_goes_on_where_the_one_before_it_ended(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    bench.host()
    killed = bench.next_job()
    bench.host(follows=1)
    bench.next_job().stop()
    killed.stop()
    assert bench.begun == [1, 2]
    assert bench.gave_way == 0


def test_a_number_that_is_its_own_or_its_predecessors_is_nobody_elses(bench: Bench) -> None:
    """The answer to its own try was lost; or the process before it was killed before it could say its number."""
    registry = bench.jobs.registry
    mine: dict[str, object] = {"time_ms": 1, "node": "n", "pid": 7}
    assert registry.begin_host("edge", mine) == 1
    assert registry.go_on_host("edge", mine, 1) == 2
    assert registry.go_on_host("edge", mine, 1) == 2
    next_one: dict[str, object] = {**mine, "pid": 8}
    assert registry.go_on_host("edge", next_one, 1) is None
    assert registry.go_on_host("edge", next_one, 1, before=7) == 3
    assert registry.go_on_host("edge", {**mine, "node": "other"}, 2, before=7) is None


def test_a_replaced_process_starts_no_job_any_more(bench: Bench) -> None:
    """Else it would look like the newest start, and its address like that of the job."""
    submit(bench.jobs, submission(), CLUSTER)
    old = bench.host()
    fenced = bench.next_job()
    bench.host()
    lives = bench.next_job()
    fenced.end.put(FencedError("another one"))
    settled(old)
    newest = Attempts(bench.jobs.store("edge")).newest()
    assert newest is not None
    assert newest.start == 2
    assert bench.made.empty()
    lives.stop()


def test_a_process_after_one_that_was_replaced_begins_nothing(bench: Bench) -> None:
    """On a worker that was cut off, say: the job runs elsewhere by now."""
    submit(bench.jobs, submission(), CLUSTER)
    bench.host()
    killed = bench.next_job()
    assert bench.jobs.registry.begin_host("edge", {"time_ms": 1, "node": "elsewhere", "pid": 7}) == 2
    late = bench.host(follows=1)
    assert bench.gave_way == 1
    assert bench.begun == [1]
    assert late.states() == {}
    late.run()  # returns
    killed.stop()


def test_a_fenced_job_that_does_not_end_by_itself_ends_the_process(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    host = bench.host()
    job = bench.next_job()
    job.fenced = True
    host.turn()
    assert bench.exits == []
    bench.clock += FENCED_GRACE_S + 0.1
    host.turn()
    assert bench.exits == [75]
    job.stop()


def test_a_job_whose_engine_hangs_ends_the_process(bench: Bench) -> None:
    submit(bench.jobs, submission(), CLUSTER)
    host = bench.host()
    job = bench.next_job()
    job.stuck = True
    host.turn()
    assert bench.exits == [75]
    job.stop()


def test_a_host_without_jobs_retires_after_a_while(bench: Bench) -> None:
    host = bench.host()
    host.turn()
    bench.clock += IDLE_S + 0.1
    host.turn()
    assert bench.retired == 1


def test_a_host_that_cannot_retire_now_tries_again(bench: Bench) -> None:
    bench.retire_error = TimeoutError("Ray is away")
    host = bench.host()
    for _ in range(2):
        host.turn()
        bench.clock += IDLE_S + 0.1
        host.turn()
    assert bench.retired == 2
    assert any("it cannot end yet: Ray is away" in text for _, text in bench.lines)


def test_a_host_whose_orders_cannot_be_read_does_not_retire(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bench.host()

    def away(*_: Any) -> bool:
        raise StoreError("the store is away")

    with monkeypatch.context() as broken:
        broken.setattr(bench.jobs.registry, "is_replaced", away)
        for _ in range(3):
            bench.clock += IDLE_S + 0.1
            host.turn()
    assert bench.retired == 0
    host.turn()
    bench.clock += IDLE_S + 0.1
    host.turn()
    assert bench.retired == 1


def test_trouble_with_the_store_is_told_once_and_ends_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bench.host()

    def away(*_: Any) -> bool:
        raise StoreError("the store is away")

    monkeypatch.setattr(bench.jobs.registry, "is_replaced", away)
    host.turn()
    host.turn()
    assert [text for _, text in bench.lines if "away" in text] == ["orders cannot be read: the store is away"]
    assert bench.exits == []


def test_a_bug_in_one_job_is_not_the_end_of_another(bench: Bench) -> None:
    submit(bench.jobs, submission("one", 1001, host="edge"), CLUSTER)
    submit(bench.jobs, submission("two", 1002, host="edge"), CLUSTER)
    host = bench.host()
    found = {job.order.job: job for job in (bench.next_job(), bench.next_job())}
    for _ in range(3):
        found["one"].end.put(RuntimeError("a bug"))
        if bench.wanted("one") is Wanted.FAILED:
            break
        try:
            found["one"] = bench.made.get(timeout=2.0)
        except queue.Empty:
            break
    settled(host, "one")
    assert bench.wanted("one") is Wanted.FAILED
    assert host.states()["two"]["state"] == "running"
    found["two"].stop()
    assert threading.active_count() >= 1
