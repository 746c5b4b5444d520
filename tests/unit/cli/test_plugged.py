"""Third parties' sinks and transforms in job files: found by entry point, their options read by a rule."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from edgesocket.cli.jobs import make_plan
from edgesocket.cli.plugged import InstalledPlugins
from edgesocket.components.registry import Registry
from edgesocket.components.sink import CommitRole
from edgesocket.config.job import load_job
from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.specs import JobSpec
from edgesocket.errors import ConfigError
from edgesocket.store.directory import DirectoryPlace

HEAD = "env { job.mode = STREAMING }\nsource { EdgeSocket { port = 1, token = t } }\n"


class StoreSink:
    commit_role = CommitRole.RECOMMITTABLE

    def __init__(self, *, url: str, port: int = 80, quick: bool = False, share: float | None = None, tags: Any = ()):
        self.given = (url, port, quick, share, tags)


class TableSink:
    commit_role = CommitRole.DECIDING
    OPTIONS = OptionTable(
        Option(name="store.name", kind=Kind.TEXT, required=True, description="Name."),
        Option(name="size", kind=Kind.SIZE, unit="bytes", default=1, minimum=1, description="Size."),
    )

    def __init__(self, **options: Any) -> None:
        self.given = options


class GreedySink:
    def __init__(self, *, plugin_input: str = "") -> None: ...


class Upper:
    def __init__(self, fields: list[str], mode: str = "all") -> None:
        self.given = (fields, mode)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> InstalledPlugins:
    module = ModuleType("edgesocket_test_plugins")
    for one in (StoreSink, TableSink, GreedySink, Upper):
        setattr(module, one.__name__, one)
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def installed(group: str) -> list[EntryPoint]:
        names = {
            "edgesocket.sinks": ["StoreSink", "TableSink", "GreedySink", "Missing"],
            "edgesocket.transforms": ["Upper"],
        }
        return [EntryPoint(name.removesuffix("Sink"), f"{module.__name__}:{name}", group) for name in names[group]]

    registries = [Registry[Any](kind, {}, installed) for kind in ("sink", "transform")]
    monkeypatch.setattr("edgesocket.cli.jobs.sink_registry", registries[0])
    monkeypatch.setattr("edgesocket.cli.jobs.transform_registry", registries[1])
    return InstalledPlugins(*registries)


def _job(plugins: InstalledPlugins, rest: str) -> JobSpec:
    return load_job(HEAD + rest, "job.conf", plugged=plugins)


def _problems(plugins: InstalledPlugins, rest: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _job(plugins, rest)
    return [str(problem).replace("\n      fix: ", " | ") for problem in caught.value.problems]


def _made(spec: JobSpec, tmp_path: Any) -> Any:
    return make_plan(spec, DirectoryPlace(tmp_path)).sinks[0].make()


def test_parameters_of_the_class_are_its_options(plugins: InstalledPlugins, tmp_path: Any) -> None:
    spec = _job(
        plugins,
        'sink { store { url = "http://x", port = "81", quick = true, share = 0.5, tags { a = [1, "2", null] } } }',
    )
    (sink,) = spec.sinks
    assert (sink.plugin, sink.id, sink.decides, sink.exactly_once) == ("Store", "Store", False, True)
    assert _made(spec, tmp_path).given == ("http://x", 81, True, 0.5, {"a": [1, "2", None]})


def test_defaults_are_those_of_the_class(plugins: InstalledPlugins, tmp_path: Any) -> None:
    assert _made(_job(plugins, "sink { Store { url = x } }"), tmp_path).given == ("x", 80, False, None, ())


def test_faults_are_problems_like_any_other(plugins: InstalledPlugins) -> None:
    assert _problems(plugins, "sink { Store { prt = 5, port = many } }") == [
        "job.conf:3: sink.Store.url: is required, and missing",
        "job.conf:3: sink.Store.prt: there is no such option | did you mean port?",
        "job.conf:3: sink.Store.port: many is not a whole number",
    ]


def test_a_table_of_its_own_is_checked_like_a_built_in_one(plugins: InstalledPlugins, tmp_path: Any) -> None:
    spec = _job(plugins, "sink { Table { store.name = x, size = 2 KiB, on_rejected_row = fail } }")
    assert spec.sinks[0].decides
    assert _made(spec, tmp_path).given == {"store_name": "x", "size": 2048}, "what belongs to the job is not passed on"
    assert _problems(plugins, "sink { Table { store { name = x }, size = 0 } }") == [
        "job.conf:3: sink.Table.size: 0 is too small: at least 1"
    ]


def test_two_sinks_that_decide_are_too_many_also_where_they_are_plugged_in(plugins: InstalledPlugins) -> None:
    (problem,) = _problems(plugins, "sink { Table { store.name = x }, Table { store.name = y } }")
    assert "decides checkpoints in its own transaction" in problem


def test_a_transform_is_plugged_in_too(plugins: InstalledPlugins, tmp_path: Any) -> None:
    spec = _job(plugins, "transform { upper { fields = [a, b], plugin_output = up } }\nsink { Null {} }")
    assert spec.transforms[0].plugin == "Upper"
    assert make_plan(spec, DirectoryPlace(tmp_path)).transforms[0].make().given == (["a", "b"], "all")  # type: ignore[attr-defined]


def test_what_cannot_be_used_is_said_with_its_line(plugins: InstalledPlugins) -> None:
    assert _problems(plugins, "sink { Greedy {} }") == [
        "job.conf:3: sink.Greedy: its options plugin_input belong to the job | ask its author"
    ]
    (problem,) = _problems(plugins, "sink { Missing {} }")
    assert problem.startswith("job.conf:3: sink.Missing: edgesocket_test_plugins:Missing cannot be loaded")


def test_an_unknown_name_is_compared_with_theirs_too(plugins: InstalledPlugins) -> None:
    (problem,) = _problems(plugins, "sink { Stor { url = x } }")
    assert "did you mean Store?" in problem


def test_a_built_in_name_is_not_looked_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(group: str) -> list[EntryPoint]:
        raise AssertionError(group)

    plugins = InstalledPlugins(Registry[Any]("sink", {}, installed), Registry[Any]("transform", {}, installed))
    assert (
        _job(plugins, "transform { Copy { fields { b = value } } }\nsink { console {} }").sinks[0].plugin == "Console"
    )
