"""`edgesocket options`: the options as the specs have them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from edgesocket.cli.main import main
from edgesocket.components.registry import Registry
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


def test_options_are_shown_where_only_the_core_is_installed() -> None:
    code = (
        "import sys\n"
        "class Bare:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('numpy', 'pyarrow', 'msgspec', 'xxhash', 'cryptography'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Bare())\n"
        "from edgesocket.cli.main import main\n"
        "sys.exit(main(['options']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"\n{entry.title}\n" in f"\n{done.stdout}" for entry in ENTRIES)


def test_options_of_installed_plug_ins_are_among_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Registry, "plugin_names", lambda self: ["MyStore", "Broken"] if self._kind == "sink" else [])
    monkeypatch.setattr(Registry, "offered", lambda self, name: name)
    monkeypatch.setattr(Registry, "factory", lambda self, name: PluggedStore if name == "MyStore" else BrokenStore)
    assert options() == ExitCode.OK
    shown = capsys.readouterr()
    assert "\nsink MyStore\n" in shown.out
    assert "  place: text; required" in shown.out
    assert "  most: integer" in shown.out
    assert "sink Broken: its OPTIONS are no" in shown.err
    assert options("mystore") == ExitCode.OK
    assert capsys.readouterr().out.startswith("sink MyStore\n")


class PluggedStore:
    """A third party's sink."""

    def __init__(self, place: str, most: int = 5, how: object = object) -> None: ...


class BrokenStore:
    """One that does not say what its options are."""

    OPTIONS = 7
