"""`edgesocket options`: the options as the specs have them."""

from __future__ import annotations

import json

import pytest

from edgesocket.cli.main import main
from edgesocket.config.catalog import ENTRIES, show_default, walk
from edgesocket.config.options import Kind, Option
from edgesocket.errors import ExitCode

SHOWN = [
    pytest.param(option, id=f"{entry.path}.{path}")
    for entry in ENTRIES
    for path, option in walk(entry.table)
    if option.kind is not Kind.LATER
]


def options(*names: str) -> int:
    return main(["options", *names])


def test_every_option_of_every_plugin_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert options() == ExitCode.OK
    text = capsys.readouterr().out
    for entry in ENTRIES:
        assert f"\n{entry.title}\n" in f"\n{text}"
        for path, _ in walk(entry.table):
            assert f"  {path}: " in text


@pytest.mark.parametrize("name", ["LocalFile", "localfile", "sink localfile", "sink.LocalFile"])
def test_a_plugin_is_found_under_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert options(*name.split()) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.startswith("sink LocalFile\n")
    assert "path: text; required" in text
    assert "token" not in text


@pytest.mark.parametrize("name", ["checkpoint.interval", "CHECKPOINT.INTERVAL", "env.checkpoint.interval"])
def test_one_option_is_found_wherever_it_occurs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert options(name) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.startswith("env\n  checkpoint.interval: duration in ms, at least 10; default 10000\n")
    assert "example: checkpoint.interval = 10000" in text


def test_an_older_name_finds_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert options("source_table_name") == ExitCode.OK
    assert "plugin_input" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "meant"), [("LocalFil", "LocalFile"), ("checkpoint.intervall", "checkpoint.interval")]
)
def test_a_misspelt_name_is_recognised(name: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert options(name) == ExitCode.USAGE
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_json_has_the_same_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert options("EdgeSocket", "--json") == ExitCode.OK
    shown = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert shown["port"] | {"kind": "integer", "required": True, "minimum": 1, "maximum": 65535} == shown["port"]
    assert shown["token"]["secret"]
    assert shown["queue_backpressure_watermark_ratio"]["default"] == 0.9


@pytest.mark.parametrize("option", SHOWN)
def test_every_default_can_be_shown(option: Option) -> None:
    assert show_default(option)
