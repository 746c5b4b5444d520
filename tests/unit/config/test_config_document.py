"""Whole files: marks, line ends, includes, JSON, variables."""

from __future__ import annotations

import sys

import pytest
from config_helpers import Files, syntax_problems, values

from edgesocket.config.document import Surroundings, no_files, read_document
from edgesocket.config.nodes import Report, to_python

TEXT = 'env { job.mode = "STREAMING" }\nsource {\n  A { x = [1,\n 2] }\n}\n# end\na = """x"""\n'


class TestForms:
    @pytest.mark.parametrize(
        "text", ["\ufeff" + TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip("\n"), "\n\n" + TEXT, "{" + TEXT + "}"]
    )
    def test_byte_order_mark_crlf_and_the_last_newline_change_nothing(self, text: str) -> None:
        assert values(text) == values(TEXT)

    def test_the_second_of_two_spellings_of_a_file_keeps_its_lines(self) -> None:
        assert syntax_problems("\ufeffa = 1\r\nb = *\r\n") == [
            "job.conf:2:5: b: '*' may not stand in a value without quotes"
        ]


class TestIncludes:
    def test_settings_arrive_where_the_include_stands(self) -> None:
        files = {"base.conf": "a = 1\nb = 2"}

        assert values('a = 0\ninclude "base.conf"\nb = 3', files=files) == {"a": 1, "b": 3}
        assert values('x { include "base.conf" }', files=files) == {"x": {"a": 1, "b": 2}}

    @pytest.mark.parametrize(
        "form", ['"base.conf"', 'file("base.conf")', 'required("base.conf")', 'required( file( "base.conf" ) )']
    )
    def test_forms(self, form: str) -> None:
        assert values(f"include {form}", files={"base.conf": "a = 1"}) == {"a": 1}

    def test_a_missing_one_is_nothing_and_a_missing_required_one_is_a_problem(self) -> None:
        assert values('include "nope"') == {}
        assert syntax_problems('a = 1\ninclude required("nope")') == [
            "job.conf:2: include: the required file nope does not exist"
        ]

    def test_the_ending_may_be_left_out(self) -> None:
        assert values('include "base"', files={"base.conf": "a = 1"}) == {"a": 1}
        assert values('include "base"', files={"base.json": '{"a": 1}'}) == {"a": 1}

    def test_optional_substitutions_in_an_included_file(self) -> None:
        base = 't = "dev"\nt = ${?NOPE_1}\nt = ${?NOPE_2}'

        assert values('include "base.conf"', files={"base.conf": base}) == {"t": "dev"}

    def test_an_included_file_sees_overrides_of_the_including_one(self) -> None:
        files = {"base.conf": "host = a\nurl = ${host}/x"}

        assert values('include "base.conf"\nhost = b', files=files) == {"host": "b", "url": "b/x"}

    def test_an_included_file_looks_in_its_own_block_first(self) -> None:
        files = {"base.conf": "host = a\nurl = ${host}${port}"}

        assert values('host = z\nport = 1\nx { include "base.conf" }', files=files)["x"] == {"host": "a", "url": "a1"}

    def test_plugin_blocks_of_an_included_file(self) -> None:
        files = {"sinks.conf": "sink { A {}, A {} }", "inner.conf": "A {}\nB {}"}

        assert values('include "sinks.conf"\nsink { B {} }', files=files)["sink"] == [{"A": {}}, {"A": {}}, {"B": {}}]
        assert values('sink { include "inner.conf"\nA {} }', files=files)["sink"] == [{"A": {}}, {"B": {}}, {"A": {}}]

    def test_names_are_relative_to_the_including_file(self) -> None:
        files = Files({"one.conf": 'include "two.conf"', "two.conf": "a = 1"})
        document = read_document('include "one.conf"', "job.conf", Surroundings(files), Report())

        assert to_python(document.root) == {"a": 1}
        assert files.asked == [("one.conf", "job.conf"), ("two.conf", "one.conf")]

    def test_problems_name_the_file_they_are_in_the_job_file_first(self) -> None:
        assert syntax_problems('include "base.conf"\n\n\nb = x*', files={"base.conf": "a = y*"}) == [
            "job.conf:4:6: b: '*' may not stand in a value without quotes",
            "base.conf:1:6: a: '*' may not stand in a value without quotes",
        ]

    def test_a_circle_and_a_long_chain(self) -> None:
        circle = {"a.conf": 'include "b.conf"', "b.conf": 'include "a.conf"'}
        chain = {f"{n}.conf": f'include "{n + 1}.conf"' for n in range(50)}

        assert syntax_problems('include "a.conf"', files=circle) == [
            "b.conf:1: include: a file includes itself: job.conf -> a.conf -> b.conf -> a.conf"
        ]
        assert syntax_problems('x { include "0.conf" }', files=chain) == [
            "15.conf:1: x: more than 16 files include each other"
        ]

    def test_the_same_file_twice_is_no_circle(self) -> None:
        assert values('x { include "a.conf" }\ny { include "a.conf" }', files={"a.conf": "b = 1"}) == {
            "x": {"b": 1},
            "y": {"b": 1},
        }

    def test_nesting_counts_through_includes(self) -> None:
        chain: dict[str, str | Exception] = {
            f"{n}.conf": "a { a { a { a { a { include " + f'"{n + 1}.conf"' + "}}}}}" for n in range(16)
        }

        assert "nest deeper than 40" in syntax_problems('include "0.conf"', files=chain)[0]

    def test_files_that_cannot_be_read(self) -> None:
        files: dict[str, str | Exception] = {
            "secret.conf": PermissionError(13, "Permission denied"),
            "odd.conf": OSError(),
            "latin.conf": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        }
        text = 'include "secret.conf"\ninclude "odd.conf"\ninclude "latin.conf"'

        assert syntax_problems(text, files=files) == [
            "job.conf:1: include: secret.conf cannot be read: Permission denied",
            "job.conf:2: include: odd.conf cannot be read: OSError",
            "job.conf:3: include: latin.conf is not UTF-8 (byte 0)",
        ]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('include url("http://x")', "include url(...) is not supported"),
            ('include required(classpath("x"))', "include classpath(...) is not supported"),
            ('include file("x"', "a ) is missing after the included file's name"),
            ("include required(x)", "include needs the file's name in quotes"),
            ('include "x" a = 1', "a comma or a new line is missing here"),
        ],
    )
    def test_other_forms_are_refused(self, text: str, problem: str) -> None:
        assert [line.partition(": top level: ")[2] for line in syntax_problems(text)] == [problem]

    def test_nothing_is_read_where_no_reader_is_given(self) -> None:
        assert no_files("a", "b") is None


