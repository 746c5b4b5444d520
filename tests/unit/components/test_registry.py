"""Registry: names find factories, case-blind, imported only when asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from edgesocket.components.registry import Registry, sinks
from edgesocket.config.sinks import SINKS
from edgesocket.errors import ConfigError
from edgesocket.sinks.console import ConsoleSink
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.sinks.null import NullSink


def registry(*plugins: tuple[str, str]) -> Registry:
    def installed(group: str) -> list[EntryPoint]:
        assert group == "edgesocket.sinks"
        return [EntryPoint(name, value, group) for name, value in plugins]

    return Registry("sink", {"LocalFile": "edgesocket.sinks.local_file:LocalFileSink"}, installed)


@pytest.mark.parametrize("name", ["LocalFile", "localfile", "LOCALFILE"])
def test_names_are_case_blind(name: str) -> None:
    assert sinks.factory(name) is LocalFileSink
    assert name in sinks


def test_the_built_in_sinks() -> None:
    assert [sinks.factory(name) for name in ("Console", "LocalFile", "Null")] == [ConsoleSink, LocalFileSink, NullSink]
    assert set(SINKS) <= set(sinks.names()), "what a job file may name can be made"


def test_a_sink_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys; from edgesocket.components.registry import sinks; before = set(sys.modules); 'Console' in sinks;"
        "assert 'edgesocket.sinks.null' not in sys.modules; sinks.factory('null');"
        "assert 'edgesocket.sinks.null' in sys.modules; assert 'edgesocket.sinks.local_file' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_plugins_are_found_by_their_entry_points() -> None:
    found = registry(("MyNull", "edgesocket.sinks.null:NullSink"))
    assert found.factory("mynull") is NullSink
    assert found.names() == ["LocalFile", "MyNull"]


def test_a_plugin_cannot_take_a_built_in_name() -> None:
    found = registry(("localFILE", "edgesocket.sinks.null:NullSink"))
    assert found.factory("LocalFile") is LocalFileSink
    assert found.names() == ["LocalFile"]


def test_two_packages_with_one_name_are_refused() -> None:
    found = registry(("My", "a.b:C"), ("MY", "d.e:F"))
    assert "my" in found
    with pytest.raises(ConfigError, match=r"a\.b:C and d\.e:F"):
        found.factory("my")


def test_one_package_installed_twice_is_no_clash() -> None:
    found = registry(("My", "edgesocket.sinks.null:NullSink"), ("My", "edgesocket.sinks.null:NullSink"))
    assert found.factory("My") is NullSink
    assert found.names() == ["LocalFile", "My"]


def test_an_unknown_name_lists_what_there_is_and_guesses() -> None:
    found = registry(("MyStore", "a:B"))
    assert "Nope" not in found
    with pytest.raises(ConfigError) as caught:
        found.factory("LocalFil")
    (problem,) = caught.value.problems
    assert problem.path == "sink.LocalFil"
    assert problem.message == "there is no such sink; known are LocalFile, MyStore"
    assert problem.fix == "did you mean LocalFile?"
    with pytest.raises(ConfigError) as caught:
        found.factory("Qqq")
    assert caught.value.problems[0].fix == ""


@pytest.mark.parametrize("target", ["no_such_module:Sink", "edgesocket.sinks.null:NoSuchSink"])
def test_a_plugin_that_cannot_be_loaded_is_named(target: str) -> None:
    with pytest.raises(ConfigError, match=rf"sink\.My: {target} cannot be loaded"):
        registry(("My", target)).factory("My")
