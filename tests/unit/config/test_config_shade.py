"""Secrets in base64 are decoded where shade.identifier says so, and no message shows one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.nodes import Report, to_python
from edgesocket.config.shade import SHADED, unshade


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def unshaded(text: str, name: str = "job.conf") -> tuple[Any, list[str]]:
    """The plain values, and the problems."""
    report = Report()
    root = read_document(text, name, Surroundings(), report).root
    return to_python(unshade(root, report)), [str(problem) for problem in report.sorted_problems(name)]


BASE64 = "env { shade.identifier = base64 }\n"


@pytest.mark.parametrize("option", SHADED)
@pytest.mark.parametrize("kind", ["source", "sink"])
def test_secrets_of_sources_and_sinks_are_decoded(kind: str, option: str) -> None:
    values, problems = unshaded(f'{BASE64}{kind} {{ A {{ {option} = "{encoded("s3cret ü")}", port = 1 }} }}')
    assert problems == []
    assert values[kind] == [{"A": {option: "s3cret ü", "port": 1}}]


@pytest.mark.parametrize(
    "env",
    [
        "env { shade.identifier = BASE64 }",
        "env { shade { identifier = base64 } }",
        "env.shade.identifier = base64",
    ],
)
def test_the_identifier_has_every_spelling_of_an_option(env: str) -> None:
    values, _ = unshaded(f'{env}\nsink {{ A {{ token = "{encoded("x")}" }} }}')
    assert values["sink"] == [{"A": {"token": "x"}}]


@pytest.mark.parametrize("env", ["", "env { shade.identifier = default }", "env { shade.identifier = null }"])
def test_without_an_identifier_nothing_is_touched(env: str) -> None:
    values, problems = unshaded(f'{env}\nsink {{ A {{ token = "{encoded("x")}" }} }}')
    assert values["sink"] == [{"A": {"token": encoded("x")}}]
    assert problems == []


def test_an_unknown_identifier_is_refused() -> None:
    _, problems = unshaded("env {\n shade.identifier = rot13 }")
    assert len(problems) == 1
    assert "job.conf:2: env.shade.identifier" in problems[0]


def test_further_paths_are_those_of_shade_options_under_any_spelling() -> None:
    text = f"""
        env {{ shade.identifier = base64, shade.options = ["headers.X-Key", kafka.config.sasl.jaas.config] }}
        sink {{
          A {{ headers {{ X-Key = "{encoded("one")}", Other = b }} }}
          B {{ kafka.config {{ sasl.jaas.config = "{encoded("two")}" }}, kafka.config.x = y }}
        }}"""
    values, problems = unshaded(text)
    assert problems == []
    assert values["sink"] == [
        {"A": {"headers": {"X-Key": "one", "Other": "b"}}},
        {"B": {"kafka.config": {"sasl.jaas.config": "two"}, "kafka.config.x": "y"}},
    ]


def test_json_blocks_are_decoded_too() -> None:
    text = f'{{"env": {{"shade.identifier": "base64"}}, "sink": [{{"plugin_name": "A", "token": "{encoded("x")}"}}]}}'
    values, problems = unshaded(text, "job.json")
    assert problems == []
    assert values["sink"] == [{"plugin_name": "A", "token": "x"}]


@pytest.mark.parametrize("secret", ["hunter2!", "aGk", encoded("x")[:-1], base64.b64encode(b"\xff\xfe").decode()])
def test_what_is_not_base64_of_text_is_a_problem_that_names_the_place_and_not_the_value(secret: str) -> None:
    _, problems = unshaded(f'{BASE64}sink {{\n A {{\n password = "{secret}" }} }}')
    assert len(problems) == 1
    assert "job.conf:4" in problems[0]
    assert "password" in problems[0]
    assert secret not in problems[0]
