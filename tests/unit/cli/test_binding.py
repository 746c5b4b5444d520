"""Transforms that do not fit their rows are problems of the job file like others: with file and line, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgesocket.cli import binding
from edgesocket.cli.main import main
from edgesocket.components.registry import Registry
from edgesocket.errors import ConfigError, ConfigProblem, ExitCode
from edgesocket.transforms import sql

HEAD = """env { job.mode = STREAMING }
source { EdgeSocket { port = 9999, token = t, plugin_output = raw
  schema { fields { id = bigint, event = string } }
  metadata_fields { peer = sender } } }
"""


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EDGESOCKET_STATE", "EDGESOCKET_LABELS", "SEATUNNEL_HOME"):
        monkeypatch.delenv(name, raising=False)


def _job(directory: Path, rest: str) -> Path:
    path = directory / "job.conf"
    path.write_text(HEAD + rest)
    return path


def test_unknown_fields_are_named_with_the_line_of_their_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _job(
        tmp_path,
        "transform {\n  Filter { plugin_input = raw, plugin_output = a,\n    include_fields = [id, evnt] }\n"
        "  Copy { plugin_input = raw, plugin_output = b,\n    fields { x = idd } }\n"
        "  Sql { plugin_input = a, plugin_output = c, query = 'select nothing from a' } }\n"
        "sink { Null { plugin_input = [b, c] } }\n".replace("'", '"'),
    )
    assert main(["check", str(path)]) == ExitCode.CONFIG
    shown = capsys.readouterr().err
    assert "2 problems" in shown, "what hangs on the filter keeps quiet"
    assert f"{path}:7: transform.Filter.include_fields" in shown
    assert f"{path}:9: transform.Copy.fields" in shown
    assert "evnt" in shown


def test_a_query_that_does_not_fit_is_found_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _job(tmp_path, 'transform { Sql {\n  query = "select nothing from raw" } }\nsink { Null {} }\n')
    assert main(["check", str(path)]) == ExitCode.CONFIG
    assert f"{path}:6: transform.Sql.query" in capsys.readouterr().err


def test_sinks_whose_inputs_differ_are_named_with_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _job(
        tmp_path,
        "transform { Filter { plugin_input = raw, plugin_output = a, include_fields = [id] } }\n"
        "sink {\n  Null {\n    plugin_input = [raw, a] }\n  Console { plugin_input = raw } }\n",
    )
    assert main(["check", str(path)]) == ExitCode.CONFIG
    assert f"{path}:8: sink.Null.plugin_input" in capsys.readouterr().err


def test_run_refuses_before_it_makes_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _job(tmp_path, "transform { Filter { exclude_fields = [evnt] } }\nsink { Null {} }\n")
    assert main(["run", str(path)]) == ExitCode.CONFIG
    assert f"{path}:5: transform.Filter.exclude_fields" in capsys.readouterr().err
    assert main(["-c", str(path), "-e", "local"]) == ExitCode.CONFIG
    assert list(tmp_path.iterdir()) == [path]


def test_metadata_columns_are_fields_like_the_others(tmp_path: Path) -> None:
    path = _job(tmp_path, "transform { Filter { include_fields = [sender, id] } }\nsink { Null {} }\n")
    assert main(["check", str(path)]) == ExitCode.OK


def test_duckdb_is_closed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    monkeypatch.setattr(sql.Duck, "close", lambda duck: closed.append(duck._connection.close()))
    for query, code in (("select id from raw", ExitCode.OK), ("select idd from raw", ExitCode.CONFIG)):
        path = _job(tmp_path, f'transform {{ Sql {{ query = "{query}" }} }}\nsink {{ Null {{}} }}\n')
        assert main(["check", str(path)]) == code
    assert len(closed) == 2


def test_a_transform_whose_library_is_not_here_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken: Registry[Any] = Registry("transform", {"Filter": "edgesocket_nowhere:Filter"})
    monkeypatch.setattr(binding, "transform_registry", broken)
    path = _job(tmp_path, "transform { Filter { include_fields = [evnt] } }\nsink { Null {} }\n")
    assert main(["check", str(path)]) == ExitCode.OK
    assert "was not checked" in capsys.readouterr().out


def test_a_registry_that_refuses_is_no_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ConfigError([ConfigProblem(f"transform.{name}", "two installed packages offer it")])

    monkeypatch.setattr(binding.transform_registry, "factory", refuse)
    path = _job(tmp_path, "transform { Filter { include_fields = [id] } }\nsink { Null {} }\n")
    assert main(["check", str(path)]) == ExitCode.CONFIG
