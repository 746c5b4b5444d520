"""Substitutions, self references, `+=`, and what an assignment makes of the one before."""

from __future__ import annotations

import pytest
from config_helpers import syntax_problems, values


class TestSubstitutions:
    def test_a_value_from_elsewhere_in_the_file_before_or_after(self) -> None:
        assert values("a = ${b}\nb = 1\nc = ${b}") == {"a": 1, "b": 1, "c": 1}

    def test_the_last_assignment_of_the_file_counts(self) -> None:
        assert values("a = 1\nb = ${a}\na = 2") == {"a": 2, "b": 2}

    def test_joined_with_text(self) -> None:
        assert values('h = "x"\nendpoint = ${h}":"9999') == {"h": "x", "endpoint": "x:9999"}

    def test_blanks_between_pieces_stay_as_the_specification_has_it(self) -> None:
        assert values("a = 1\nb = ${a} and ${a} ${?none}") == {"a": 1, "b": "1 and 1 "}

    def test_a_block_and_a_list(self) -> None:
        assert values("a { x = 1 }\nb = ${a} { y = 2 }\nc = [1]\nd = ${c} [2] ${c}") == {
            "a": {"x": 1},
            "b": {"x": 1, "y": 2},
            "c": [1],
            "d": [1, 2, 1],
        }

    def test_both_spellings_of_a_dotted_name_are_found(self) -> None:
        assert values("a.b = 1\nc { d = 2 }\nx = ${a.b}\ny = ${c.d}") == {
            "a.b": 1,
            "c": {"d": 2},
            "x": 1,
            "y": 2,
        }

    def test_the_later_spelling_wins(self) -> None:
        assert values("a.b = 1\na { b = 2 }\nx = ${a.b}")["x"] == 2
        assert values("a { b = 2 }\na.b = 1\nx = ${a.b}")["x"] == 1

    def test_a_block_is_found_by_the_beginning_of_flat_names(self) -> None:
        assert values("job.mode = X\njob { name = Y }\na = ${job}")["a"] == {"name": "Y", "mode": "X"}
        assert values("job.mode = X\na = ${job}")["a"] == {"mode": "X"}
        assert values("job = 5\njob.mode = X\na = ${job}")["a"] == 5

    def test_a_name_in_quotes(self) -> None:
        assert values('"a b" = 1\nx = ${"a b"}\ny = ${ "a b" }') == {"a b": 1, "x": 1, "y": 1}

    def test_a_block_may_refer_into_itself(self) -> None:
        text = "bar : { a : ${foo.d}, b : 1 }\nbar.b = 3\nfoo : { c : ${bar.b}, d : 2 }\nfoo.d = 4"

        assert values(text)["bar"]["a"] == 4
        assert values(text)["foo"]["c"] == 3

    def test_into_a_joined_block(self) -> None:
        assert values("base { x = 1 }\na = ${base} { y = 2 } { y = 3 }\nb = ${a.x}\nc = ${a.y}\nd = ${?a.z}") == {
            "base": {"x": 1},
            "a": {"x": 1, "y": 3},
            "b": 1,
            "c": 3,
        }

    def test_through_another_substitution(self) -> None:
        assert values("base { x { y = 1 } }\na = ${base}\nb = ${a.x.y}")["b"] == 1

    def test_a_single_value_hides_the_block_it_replaced(self) -> None:
        assert values("a { x = 1 }\na = 5\nb = ${?a.x}") == {"a": 5}

    def test_plugins_cannot_be_reached_by_name(self) -> None:
        assert syntax_problems("sink { A { x = 1 } }\nb = ${sink.A.x}")[0].startswith(
            "job.conf:2: b: ${sink.A.x} has no value"
        )

    def test_inside_a_plugin_and_a_list(self) -> None:
        assert values("p = 1\nsink { A { x = ${p}, y = [${p}, ${?none}] } }")["sink"] == [{"A": {"x": 1, "y": [1]}}]
        assert values("sink { A = ${?none}, B {} }") == {"sink": [{"B": {}}]}

    def test_without_a_value_names_line_and_setting(self) -> None:
        assert syntax_problems("env {\n\n  a = ${nope}\n}") == [
            "job.conf:3: env.a: ${nope} has no value: not in this file, not from -i, not in the environment"
        ]

    def test_every_one_without_a_value_is_reported(self) -> None:
        assert [line[:12] for line in syntax_problems("a = ${x}\nb = [${y}]\nc = ${z}1")] == [
            "job.conf:1: ",
            "job.conf:2: ",
            "job.conf:3: ",
        ]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("p = ${X:9}", "1:5: p: the substitution is not closed before ':'"),
            ("p = ${X", "1:5: p: the substitution is not closed before the end of the file"),
            ("p = ${X\n}", "1:5: p: the substitution is not closed before the end of the line"),
            ("p = ${}", "1:5: p: the substitution names nothing"),
            ("p = ${?}", "1:5: p: the substitution names nothing"),
            ("p = ${*}", "1:7: p: a setting's name was expected, not '*'"),
        ],
    )
    def test_broken_ones(self, text: str, problem: str) -> None:
        assert syntax_problems(text) == [f"job.conf:{problem}"]


