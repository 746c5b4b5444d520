"""The syntax of SeaTunnel's HOCON dialect."""

from __future__ import annotations

import pytest
from config_helpers import SOURCE, fixes, syntax_problems, values


class TestKeys:
    def test_a_dotted_key_stays_one_key(self) -> None:
        assert values('bootstrap.servers = "x"') == {"bootstrap.servers": "x"}

    def test_an_arrow_nests(self) -> None:
        assert values("a->b->c = 1") == {"a": {"b": {"c": 1}}}

    def test_an_arrow_in_quotes_is_part_of_the_name(self) -> None:
        assert values('"a->b" = 1') == {"a->b": 1}

    def test_an_arrow_may_append(self) -> None:
        assert values("a->b = [1]\na->b += 2") == {"a": {"b": [1, 2]}}

    def test_a_quoted_key_with_a_dot_is_one_key(self) -> None:
        assert values('tag_filter { "edge.ingress" = "true" }') == {"tag_filter": {"edge.ingress": "true"}}

    def test_a_quoted_part_behind_a_dot(self) -> None:
        assert values('tag_filter."edge.ingress" = "true"') == {"tag_filter.edge.ingress": "true"}

    def test_a_hyphen_belongs_to_the_key(self) -> None:
        assert values('tag_filter { edge-ingress = "true" }') == {"tag_filter": {"edge-ingress": "true"}}

    def test_a_key_that_begins_like_a_unit_or_a_word_is_a_key(self) -> None:
        assert values("ms = 1\nnull = 2\ntrue = 3\ninclude = 4\n5s = 6") == {
            "ms": 1,
            "null": 2,
            "true": 3,
            "include": 4,
            "5s": 6,
        }

    def test_words_of_a_key_keep_the_blanks_between_them(self) -> None:
        assert values("  a  b  = 1") == {"a  b": 1}

    def test_the_order_of_keys_is_kept(self) -> None:
        assert list(values("z = 1\na = 2\nm = 3\na = 4")) == ["z", "a", "m"]

    @pytest.mark.parametrize("separator", [" = ", "=", ":", " : ", " \t= "])
    def test_separators(self, separator: str) -> None:
        assert values(f"a{separator}1") == {"a": 1}

    def test_nothing_is_needed_before_a_block_not_even_the_same_line(self) -> None:
        assert values("a {}\nb\n\n{\n x = 1 }") == {"a": {}, "b": {"x": 1}}

    @pytest.mark.parametrize("key", ["a..b", ".a", "a.", "a->", "->a"])
    def test_an_empty_part_of_a_name_is_refused(self, key: str) -> None:
        assert syntax_problems(f"{key} = 1") == [
            f"job.conf:1:1: {'top level'}: this name has an empty part",
        ]

    def test_a_forbidden_character_in_a_name(self) -> None:
        assert syntax_problems("x = 1\nab* = 1") == ["job.conf:2:3: ab: '*' may not stand in a name without quotes"]

    def test_a_missing_name(self) -> None:
        assert syntax_problems("= 1") == ["job.conf:1:1: top level: a setting's name was expected, not '='"]


