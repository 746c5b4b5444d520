"""Option specs: every type, every limit, both spellings, hints, secrets."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from config_helpers import Files

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.nodes import Location, Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions, duration, parse_options, whole_number


def refuse_x(value: str) -> str:
    if value == "x":
        raise Refused("x is refused", "anything but x")
    return value.upper()


def text(name: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.TEXT, description="", example='"it"', **more)


TABLE = OptionTable(
    text("plain", aliases=("older",), former=("oldest",)),
    text("secret", secret=True),
    text("checked", check=refuse_x),
    text("nested.name"),
    whole_number("count", 5, "", minimum=1, maximum=100),
    Option(name="port", kind=Kind.INTEGER, description="", minimum=1, maximum=65535, noun="a TCP port", example="9999"),
    Option(name="ratio", kind=Kind.DECIMAL, description="", default=Decimal("0.9"), above=0, maximum=1, example="0.5"),
    Option(name="flag", kind=Kind.BOOLEAN, description="", default=False, example="true"),
    Option(
        name="mode", kind=Kind.CHOICE, description="", choices=("RAW", "Packet"), refused={"Both": "is not supported"}
    ),
    Option(name="only", kind=Kind.CHOICE, description="", choices=("TOKEN",)),
    duration("wait_ms", 100, ""),
    duration("wait.interval", 3, "", unit="s", minimum=0, attribute="interval_s"),
    Option(name="size", kind=Kind.SIZE, description="", unit="bytes"),
    Option(name="names", kind=Kind.TEXT_LIST, description="", default=()),
    Option(name="tags", kind=Kind.TEXT_MAP, description="", default={}),
    Option(name="later", kind=Kind.LATER, description="some day", harmless=("false",)),
    ignored={"other.": "it is for another engine", "dead": "nobody reads it"},
)


def read(body: str, table: OptionTable = TABLE, **more: Any) -> tuple[ParsedOptions, list[str], list[str]]:
    report = Report()
    root = read_document(body, "job.conf", Surroundings(Files({})), report).root
    parsed = parse_options(table, root, "env", report, **more)
    return parsed, [str(problem) for problem in report.sorted_problems("job.conf")], report.notes


def good(body: str) -> dict[str, Any]:
    parsed, problems, _ = read(body)

    assert problems == []

    return parsed.values


def bad(body: str, **more: Any) -> list[str]:
    """The problems without fix lines, each after `job.conf:1: env.`"""
    _, problems, _ = read(body, **more)
    return [problem.partition("\n")[0].removeprefix("job.conf:1: env.") for problem in problems]


class TestValues:
    def test_everything_left_out_has_its_default_and_a_later_option_has_none(self) -> None:
        assert good("") == {
            "plain": None,
            "secret": None,
            "checked": None,
            "nested_name": None,
            "count": 5,
            "port": None,
            "ratio": Decimal("0.9"),
            "flag": False,
            "mode": None,
            "only": None,
            "wait_ms": 100,
            "interval_s": 3,
            "size": None,
            "names": (),
            "tags": {},
        }

    @pytest.mark.parametrize(
        ("body", "key", "value"),
        [
            ('port = "9999"', "port", 9999),
            ("port = +1", "port", None),
            ('port = "+1"', "port", 1),
            ("port = 007", "port", 7),
            ("ratio = 1", "ratio", Decimal(1)),
            ("ratio = 0.070", "ratio", Decimal("0.070")),
            ("ratio = 5e-1", "ratio", Decimal("0.5")),
            ("flag = TRUE", "flag", True),
            ('flag = "False"', "flag", False),
            ("mode = packet", "mode", "Packet"),
            ("only = token", "only", "TOKEN"),
            ("wait_ms = 5 minutes", "wait_ms", 300_000),
            ("wait.interval = 2 m", "interval_s", 120),
            ("size = 1 KiB", "size", 1024),
            ("plain = 0123", "plain", "0123"),
            ("plain = true", "plain", "true"),
            ('plain = ""', "plain", ""),
            ("plain = a # b", "plain", "a"),
            ('plain = "a"#b', "plain", "a"),
            ("checked = y", "checked", "Y"),
            ("names = [a, 1]", "names", ("a", "1")),
            ("names = a", "names", ("a",)),
            ('names = "a, b"', "names", ("a", "b")),
            ("later = FALSE", "count", 5),
            ("later {}", "count", 5),
        ],
    )
    def test_values_become_their_type(self, body: str, key: str, value: object) -> None:
        parsed, problems, _ = read(body)

        assert parsed.values.get(key) == value
        assert bool(problems) == (value is None)

    @pytest.mark.parametrize("before", ["", "plain = x, "])
    @pytest.mark.parametrize("written", ["5 minutes", '"5 minutes"', "300000", "300s", "300 s", "5m"])
    @pytest.mark.parametrize("after", ["", ", plain = x", "\nplain = x", " # x", " // x"])
    def test_a_duration_is_the_same_in_every_position(self, before: str, written: str, after: str) -> None:
        assert good(f"{before}wait_ms = {written}{after}")["wait_ms"] == 300_000

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ("port = 0", "port: 0 is not a TCP port (1..65535)"),
            ("port = 65536", "port: 65536 is not a TCP port (1..65535)"),
            ("port = -1", "port: -1 is not a TCP port (1..65535)"),
            ("port = 99.5", "port: 99.5 is not a TCP port (1..65535)"),
            ("port = abc", "port: abc is not a TCP port (1..65535)"),
            ('port = ""', 'port: "" is not a TCP port (1..65535)'),
            ("port = ١", "port: ١ is not a TCP port (1..65535)"),
            ('port = "1\\n2"', 'port: "1\\n2" is not a TCP port (1..65535)'),
            ("port = " + "9" * 5000, f"port: {'9' * 40}... is not a TCP port (1..65535)"),
            ("count = 99.5", "count: 99.5 is not a whole number"),
            ("count = 0", "count: 0 is too small: at least 1"),
            ("count = 101", "count: 101 is too large: at most 100"),
            ("count = [1]", "count: needs a single value, not a list"),
            ("count { a = 1 }", "count: needs a single value, not a block"),
            ("ratio = 0", "ratio: 0 is too small: more than 0"),
            ("ratio = 1.0001", "ratio: 1.0001 is too large: at most 1"),
            ("ratio = NaN", "ratio: NaN is not a number"),
            ("ratio = Infinity", "ratio: Infinity is not a number"),
            ("ratio = 1e-999", "ratio: 1e-999 is not a number"),
            ("flag = yes", "flag: yes is neither true nor false"),
            ("flag = 1", "flag: 1 is neither true nor false"),
            ("mode = rwa", "mode: rwa is none of RAW, Packet"),
            ("mode = both", "mode: Both is not supported"),
            ("only = MTLS", "only: MTLS is not supported, only TOKEN"),
            ("wait_ms = 99.5", "wait_ms: 99.5 is no whole number of milliseconds"),
            ("wait_ms = 0", "wait_ms: 0 is too small: at least 1"),
            ("wait_ms = 5 parsecs", 'wait_ms: "5 parsecs" has the unknown unit parsecs (known: ms, s, m, h, d)'),
            ("size = much", "size: much is no number with a unit (B, KiB, MiB, GiB, kB, MB, GB)"),
            ("checked = x", "checked: x is refused"),
            ("plain = a#b", "plain: the text ends where a comment begins"),
            ("plain = a//b", "plain: the text ends where a comment begins"),
            ("names { a = 1 }", "names: needs a list of texts, not a block"),
            ("names = [a, [b]]", "names: needs a list of texts, and a list is in it"),
            ("names = [null]", "names: needs a list of texts, and null is in it"),
            ("tags = 5", "tags: needs a block of names and texts, not a single value"),
            ("tags { a { b = 1 } }", "tags: the value of a is a block, not text"),
            ("tags { a = [1] }", "tags: the value of a is a list, not text"),
            ("later = true", "later: is not supported yet: some day"),
            ("later.more = 1", "later: is not supported yet: some day"),
            ("later { more = 1 }", "later: is not supported yet: some day"),
        ],
    )
    def test_what_is_wrong_is_said(self, body: str, problem: str) -> None:
        parsed, _, _ = read(body)

        assert bad(body) == [problem]
        assert problem.partition(":")[0] not in parsed.values

    def test_every_problem_is_reported_each_with_its_line(self) -> None:
        _, problems, _ = read("port = 0\ncount = x\n\nflag = 3\nnope = 1")

        assert [problem.partition(": ")[0] for problem in problems] == [f"job.conf:{n}" for n in (1, 2, 4, 5)]

    def test_null_is_the_same_as_left_out(self) -> None:
        assert good("count = 7\ncount = null")["count"] == 5
        assert good("nested { name = a }\nnested.name = null")["nested_name"] is None
        assert good("tags = null")["tags"] == {}

    def test_a_value_with_a_reported_fault_is_not_reported_again(self) -> None:
        assert [line.partition(" ")[0] for line in bad("count = ${nope}")] == ["job.conf:1:"]
        assert [line.partition(" ")[0] for line in bad("names = ${nope}")] == ["job.conf:1:"]
        assert [line.partition(" ")[0] for line in bad("tags = ${nope}")] == ["job.conf:1:"]
        assert [line.partition(" ")[0] for line in bad("tags { a = ${nope} }")] == ["job.conf:1:"]
        assert [line.partition(" ")[0] for line in bad("names = [${nope}]")] == ["job.conf:1:"]
        assert [line.partition(" ")[0] for line in bad("later = ${nope}")] == ["job.conf:1:"]


class TestSpellings:
    @pytest.mark.parametrize(
        "body",
        [
            "nested.name = b",
            "nested { name = b }",
            "nested->name = b",
            '"nested.name" = b',
            "nested { name = a }\nnested.name = b",
            "nested.name = a\nnested { name = b }",
            "nested {}\nnested.name = b",
        ],
    )
    def test_a_dotted_name_flat_and_nested_and_the_later_one_wins(self, body: str) -> None:
        assert good(body)["nested_name"] == "b"

    @pytest.mark.parametrize(
        "body",
        [
            'tags { "a.b" = "1", c-d = 2 }',
            'tags."a.b" = "1"\ntags.c-d = 2',
            'tags."a.b" = 3\ntags { c-d = 2 }\ntags.a.b = 1',
            "tags { x = 1, a.b = 1 }\ntags.c-d = 2\ntags.x = null",
            "tags = null\ntags { a.b = 1, c-d = 2 }",
            "tags.x = 5\ntags = null\ntags.a.b = 1\ntags.c-d = 2",
        ],
    )
    def test_a_map_in_every_way_it_can_be_written(self, body: str) -> None:
        assert good(body)["tags"] == {"a.b": "1", "c-d": "2"}

    def test_booleans_and_numbers_in_a_map_are_text(self) -> None:
        assert good("tags { a = true, b = 1.50 }")["tags"] == {"a": "true", "b": "1.50"}

    def test_an_alias_is_read_with_a_note(self) -> None:
        parsed, problems, notes = read("older = x")

        assert (parsed.values["plain"], problems) == ("x", [])
        assert notes == ["job.conf:1: env.older is an old name, write plain"]

    def test_a_list_written_as_one_text_is_noted(self) -> None:
        assert read("names = a")[2] == []
        assert read('names = "a,b"')[2] == ["job.conf:1: env.names is one text with commas, read as a list of 2"]


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("name", "fix"),
        [
            ("coun", "did you mean count?"),
            ("Port", "did you mean port?"),
            ("wait-ms", "did you mean wait_ms?"),
            ("oldest", "did you mean plain?"),
            ("nested.nam", "did you mean nested.name?"),
            ("zzzzz", "delete it"),
        ],
    )
    def test_each_is_a_problem_with_the_nearest_name(self, name: str, fix: str) -> None:
        _, problems, _ = read(f"{name} = my-secret")

        assert problems == [f"job.conf:1: env.{name}: there is no such option\n      fix: {fix}"]

    def test_below_a_block_that_leads_on(self) -> None:
        assert bad("nested { nam = 1 }") == ["nested.nam: there is no such option"]
        assert bad("nested = 5") == ["nested: there is no such option"]

    def test_an_option_of_another_block_names_that_block(self) -> None:
        _, problems, _ = read("job.mode = x", elsewhere={"job.mode": "the env block"})

        assert problems == ["job.conf:1: env.job.mode: is in the wrong place\n      fix: move it to the env block"]

    def test_some_are_ignored_with_a_note(self) -> None:
        _, problems, notes = read("other.x = 1\nother { y = 2, z = 3 }\ndead = 4")

        assert problems == []
        assert notes == [
            "job.conf:1: env.other.x is ignored: it is for another engine",
            "job.conf:2: env.other.y is ignored: it is for another engine",
            "job.conf:2: env.other.z is ignored: it is for another engine",
            "job.conf:3: env.dead is ignored: nobody reads it",
        ]

    def test_a_required_option_is_not_missed_twice(self) -> None:
        table = OptionTable(text("token", required=True, former=("auth_token",)))

        assert bad("", table=table) == ["token: is required, and missing"]
        assert bad("auth_token = x", table=table) == ["auth_token: there is no such option"]
        assert bad("tokn = x", table=table) == ["tokn: there is no such option"]
        assert bad("token = null", table=table) == ["token: is required, and missing"]


class TestPlaces:
    def test_where_options_stand(self) -> None:
        parsed, _, _ = read("\ncount = 1\nport = 0")

        assert parsed.place("count") == Location("job.conf", 2, 9)
        assert parsed.place("flag") == Location("job.conf", 1, 1)

    def test_checks_across_options_know_which_ones_have_a_problem(self) -> None:
        parsed, _, _ = read("count = 1\nport = 0")

        assert parsed.has("count", "flag")
        assert not parsed.has("count", "port")


class TestShorten:
    @pytest.mark.parametrize(
        ("value", "plain", "quoted"),
        [
            ("abc", "abc", "abc"),
            ("a b", "a b", '"a b"'),
            ("", "", '""'),
            ("a\nb\x1b", "a\\nb\\u001b", '"a\\nb\\u001b"'),
            ("x" * 41, "x" * 40 + "...", "x" * 40 + "..."),
        ],
    )
    def test_a_piece_of_a_file_in_a_message(self, value: str, plain: str, quoted: str) -> None:
        assert shorten(value) == plain
        assert shorten(value, quote=True) == quoted

    def test_a_secret_is_never_shown(self) -> None:
        table = OptionTable(Option(name="pin", kind=Kind.INTEGER, description="", secret=True))

        assert bad("pin = hunter2", table=table) == ["pin: the value is not a whole number"]