class TestOptionalSubstitutions:
    def test_an_undefined_one_is_as_if_it_were_not_there(self) -> None:
        assert values('t = "dev"\nt = ${?NOPE_1}\nt = ${?NOPE_2}\nu = ${?NOPE_1}') == {"t": "dev"}

    def test_in_a_block_that_merges(self) -> None:
        assert values("a { t = 1 }\na { t = ${?NOPE} }") == {"a": {"t": 1}}

    def test_only_undefined_pieces(self) -> None:
        assert values("a = ${?x}${?y}\nb = ${?x} ${?y}\nc = ${?x}z") == {"c": "z"}

    def test_of_each_other(self) -> None:
        assert values("a = ${?b}\nb = ${?a}") == {}


class TestSelfReferences:
    def test_the_value_before_this_assignment(self) -> None:
        assert values("p = [1]\np = ${p} [2]") == {"p": [1, 2]}
        assert values("a.b = 3\na.b = ${a.b}") == {"a.b": 3}
        assert values("a = 1\na = ${a}2\na = ${a}3\nb = ${a}") == {"a": 123, "b": 123}

    def test_inside_a_block(self) -> None:
        assert values('a { x = "1" }\na { x = ${a.x}"2" }') == {"a": {"x": "12"}}

    def test_of_a_whole_block(self) -> None:
        assert values("a { x = 1 }\na = ${a} { y = 2 }") == {"a": {"x": 1, "y": 2}}
        assert values("a { x = 1 }\na = ${a}") == {"a": {"x": 1}}

    def test_the_environment_is_what_was_before_the_first_assignment(self) -> None:
        assert values('PATH = ${PATH}":/x"', environ={"PATH": "/bin"}) == {"PATH": "/bin:/x"}

    def test_into_the_value_before_this_assignment(self) -> None:
        assert values("a { c = 1 }\na = ${a.c}") == {"a": 1}
        assert values("a = ${?a.c}\na = ${?a.b}${?a.c}") == {}
        assert syntax_problems("b = []\na += ${a.c}${a.b}") == [
            "job.conf:2: a: ${a.c} refers to itself, and a.c has no value before this line",
            "job.conf:2: a: ${a.b} refers to itself, and a.b has no value before this line",
        ]

    def test_a_block_reached_through_a_substitution_may_refer_into_itself(self) -> None:
        text = "a = ${base}\nbase { x = ${a.y}, y = ${a.z}, z = 1 }"

        assert values(text)["a"] == {"x": 1, "y": 1, "z": 1}
        assert values("a = ${b} { x = ${a.y}, y = 1 }\nb { z = ${a.x} }")["a"] == {"z": 1, "x": 1, "y": 1}
        assert values("a { p = ${a.q}, q { r = 1 } }\nx = ${a.p.r}")["x"] == 1
        assert values("a = ${?b} { p = ${a.q}, q { r = 1 } }\nx = ${a.p.r}")["x"] == 1

    def test_a_circle_is_named(self) -> None:
        assert syntax_problems("a = ${b}\nb = ${a}") == [
            "job.conf:1: a: ${b} refers to itself, and b has no value before this line",
            "job.conf:2: b: ${a} refers to itself, and a has no value before this line",
        ]
        assert syntax_problems("a { b = ${a.c}, c = ${a.b} }") != []
        assert syntax_problems("a = ${a}\nb = ${?a.x}") == [
            "job.conf:1: a: ${a} refers to itself, and a has no value before this line"
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "\n".join(["a = 1"] + ["a = ${a}${a}"] * 60),
            "\n".join(["a0 = x"] + [f"a{n} = ${{a{n - 1}}}" for n in range(200, 0, -1)]),
            "\n".join(["a0 = xy"] + [f"a{n + 1} = ${{a{n}}}${{a{n}}}" for n in range(40)]),
            "\n".join(["a0 = [x]"] + [f"a{n + 1} = ${{a{n}}} ${{a{n}}}" for n in range(40)]),
        ],
    )
    def test_no_growth_without_end(self, text: str) -> None:
        assert syntax_problems(text) != []


class TestAppend:
    def test_adds_to_a_list(self) -> None:
        assert values('p = ["a"]\np += "b"\np += [c]') == {"p": ["a", "b", ["c"]]}

    def test_begins_a_list(self) -> None:
        assert values('x.y.z += "c"') == {"x.y.z": ["c"]}

    def test_nothing_to_add(self) -> None:
        assert values("p += ${?x}\nq = null\nq += 1") == {"p": [], "q": [1]}

    def test_in_another_block_and_spelling(self) -> None:
        assert values("a { p = [1] }\na { p += 2 }\na.p += 3\nb = ${a.p}") == {
            "a": {"p": [1, 2]},
            "a.p": [3],
            "b": [1, 2, 3],
        }

    def test_many_times(self) -> None:
        assert values("\n".join(f"p += {n}" for n in range(3000)))["p"] == list(range(3000))

    def test_inside_a_plugin(self) -> None:
        assert values("sink { A { p = [1], p += 2 } }")["sink"] == [{"A": {"p": [1, 2]}}]

    def test_to_something_that_is_no_list(self) -> None:
        problem = "p: += adds to a list, but the value it adds to (job.conf:1) is none"

        assert syntax_problems("p = x\np += 1") == [f"job.conf:2: {problem}"]

    def test_to_no_list_in_a_block_that_merges(self) -> None:
        assert syntax_problems("a { p = x }\na { p += 1 }") == [
            "job.conf:2: a: += adds to a list, but the value it adds to (job.conf:1) is none"
        ]
        assert syntax_problems("a { p { q = x } }\nb = ${a} { p { q += 1 } }") == [
            "job.conf:2: b: a text, a list and a block cannot be joined with each other"
        ]
