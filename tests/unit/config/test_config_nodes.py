"""Values with places."""

from __future__ import annotations

import pytest

from edgesocket.config.nodes import (
    BrokenNode,
    Field,
    ListNode,
    Location,
    Node,
    ObjectNode,
    PluginNode,
    Report,
    Scalar,
    describe,
    merge,
    splits,
    to_python,
)

HERE = Location("job.conf", 3, 7)
TEXT = Scalar("x", HERE)
BLOCK = ObjectNode({}, HERE)


def test_a_location_prints_file_and_line() -> None:
    assert (str(HERE), HERE.exact) == ("job.conf:3", "job.conf:3:7")


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (TEXT, "a single value"),
        (Scalar("null", HERE), "null"),
        (Scalar("null", HERE, quoted=True), "a single value"),
        (ListNode((), HERE), "a list"),
        (BLOCK, "a block"),
        (PluginNode("A", BLOCK, HERE), "a block"),
        (BrokenNode(HERE), "a broken value"),
    ],
)
def test_a_kind_of_value_is_described_without_its_content(node: Node, words: str) -> None:
    assert describe(node) == words


def test_a_broken_value_is_null_to_tools() -> None:
    assert to_python(BrokenNode(HERE)) is None


def test_every_way_to_cut_a_dotted_name() -> None:
    assert list(splits("a.b.c")) == [("a.b.c", ""), ("a.b", "c"), ("a", "b.c")]
    assert list(splits(".a")) == [(".a", "")]


def test_an_append_without_a_list_before_it_cannot_merge_at_any_depth() -> None:
    append = ListNode((TEXT,), HERE, append=True)
    old = ObjectNode({"a": Field(TEXT, 1, HERE)}, HERE)
    new = ObjectNode({"a": Field(append, 2, HERE)}, HERE)

    assert merge(TEXT, append) is None
    assert merge(old, new) is None
    assert merge(ObjectNode({"x": Field(old, 1, HERE)}, HERE), ObjectNode({"x": Field(new, 2, HERE)}, HERE)) is None


def test_the_same_problem_twice_counts_once_and_all_come_in_the_order_of_the_lines() -> None:
    report = Report()
    report.problem(Location("base.conf", 1), "z", "in an include")
    report.problem(Location("job.conf", 9), "b", "late")
    report.problem(Location("job.conf", 2, 5), "a", "early", "do this", exact=True)
    report.problem(Location("job.conf", 9), "b", "late")

    assert [str(problem) for problem in report.sorted_problems("job.conf")] == [
        "job.conf:2:5: a: early\n      fix: do this",
        "job.conf:9: b: late",
        "base.conf:1: z: in an include",
    ]
