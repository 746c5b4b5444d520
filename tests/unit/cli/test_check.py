"""`edgesocket check`: every problem of every file at once, or what the jobs will do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgesocket.cli.main import main
from edgesocket.errors import ExitCode

SOURCE = 'source {{ EdgeSocket {{ port = {port}, token = "hidden-token" {more} }} }}\n'
SINK = "sink { Console {} }\n"


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EDGESOCKET_STATE", "EDGESOCKET_LABELS", "SEATUNNEL_HOME"):
        monkeypatch.delenv(name, raising=False)


def job(
    directory: Path, name: str, *, port: int = 9999, more: str = "", env: str = "env { job.mode = STREAMING }"
) -> Path:
    path = directory / f"{name}.conf"
    path.write_text(f"{env}\n{SOURCE.format(port=port, more=more)}{SINK}")
    return path


def check(*arguments: object) -> int:
    return main(["check", *map(str, arguments)])


def test_a_job_that_can_run_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job(tmp_path, "edge")
    assert check(path) == ExitCode.OK
    text = capsys.readouterr().out
    assert "job edge can run" in text
    assert "EdgeSocket: port 9999, RAW" in text
    assert "Console <- EdgeSocket: every row at least once" in text
    assert str(tmp_path / ".edgesocket" / "edge") in text
    assert list(tmp_path.iterdir()) == [path], "nothing was made"


def test_the_way_of_the_rows_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edge.conf"
    path.write_text(
        "env { job.mode = STREAMING }\nsource { EdgeSocket { port = 9999, token = t, plugin_output = raw } }\n"
        "transform { Copy { plugin_input = raw, plugin_output = two, fields { again = value } } }\n"
        "sink { Console { plugin_input = two }, Null { plugin_input = raw } }\n"
        'dead_letter { DeadLetter { path = "/dead" } }\n'
    )
    assert check(path) == ExitCode.OK
    lines = [line.split(":")[0].split() for line in capsys.readouterr().out.splitlines()]
    assert ["transform", "Copy", "<-", "EdgeSocket"] in lines
    assert ["sink", "Console", "<-", "Copy"] in lines
    assert ["sink", "Null", "<-", "EdgeSocket"] in lines
    assert ["refused", "DeadLetter"] in [line[:2] for line in lines]


def test_what_is_filled_in_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(job(tmp_path, "edge", env="")) == ExitCode.OK
    assert "note: " in capsys.readouterr().out
    assert check(job(tmp_path, "edge", env=""), "--strict") == ExitCode.CONFIG


def test_every_problem_of_every_file_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = job(tmp_path, "one", port=0, more=", max_retris = 1")
    two = job(tmp_path, "two", env="env { job.mode = BATCH }")
    good = job(tmp_path, "good", port=1)
    assert check(one, two, good) == ExitCode.CONFIG
    shown = capsys.readouterr()
    assert f"{one}: 2 problems" in shown.err
    assert "did you mean max_retries?" in shown.err
    assert f"{two}:1: env.job.mode" in shown.err
    assert "job good can run" in shown.out
    assert "hidden-token" not in shown.err + shown.out


def test_lenient_makes_notes_of_unknown_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job(tmp_path, "edge", more=", max_retris = 1")
    assert check(path, "--lenient") == ExitCode.OK
    assert "max_retris is ignored: there is no such option; did you mean max_retries?" in capsys.readouterr().out


def test_lenient_does_not_hide_that_a_required_option_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edge.conf"
    path.write_text("source { EdgeSocket { port = 1, tokn = x } }")
    assert check(path, "--lenient") == ExitCode.CONFIG
    assert "token: is required" in capsys.readouterr().err


def test_two_jobs_with_one_name_or_one_port_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more").mkdir()
    one, two = job(tmp_path, "edge"), job(tmp_path / "more", "edge")
    assert check(one, two) == ExitCode.CONFIG
    shown = capsys.readouterr().err
    assert "env.job.name" in shown
    assert "binds port 9999 too" in shown


def test_a_directory_stands_for_its_job_files_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job(tmp_path, "b", port=2)
    job(tmp_path, "a", port=1)
    (tmp_path / "notes.txt").write_text("no job")
    assert check(tmp_path) == ExitCode.OK
    shown = capsys.readouterr().out
    assert shown.index("job a can run") < shown.index("job b can run")
    (tmp_path / "empty").mkdir()
    assert check(tmp_path / "empty") == ExitCode.USAGE


def test_a_file_that_is_not_there_is_said_and_the_others_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path / "none.conf", job(tmp_path, "edge")) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert "No such file" in shown.err
    assert "job edge can run" in shown.out


def test_labels_come_from_the_file_the_environment_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml")
    path = job(tmp_path, "edge", env="env { job.mode = STREAMING, tag_filter { zone = a, edge = true, rack = 7 } }")
    assert check(path) == ExitCode.OK
    assert "no labels at all" in capsys.readouterr().out
    assert check(path, "--label", "zone=b") == ExitCode.CONFIG
    assert "env.tag_filter.rack" in capsys.readouterr().err
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "hazelcast.yaml").write_text(
        "hazelcast: {member-attributes: {zone: {type: string, value: x}, edge: {value: true}}}"
    )
    monkeypatch.setenv("EDGESOCKET_LABELS", "zone=y,rack=7")
    assert check(path, "--label", "zone=a") == ExitCode.OK


class TestState:
    def test_the_command_line_then_the_environment_then_the_engine_file_say_where_it_lies(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("yaml")
        path = job(tmp_path, "edge")
        home = tmp_path / "seatunnel"
        (home / "config").mkdir(parents=True)
        (home / "config" / "seatunnel.yaml").write_text(
            "seatunnel: {engine: {checkpoint: {interval: 1500, storage: {type: localfile, "
            "plugin-config: {namespace: /srv/states}}}}}"
        )
        monkeypatch.setenv("SEATUNNEL_HOME", str(home))
        assert check(path) == ExitCode.OK
        shown = capsys.readouterr().out
        assert "state in   /srv/states/edge" in shown
        assert "checkpoint every 1.5 s" in shown
        monkeypatch.setenv("EDGESOCKET_STATE", str(tmp_path / "root"))
        check(path)
        assert f"state in   {tmp_path}/root/edge" in capsys.readouterr().out
        check(path, "--state-dir", tmp_path / "own")
        assert f"state in   {tmp_path}/own\n" in capsys.readouterr().out
        check(path, job(tmp_path, "two", port=2), "--state-dir", tmp_path / "own")
        assert f"state in   {tmp_path}/own/edge\n" in capsys.readouterr().out

    def test_a_name_from_the_command_line_is_the_jobs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert check(job(tmp_path, "edge"), "-n", "other") == ExitCode.OK
        assert f"state in   {tmp_path}/.edgesocket/other\n" in capsys.readouterr().out
        assert check(job(tmp_path, "edge"), "-n", "a/b") == ExitCode.USAGE


def test_no_driver_of_a_sink_is_imported(tmp_path: Path) -> None:
    path = job(tmp_path, "edge")
    code = (
        "import sys; from edgesocket.cli.main import main; assert main(['check', sys.argv[1]]) == 0;"
        "drivers = {'duckdb', 'confluent_kafka', 'sqlalchemy', 'boto3', 'urllib3', 'yaml'};"
        "assert not drivers & set(sys.modules), drivers & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


def test_run_says_everything_that_keeps_its_jobs_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = job(tmp_path, "one", port=1, more=", max_retris = 1")
    two = job(tmp_path, "two", port=2, env="env { job.mode = STREAMING, tag_filter { zone = a } }")
    three = job(tmp_path, "three", port=2)
    assert main(["run", str(one), str(two), str(three), "--label", "zone=b"]) == ExitCode.CONFIG
    shown = capsys.readouterr().err
    assert "3 problems" in shown
    assert all(word in shown for word in ("max_retris", "env.tag_filter.zone", "port 2 too"))
