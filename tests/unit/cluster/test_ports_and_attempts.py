"""Ports that Ray takes for itself, and pauses between starts."""

from __future__ import annotations

import pytest

from edgesocket.cluster.attempts import FREE_STARTS, KEPT, LONGEST_WAIT_S, Attempt, Attempts, wait_s
from edgesocket.cluster.ports import PortRange, problem_with_port, range_of_raylet
from edgesocket.testing.memory_store import MemoryStore

RAYLET = ["/x/raylet", "--store_socket_name=s", "--min_worker_port=20000", "--max_worker_port=29999", ""]


def test_the_range_is_read_from_the_command_line_of_the_raylet() -> None:
    assert range_of_raylet(RAYLET) == PortRange(20000, 29999)
    assert range_of_raylet(["/x/raylet", "--worker_port_list=5000,5001"]) == PortRange(0, 0, (5000, 5001))
    assert range_of_raylet(["/usr/bin/python"]) is None


def test_ports_that_the_kernel_chooses_are_no_range() -> None:
    found = range_of_raylet(["/x/raylet", "--min_worker_port=0", "--max_worker_port=0"])
    assert found is not None
    assert 10091 not in found


def test_a_port_in_the_range_is_refused_with_the_way_out() -> None:
    ranges = [("10.0.0.1", PortRange(20000, 29999)), ("10.0.0.2", PortRange(10002, 19999))]
    problem = problem_with_port(10091, ranges, "edge.conf:4")
    assert problem is not None
    assert "10002-19999" in problem.message
    assert "10.0.0.2" in problem.message
    assert "--min-worker-port=20000" in problem.fix
    assert problem.location == "edge.conf:4"
    assert problem_with_port(9999, ranges, "") is None


def test_the_first_starts_wait_for_nothing() -> None:
    now = 10_000_000
    for count in range(FREE_STARTS):
        assert wait_s([now] * count, now) == 0.0


def test_the_pause_grows_and_ends_at_the_longest() -> None:
    now = 10_000_000
    pauses = [wait_s([now] * count, now) for count in range(FREE_STARTS, FREE_STARTS + 12)]
    assert pauses == sorted(pauses)
    assert pauses[:3] == [1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_WAIT_S


def test_time_that_has_passed_counts() -> None:
    now = 10_000_000
    assert wait_s([now - 400] * FREE_STARTS, now) == pytest.approx(0.6)
    assert wait_s([now - 5000] * FREE_STARTS, now) == 0.0


def test_what_is_long_ago_is_forgotten() -> None:
    now = 10_000_000
    assert wait_s([now - 3_600_000] * 50, now) == 0.0


def test_the_clock_of_another_machine_cannot_make_a_job_wait_longer() -> None:
    now = 10_000_000
    assert wait_s([now + 3_600_000] * FREE_STARTS, now) == 1.0


def an_attempt(time_ms: int) -> Attempt:
    return Attempt(time_ms=time_ms, host="h", start=1, node="n", address="10.0.0.1", pid=7, order=3)


def test_attempts_are_kept_in_the_store_the_newest_of_them() -> None:
    store = MemoryStore()
    attempts = Attempts(store)
    assert attempts.newest() is None
    for time_ms in range(KEPT + 10):
        attempts.note(an_attempt(time_ms))
    assert attempts.newest() == an_attempt(KEPT + 9)
    assert len(attempts._names()) <= KEPT
    assert Attempts(store).wait_s(KEPT + 9) > 1.0