class TestJson:
    def test_values_and_names(self) -> None:
        text = '{"env": {"job.mode": "STREAMING", "a.b": [1, 2.5, true, null, "x"]},\n "": {}}'

        assert values(text, "job.json") == {
            "env": {"job.mode": "STREAMING", "a.b": [1, 2.5, True, None, "x"]},
            "": {},
        }

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("a = 1", "1:1"),
            ('{"a": 1,}', "1:8" if sys.version_info >= (3, 13) else "1:9"),
            ('{"a": 1 // x\n}', "1:9"),
            ('{\n"a": NaN}', "2:6"),
            ('{"a": Infinity}', "1:7"),
            ("", "1:1"),
        ],
    )
    def test_what_is_no_json_is_refused_with_its_place(self, text: str, place: str) -> None:
        found = syntax_problems(text, "job.JSON")

        assert len(found) == 1
        assert found[0].startswith(f"job.JSON:{place}: JSON: ")

    def test_deep_nesting_is_a_message(self) -> None:
        assert "nest deeper than 40" in syntax_problems("[" * 200_000, "job.json")[0]

    def test_a_list_at_the_top_is_refused(self) -> None:
        assert syntax_problems("[]", "job.json") == [
            "job.json:1:1: top level: a job file is a block of settings, not a list"
        ]


class TestVariables:
    def test_the_document_comes_first_then_variables_then_the_environment(self) -> None:
        around = {"variables": {"a": "v", "b": "v"}, "environ": {"a": "e", "b": "e", "c": "e"}}

        assert values("a = d\nx = ${a}\ny = ${b}\nz = ${c}", **around) == {"a": "d", "x": "d", "y": "v", "z": "e"}

    def test_a_value_is_put_in_unchanged(self) -> None:
        variables = {"name": "a b", "cols": '"x,y"', "odd": "a=b$c ${name} \\n #"}

        assert values('a = ${name}\nb = "<${cols}>"\nc = "${odd}"\nd = ${odd}', variables=variables) == {
            "a": "a b",
            "b": '<"x,y">',
            "c": "a=b$c ${name} \\n #",
            "d": "a=b$c ${name} \\n #",
        }

    def test_defaults_work_inside_quotes(self) -> None:
        assert values('p = "${PORT:9999}"\nq = "${?x}"', environ={"PORT": ""}) == {"p": "9999", "q": "${?x}"}

    def test_in_the_name_of_an_included_file(self) -> None:
        assert values('include "${X}.conf"', files={"b.conf": "a = 1"}, variables={"X": "b"}) == {"a": 1}

    def test_never_in_a_name(self) -> None:
        assert values('"${X}" = 1', variables={"X": "b"}) == {"${X}": 1}
