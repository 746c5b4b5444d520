"""Putting a job on another worker."""

from __future__ import annotations

import pytest

from edgesocket.cluster.moving import MOST_AVOIDED, moved, next_host
from edgesocket.cluster.orders import OrderRefusedError, Wanted
from edgesocket.cluster.placement import Node
from tests.unit.cluster.cluster_kit import A, B
from tests.unit.cluster.test_orders import an_order

NODES = [A, B, Node("id-a2", "10.0.0.3", {"zone": "a"})]


def test_a_moved_job_avoids_the_worker_that_it_leaves_and_waits_for_its_host() -> None:
    order = moved(an_order(), "id-a", NODES, by="me", time_ms=7, reason="port taken")
    assert (order.n, order.wanted, order.avoid, order.after, order.host) == (
        2,
        Wanted.RUNNING,
        ("id-a",),
        "edge",
        "edge~2",
    )
    assert order.reason == "port taken"


def test_a_job_that_no_other_worker_fits_stays_unless_forced() -> None:
    with pytest.raises(
        OrderRefusedError,
        match=r"no other worker fits: 0 of 3 .* zone=b, and those that do",
    ):
        moved(an_order(tag_filter={"zone": "b"}), "id-b", NODES, by="me", time_ms=7)
    assert moved(an_order(tag_filter={"zone": "b"}), "id-b", NODES, by="me", time_ms=7, force=True).avoid == ("id-b",)


def test_workers_avoided_earlier_may_do_again_when_no_other_is_left() -> None:
    order = moved(an_order(avoid=("id-a2",)), "id-a", NODES, by="me", time_ms=7)
    assert order.avoid == ("id-a",)


def test_nodes_that_are_gone_are_not_avoided_any_more_and_few_are() -> None:
    nodes = [Node(f"n{number}", "10.0.0.1", {"zone": "a"}) for number in range(20)]
    order = moved(an_order(avoid=("gone", *(f"n{number}" for number in range(10)))), "n10", nodes, by="me", time_ms=7)
    assert "gone" not in order.avoid
    assert len(order.avoid) == MOST_AVOIDED
    assert order.avoid[-1] == "n10"


def test_a_job_that_is_not_to_run_does_not_move() -> None:
    with pytest.raises(OrderRefusedError, match="is not to run"):
        moved(an_order(wanted=Wanted.STOPPED), "id-a", NODES, by="me", time_ms=7)


def test_each_move_has_a_host_of_a_new_name() -> None:
    assert next_host(an_order(host="edge~2", n=2)) == "edge~3"
    assert next_host(an_order(host="pool-1", n=4)) == "edge~5"
