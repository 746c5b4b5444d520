"""Who takes rows from whom: what `plugin_input` and `plugin_output` say, and what is wrong with them."""

from __future__ import annotations

from edgesocket.config.graph import Node, Wiring, wire
from edgesocket.config.nodes import Location, Report


def _node(id_: str, *inputs: str, output: str | None = None, line: int = 1) -> Node:
    return Node(id_, f"block.{id_}", inputs, output, Location("job.conf", line))


def _wired(source: Node, transforms: list[Node], sinks: list[Node]) -> tuple[Wiring, list[str]]:
    report = Report()
    wiring = wire(source, transforms, sinks, report)
    assert not report.problems
    return wiring, report.notes


def _problem(source: Node, transforms: list[Node], sinks: list[Node]) -> tuple[str, str, str, str]:
    """Place, path, message and fix of the only problem there is."""
    report = Report()
    wire(source, transforms, sinks, report)
    (problem,) = report.sorted_problems("job.conf")
    assert report.notes == []
    return problem.location, problem.path, problem.message, problem.fix


def test_a_small_job_is_a_chain_whatever_its_names_say() -> None:
    wiring, notes = _wired(
        _node("in", output="raw"), [_node("t", "nobody", output="done", line=5)], [_node("out", "raw", line=9)]
    )

    assert wiring == Wiring({"t": ("in",), "out": ("t",)}, ("t",))
    assert len(notes) == 1, "the sink names an output that is there"
    assert notes[0].startswith("job.conf:5: block.t.plugin_input names ")
    assert "nobody" in notes[0]


def test_a_small_job_with_right_names_or_none_has_no_note() -> None:
    named = _wired(_node("in", output="a"), [_node("t", "a", output="b")], [_node("out", "b")])
    nameless = _wired(_node("in"), [_node("t")], [_node("out")])
    assert named == nameless == (Wiring({"t": ("in",), "out": ("t",)}, ("t",)), [])


def test_a_source_and_a_sink_need_nothing_else() -> None:
    assert _wired(_node("in"), [], [_node("out")]) == (Wiring({"out": ("in",)}, ()), [])


def test_without_any_name_transforms_stand_in_a_row_and_every_sink_at_the_end() -> None:
    wiring, notes = _wired(_node("in"), [_node("t1"), _node("t2")], [_node("out1"), _node("out2")])
    assert wiring == Wiring({"t1": ("in",), "t2": ("t1",), "out1": ("t2",), "out2": ("t2",)}, ("t1", "t2"))
    assert notes == []


def test_named_outputs_fan_out_and_meet_again() -> None:
    wiring, notes = _wired(
        _node("in", output="raw"),
        [_node("t1", "raw", output="a"), _node("t2", "raw", output="b")],
        [_node("both", "a", "b"), _node("plain", "raw"), _node("twice", "a", "a")],
    )
    assert wiring.inputs == {
        "t1": ("in",),
        "t2": ("in",),
        "both": ("t1", "t2"),
        "plain": ("in",),
        "twice": ("t1",),
    }
    assert wiring.order == ("t1", "t2")
    assert notes == []


def test_transforms_are_ordered_by_what_they_need_not_by_where_they_stand() -> None:
    wiring, _ = _wired(
        _node("in", output="raw"),
        [_node("last", "b", output="c"), _node("middle", "a", output="b"), _node("first", "raw", output="a")],
        [_node("out", "c")],
    )
    assert wiring.order == ("first", "middle", "last")


def test_sinks_alone_take_from_the_source_where_they_name_nothing() -> None:
    wiring, _ = _wired(_node("in", output="raw"), [], [_node("out1", "raw"), _node("out2")])
    assert wiring.inputs == {"out1": ("in",), "out2": ("in",)}


def test_an_output_belongs_to_one_block() -> None:
    report = Report()
    transform = _node("t", "raw", output="raw", line=7)
    wire(_node("in", output="raw"), [transform], [_node("o1", "raw"), _node("o2", "raw")], report)
    (problem,) = report.sorted_problems("job.conf")
    assert (problem.location, problem.path) == ("job.conf:7", "block.t.plugin_output")
    assert problem.message == "raw is the output of in already"


def test_an_input_that_is_no_output_is_a_problem_which_names_the_outputs() -> None:
    place, path, message, fix = _problem(
        _node("in", output="raw"),
        [_node("t", "raw", output="a")],
        [_node("o1", "a"), _node("o2", "rew", line=12)],
    )
    assert (place, path) == ("job.conf:12", "block.o2.plugin_input")
    assert "rew" in message
    assert fix == "one of raw, a"


def test_an_input_where_nothing_has_a_name_says_how_to_name_the_source() -> None:
    report = Report()
    wire(_node("in"), [], [_node("o1", "raw"), _node("o2", "raw")], report)
    problems = report.sorted_problems("job.conf")
    assert [problem.path for problem in problems] == ["block.o1.plugin_input", "block.o2.plugin_input"]
    assert {problem.fix for problem in problems} == {'plugin_output = "raw" in the source'}


def test_a_missing_input_is_a_problem_where_rows_could_go_several_ways() -> None:
    place, path, message, fix = _problem(
        _node("in", output="raw"), [_node("t", "raw", output="a")], [_node("o1", "a"), _node("o2", line=3)]
    )
    assert (place, path) == ("job.conf:3", "block.o2.plugin_input")
    assert "is missing" in message
    assert fix == "one of raw, a"


def test_a_missing_output_is_a_problem_where_others_have_names() -> None:
    place, path, message, _ = _problem(
        _node("in", output="raw"), [_node("t", "raw", line=4)], [_node("o1", "raw"), _node("o2", "raw")]
    )
    assert (place, path) == ("job.conf:4", "block.t.plugin_output")
    assert "is missing" in message


def test_a_transform_whose_rows_nobody_takes_is_a_problem() -> None:
    place, path, message, _ = _problem(
        _node("in", output="raw"), [_node("t", "raw", output="lost", line=6)], [_node("o1", "raw"), _node("o2", "raw")]
    )
    assert (place, path) == ("job.conf:6", "block.t.plugin_output")
    assert "nobody takes" in message
    assert "lost" in message


def test_transforms_that_take_rows_from_one_another_are_a_problem() -> None:
    place, path, message, _ = _problem(
        _node("in", output="raw"),
        [_node("t1", "b", output="a", line=2), _node("t2", "a", output="b", line=3)],
        [_node("out", "raw")],
    )
    assert (place, path) == ("job.conf:2", "block.t1.plugin_input")
    assert "from one another" in message
