"""Which worker fits a tag_filter, what Ray would not take, and how waiting is explained."""

from __future__ import annotations

import pytest

from edgesocket.cluster.placement import Node, check_tag_filter, contradict, explain, matches, overlap, selector
from edgesocket.errors import ConfigError

A = Node("id-a", "10.0.0.1", {"zone": "a", "edge": "true"})
B = Node("id-b", "10.0.0.2", {"zone": "b"})
HEAD = Node("id-h", "10.0.0.9", {"zone": "a"}, takes_jobs=False)
DEAD = Node("id-d", "10.0.0.8", {"zone": "a"}, alive=False)
NODES = [A, B, HEAD, DEAD]


def test_every_entry_must_match_as_text() -> None:
    assert matches({"zone": "a", "edge": "true"}, A)
    assert not matches({"zone": "a", "edge": "True"}, A)
    assert not matches({"zone": "a"}, B)
    assert matches({}, B)


def test_dead_nodes_heads_and_avoided_nodes_do_not_match() -> None:
    assert not matches({"zone": "a"}, DEAD)
    assert not matches({"zone": "a"}, HEAD)
    assert not matches({"zone": "a"}, A, avoid=["id-a"])


@pytest.mark.parametrize("name", ["", "a b", "10:5", "-a", "a-", "x" * 64, "ray.io/node-id", "über"])
def test_a_name_that_cannot_be_a_label_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_tag_filter({name: "v"})
    assert caught.value.problems[0].fix


@pytest.mark.parametrize("value", ["!a", "in(a,b)", "!in(a)", "10.0.0.1:10", "tr ue", "x" * 64])
def test_a_value_that_ray_would_take_for_an_operator_or_refuse_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the value of a label"):
        check_tag_filter({"zone": value})


def test_good_labels_pass_the_empty_value_too() -> None:
    check_tag_filter({"edge-ingress": "true", "example.com/zone": "eu_1.b", "rack": "7", "spare": ""})


def test_every_wrong_entry_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        check_tag_filter({"a b": "c d", "ok": "in(x)"})
    assert len(caught.value.problems) == 3


def test_the_filter_becomes_a_selector_and_nodes_to_avoid_an_operator() -> None:
    assert selector({"zone": "a"}) == {"zone": "a"}
    assert selector({}, ["n1"]) == {"ray.io/node-id": "!n1"}
    assert selector({}, ["n1", "n2"]) == {"ray.io/node-id": "!in(n1,n2)"}


def test_filters_contradict_only_in_a_label_that_both_ask_for() -> None:
    assert contradict({"zone": "a"}, {"zone": "b"})
    assert not contradict({"zone": "a"}, {"rack": "7"})
    assert not contradict({}, {"zone": "a"})


def test_jobs_overlap_where_some_live_worker_could_be_given_both() -> None:
    assert overlap({"zone": "a"}, {"edge": "true"}, NODES)
    assert not overlap({"zone": "b"}, {"edge": "true"}, NODES)
    assert not overlap({"zone": "a"}, {"zone": "b"}, NODES)


def test_without_knowing_the_workers_whatever_does_not_contradict_overlaps() -> None:
    assert overlap({"zone": "b"}, {"edge": "true"}, None)
    assert not overlap({"zone": "a"}, {"zone": "b"}, None)


@pytest.mark.parametrize(
    ("tag_filter", "told"),
    [
        ({"zone": "z2"}, "0 of 2 live workers match zone=z2; nearest: 10.0.0.1 has zone=a"),
        ({"zone": "b", "edge": "true"}, "0 of 2 live workers match zone=b, edge=true; nearest: 10.0.0.1 has zone=a"),
        ({"zone": "b", "rack": "7"}, "0 of 2 live workers match zone=b, rack=7; nearest: 10.0.0.2 has no label rack"),
        ({"zone": "a"}, "1 of 2 live workers match zone=a"),
        ({}, "2 live workers"),
    ],
)
def test_waiting_is_explained(tag_filter: dict[str, str], told: str) -> None:
    assert explain(tag_filter, NODES) == told


def test_waiting_for_a_worker_that_is_not_avoided_is_explained() -> None:
    assert explain({"zone": "a"}, NODES, ["id-a"]).endswith("and those that do are to be avoided")


def test_no_live_worker_is_explained() -> None:
    assert explain({"zone": "a"}, [DEAD]) == "0 of 0 live workers match zone=a"