class TestValues:
    @pytest.mark.parametrize(
        ("written", "value"),
        [
            ("1", 1),
            ("-0", 0),
            ("1.50", 1.5),
            ("1e+2", 100.0),
            ("1E-2", 0.01),
            ("007", "007"),
            ("true", True),
            ("false", False),
            ("null", None),
            ('"null"', "null"),
            ('"1"', "1"),
            ("TRUE", "TRUE"),
            ("5 minutes", "5 minutes"),
            ("a  b c", "a  b c"),
            ('a"b"c', "abc"),
            ('"a" "b"', "a b"),
            ("/var/log", "/var/log"),
            ("a->b", "a->b"),
            ("1" * 500, "1" * 500),
        ],
    )
    def test_single_values(self, written: str, value: object) -> None:
        got = values(f"a = {written}")["a"]

        assert got == value
        assert type(got) is type(value)

    def test_blanks_around_a_value_do_not_belong_to_it(self) -> None:
        assert values("a =  x \t \n") == {"a": "x"}

    def test_a_value_may_begin_on_the_next_line(self) -> None:
        assert values('a =\n  "x"\nb = # why\n [1]') == {"a": "x", "b": [1]}

    def test_lists(self) -> None:
        assert values("a = [1, 2\n3\n, 4,\n]\nb = []\nc = [[1], {x = 1}]") == {
            "a": [1, 2, 3, 4],
            "b": [],
            "c": [[1], {"x": 1}],
        }

    def test_joined_lists_and_blocks(self) -> None:
        assert values("a = [1] [2]\nb = {x = 1} {y = 2, x = 3}") == {"a": [1, 2], "b": {"x": 3, "y": 2}}

    def test_what_cannot_be_joined(self) -> None:
        expected = "a text, a list and a block cannot be joined with each other"

        assert syntax_problems("x = 1\na = 1 [2]\nb = {} [2] {}") == [
            f"job.conf:2: a: {expected}",
            f"job.conf:3: b: {expected}",
        ]

    def test_commas_between_settings_are_optional(self) -> None:
        assert values("{a = 1, b = 2,\nc = 3\n,d = 4,}") == {"a": 1, "b": 2, "c": 3, "d": 4}

    def test_the_same_key_again_replaces_a_value_and_merges_a_block(self) -> None:
        assert values("a = 1\na = 2\nb { x = 1, y { z = 1 } }\nb { y { w = 2 } }") == {
            "a": 2,
            "b": {"x": 1, "y": {"z": 1, "w": 2}},
        }

    def test_a_block_takes_a_values_place_and_the_other_way_round(self) -> None:
        assert values("a = 1\na { x = 2 }\nb { x = 1 }\nb = 2") == {"a": {"x": 2}, "b": 2}


class TestQuotes:
    def test_nothing_inside_quotes_is_special(self) -> None:
        assert values('token = "a#b//c$d${e}:f"') == {"token": "a#b//c$d${e}:f"}

    def test_escapes(self) -> None:
        assert values(r'a = "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"') == {"a": '"\\/\b\f\n\r\té😀'}

    def test_an_unknown_escape_is_named(self) -> None:
        assert syntax_problems(r'a = "x\q"') == [r"job.conf:1:7: a: the escape \q does not exist"]

    def test_half_a_surrogate_pair_is_no_character(self) -> None:
        assert syntax_problems(r'a = "\ud83d"') == [
            "job.conf:1:6: a: a \\u escape is half of a surrogate pair, which is no character"
        ]

    def test_triple_quotes_keep_everything(self) -> None:
        assert values('a = """x\\n"y"\n  ${?z} """') == {"a": 'x\\n"y"\n  ${?z} '}

    def test_quotes_right_before_the_closing_three_belong_to_the_text(self) -> None:
        assert values('a = """x"""""\nb = """"""') == {"a": 'x""', "b": ""}

    def test_triple_quotes_that_never_close(self) -> None:
        assert syntax_problems('a = 1\nb = """x') == ['job.conf:2:5: b: the """ here is never closed']

    def test_quotes_that_do_not_close_on_their_line(self) -> None:
        assert syntax_problems('a = 1\nb = "x\nc = "y"') == [
            "job.conf:2:5: b: the text in quotes is not closed on its line"
        ]


class TestComments:
    def test_comments_after_values_and_on_lines_of_their_own(self) -> None:
        text = "# one\n// two\na = 1 # three\nb = x // four\nc = [ # five\n 1 // six\n]\nd = 2#seven"

        assert values(text) == {"a": 1, "b": "x", "c": [1], "d": 2}

    def test_a_comment_may_stand_between_name_and_block(self) -> None:
        assert values("a # why\n{ b = 1 }") == {"a": {"b": 1}}

    @pytest.mark.parametrize("text", ["", "\n\n", "# only", "// only\n# comments\n", "\ufeff", " \t\r\n"])
    def test_nothing_is_an_empty_file(self, text: str) -> None:
        assert values(text) == {}


