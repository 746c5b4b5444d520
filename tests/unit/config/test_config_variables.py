"""Variables inside quotes, and the arguments of `-i`."""

from __future__ import annotations

import pytest

from edgesocket.config.variables import RESERVED_NAMES, parse_variables, substitute
from edgesocket.errors import UsageError


class TestSubstitute:
    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("plain", "plain"),
            ("${v}", "1"),
            ("a${v}b${e}c", "a1b2c"),
            ("${both}", "v"),
            ("${none}", "${none}"),
            ("${none:x}", "x"),
            ("${none:}", ""),
            ("${empty:x}", "x"),
            ("${empty}", "${empty}"),
            ("${v:x}", "1"),
            ("${none:a b:c}", "a b:c"),
            ("${a.b-c}", "3"),
            ("$v {v} ${} ${ v} ${1}", "$v {v} ${} ${ v} ${1}"),
        ],
    )
    def test_rules(self, text: str, result: str) -> None:
        variables = {"v": "1", "both": "v", "empty": "", "a.b-c": "3"}

        assert substitute(text, variables, {"e": "2", "both": "e"}) == result

    def test_an_empty_variable_lets_the_environment_through(self) -> None:
        assert substitute("${x}", {"x": ""}, {"x": "e"}) == "e"

    def test_what_was_put_in_is_not_looked_at_again(self) -> None:
        assert substitute("${a}", {"a": "${b}", "b": "no"}, {}) == "${b}"


class TestParseVariables:
    @pytest.mark.parametrize(
        ("arguments", "result"),
        [
            ([], {}),
            (["name=a b"], {"name": "a b"}),
            (['cols="x,y"'], {"cols": '"x,y"'}),
            (["q=a=b$c"], {"q": "a=b$c"}),
            (["a=1,b=2", "c=3"], {"a": "1", "b": "2", "c": "3"}),
            (["a=1,2,b=3"], {"a": "1,2", "b": "3"}),
            (['a="1,b=2",c=3'], {"a": '"1,b=2"', "c": "3"}),
            (["a=[1,b=2],c=3"], {"a": "[1,b=2]", "c": "3"}),
            (["a=", "b=\n"], {"a": "", "b": "\n"}),
            (["a=1", "a=2"], {"a": "2"}),
        ],
    )
    def test_forms(self, arguments: list[str], result: dict[str, str]) -> None:
        assert parse_variables(arguments) == result

    @pytest.mark.parametrize("argument", ["", "secret", "=x", "1a=x", "a b=x"])
    def test_what_is_no_assignment_is_refused_without_being_shown(self, argument: str) -> None:
        with pytest.raises(UsageError, match=r"^-i number 2 is not of the form name=value$"):
            parse_variables(["ok=1", argument])

    @pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
    def test_names_that_sinks_fill_in_are_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match=name):
            parse_variables([f"{name}=x"])
