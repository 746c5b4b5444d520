"""What holds for every job file: JSON is HOCON, forms change nothing, faults are problems, secrets stay inside."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.job import load_job
from edgesocket.config.nodes import Report, to_python
from edgesocket.config.units import parse_duration
from edgesocket.config.variables import parse_variables, substitute
from edgesocket.errors import ConfigError

# A placeholder inside quotes is a variable, and would not come back as it is.
texts = st.text(st.characters(codec="utf-8")).filter(lambda text: "${" not in text)
names = texts.filter(lambda name: name not in ("source", "sink", "transform"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)
documents = st.dictionaries(names, json_values, max_size=5)
words = st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda word: word not in ("true", "false", "null"))
FRAGMENTS = (
    *"{}[]=:,\"'\\#/+$?@*&`^!.-> \n\t\r\ufeff",
    *("${a}", "${?a}", "+=", '"""', "//", "->", "a", "b.c", "1", "null", "include ", "source", "sink", "env", "é"),
)
soup = st.lists(st.sampled_from(FRAGMENTS) | words, max_size=40).map("".join)


def read(text: str, name: str = "job.conf") -> Any:
    report = Report()
    root = read_document(text, name, Surroundings(), report).root
    assert not report.problems
    return to_python(root)


@settings(deadline=None)
@given(documents, st.sampled_from(["job.conf", "job.json"]), st.sampled_from([None, 1]))
def test_every_json_document_reads_as_json_does(document: dict[str, Any], name: str, indent: int | None) -> None:
    assert read(json.dumps(document, indent=indent, ensure_ascii=indent is None), name) == document


@settings(deadline=None)
@given(documents)
def test_mark_line_ends_and_last_newline_change_nothing(document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1)

    assert read("\ufeff" + text) == document
    assert read(text.replace("\n", "\r\n")) == document
    assert read(text + "\n# end") == document
    assert read(text.strip("{}")) == document


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=4), st.data())
def test_a_dotted_name_is_found_under_every_spelling(path: list[str], data: st.DataObject) -> None:
    cuts = [data.draw(st.booleans()) for _ in path[1:]]
    text, depth = path[0], 0
    for word, nested in zip(path[1:], cuts, strict=True):
        text += " { " + word if nested else "." + word
        depth += nested
    text += " = 1" + " }" * depth

    assert read(f"{text}\nfound-it = ${{{'.'.join(path)}}}")["found-it"] == 1


@settings(deadline=None)
@given(soup)
def test_any_text_is_a_document_or_a_configuration_error(text: str) -> None:
    for name in ("job.conf", "job.json"):
        try:
            load_job(text, name)
        except ConfigError as error:
            assert error.problems
            for problem in error.problems:
                assert problem.path
                assert problem.message
                assert problem.location.startswith(name)


KEYS = ("a", "b", "c", "a.b", "a.c", "b.c")
references = st.sampled_from(KEYS).flatmap(lambda key: st.sampled_from([f"${{{key}}}", f"${{?{key}}}"]))
expressions = st.recursive(
    references | st.sampled_from(["1", "x"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs) + "}"
        ),
        st.tuples(inner, st.sampled_from(["", " "]), inner).map("".join),
    ),
    max_leaves=8,
)
webs = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["=", "+="]), expressions), max_size=8)


@settings(deadline=None)
@given(webs)
def test_any_web_of_substitutions_comes_to_an_end(web: list[tuple[str, str, str]]) -> None:
    text = "\n".join(" ".join(line) for line in web)
    try:
        load_job("source { EdgeSocket { port = 1, token = t } }\n" + text, "job.conf")
    except ConfigError as error:
        assert all(problem.location.startswith("job.conf:") for problem in error.problems)


@settings(deadline=None)
@given(soup)
def test_any_text_inside_a_source_is_a_job_or_a_configuration_error(text: str) -> None:
    try:
        load_job(f"source {{ EdgeSocket {{ port = 1, token = t\n{text}\n}} }}", "job.conf")
    except ConfigError as error:
        assert error.problems


SECRET = "hunter2Zq"


@settings(deadline=None)
@given(soup, soup, st.sampled_from(["token", "secret_key", "auth_token", "tokn"]), st.sampled_from(["", '"', '"""']))
def test_a_secret_with_anything_around_it_never_reaches_a_message(
    before: str, after: str, key: str, quote: str
) -> None:
    text = (
        f"source {{ EdgeSocket {{ port = 1\n{key} = {quote}{before.replace(chr(10), '')}{SECRET}{after}{quote}\n}} }}"
    )
    try:
        notes = "".join(load_job(text, "job.conf").notes)
    except ConfigError as error:
        notes = str(error)
    # Text that ends the value turns what follows into names and values of other options; those may be shown.
    ends_value = '"\n,{}[]#=:$+/\\' if quote else '"\n,{}[]#/'
    if not any(char in before + after for char in ends_value):
        assert SECRET not in notes


@settings(deadline=None)
@given(st.integers(0, 10**12), st.sampled_from([("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]), texts)
def test_a_duration_is_its_number_times_its_unit(number: int, unit: tuple[str, int], blanks: str) -> None:
    blank = "".join(char for char in blanks if char.isspace())

    assert parse_duration(f"{blank}{number}{blank}{unit[0]}{blank}", "ms") == number * unit[1]


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_a_variable_is_put_in_unchanged(value: str) -> None:
    assert substitute("<${x}>", {"x": value}, {}) == (f"<{value}>" if value else "<${x}>")
    report = Report()
    root = read_document("a = ${x}", "job.conf", Surroundings(variables={"x": value}), report).root
    assert to_python(root) == {"a": value}


@settings(deadline=None)
@given(st.dictionaries(words, st.text().filter(lambda value: "," not in value), min_size=1))
def test_assignments_come_back_from_one_argument_or_from_many(variables: dict[str, str]) -> None:
    arguments = [f"{name}={value}" for name, value in variables.items()]

    assert parse_variables(arguments) == variables
    if not any(char in value for value in variables.values() for char in '"[]'):
        assert parse_variables([",".join(arguments)]) == variables