class TestForbiddenCharacters:
    @pytest.mark.parametrize("char", list("$:=+`^?!@*&\\"))
    def test_each_is_named_with_its_place_and_never_with_the_value(self, char: str) -> None:
        found = syntax_problems(f"secret_key = AAEC{char}Hx8\n")

        assert found == [f"job.conf:1:18: secret_key: '{char}' may not stand in a value without quotes"]

    def test_one_run_reports_all_of_them_and_reads_on(self) -> None:
        text = 'env {\n a = AAEC=\n b { c = /var/*.log, d = x:"," } }\nf = [x*, 1]'

        assert syntax_problems(text) == [
            "job.conf:2:10: env.a: '=' may not stand in a value without quotes",
            "job.conf:3:15: env.b.c: '*' may not stand in a value without quotes",
            "job.conf:3:27: env.b.d: ':' may not stand in a value without quotes",
            "job.conf:4:7: f: '*' may not stand in a value without quotes",
        ]

    def test_a_forgotten_comma_is_thought_of(self) -> None:
        advice = "or a comma between two settings"

        assert fixes(SOURCE + "env { lease_ms = 1 parallelism = 2 }")[0].endswith(advice)
        assert fixes(SOURCE + "sink { Null { } Console = {} }")[0].endswith(advice)
        assert not fixes(SOURCE + "env { job.name = 1=2 }")[0].endswith(advice)


class TestBrokenStructure:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a {\n b = 1", "1:3: a: the { here is never closed"),
            ("a = [1, 2", "1:5: a: the [ here is never closed"),
            ("a = 1\n}", "2:1: top level: a } without the { it closes"),
            ("a = 1 ]", "1:7: top level: a ] without its opening bracket"),
            ("a = [1}", "1:7: a: a } without its opening bracket"),
            ("{ a = 1 } b", "1:11: top level: something follows the closing } of the file"),
            ("[1]", "1:1: top level: a job file is a block of settings, not a list"),
            (", a = 1", "1:1: top level: a comma without a setting before it"),
            ("a = 1,, b = 2", "1:7: top level: a comma without a setting before it"),
            ("a = [1,,2]", "1:8: a: a comma without an element before it"),
            ("a = 1\nport\nb = 2", "2:1: port: port has no value"),
            ("a { port }", "1:5: a.port: port has no value"),
            ("port", "1:1: port: port has no value"),
            ("a =", "1:3: a: a has no value"),
            ("a = }", "1:3: a: a has no value"),
            ("a = \nb = 2", "2:1: a: a has no value on its line"),
            ('a = {x=1} "y" b = 2', "1:17: a: '=' may not stand in a value without quotes"),
            ('a = """x""" b', ""),
            ('a = "x" { }\n', "1: a: a text, a list and a block cannot be joined with each other"),
            ("a { b = [1] } c = 1", "1:17: a: '=' may not stand in a value without quotes"),
        ],
    )
    def test_each_fault_names_its_place(self, text: str, problem: str) -> None:
        assert syntax_problems(text) == ([f"job.conf:{problem}"] if problem else [])

    def test_a_forgotten_equals_sign_does_not_put_the_value_into_the_message(self) -> None:
        found = syntax_problems('source {\n EdgeSocket {\n  token "my-secret"\n  port = 1\n } }')

        assert found == ["job.conf:3:3: source.EdgeSocket.token: token has no value"]

    def test_nesting_has_a_limit(self) -> None:
        assert values("a = " + "[" * 40 + "]" * 40)
        assert "nest deeper than 40" in syntax_problems("a = " + "[" * 41 + "]" * 41)[0]
        assert "nest deeper than 40" in syntax_problems("a{" * 5000)[0]


class TestPluginLists:
    def test_children_of_the_three_blocks_are_an_ordered_list_with_repeats(self) -> None:
        text = "sink { Console {}\n Null { a = 1 }\n Console { b = 2 } }\nsource { X = {} }\ntransform {}"

        assert values(text) == {
            "sink": [{"Console": {}}, {"Null": {"a": 1}}, {"Console": {"b": 2}}],
            "source": [{"X": {}}],
            "transform": [],
        }

    def test_only_at_the_top_level(self) -> None:
        assert values("a { sink { Console { x = 1 }, Console { y = 2 } } }") == {
            "a": {"sink": {"Console": {"x": 1, "y": 2}}}
        }

    def test_two_blocks_of_one_name_are_one_list(self) -> None:
        assert values("sink { Null {} }\nsink { Console {} }") == {"sink": [{"Null": {}}, {"Console": {}}]}

    def test_a_list_replaces_and_a_block_adds_to_it(self) -> None:
        assert values("sink { Null {} }\nsink = [{ plugin_name = A }]\nsink { B {} }") == {
            "sink": [{"plugin_name": "A"}, {"B": {}}]
        }

    def test_blocks_in_a_row(self) -> None:
        assert values("sink { A {} } { B {} }") == {"sink": [{"A": {}}, {"B": {}}]}
