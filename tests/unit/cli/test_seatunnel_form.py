"""SeaTunnel's form of the command line: what it does, and what it refuses with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.cli.main import main
from edgesocket.errors import ExitCode


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EDGESOCKET_STATE", "EDGESOCKET_LABELS", "SEATUNNEL_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "edge.conf"
    path.write_text(
        'env { job.mode = STREAMING }\nsource { EdgeSocket { port = ${P}, token = "t" } }\nsink { Null {} }\n'
    )
    return path


def test_check_takes_variables_and_a_name(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(conf), "-i", "P=4711", "-e", "local", "-n", "other", "--check"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "job other can run" in text
    assert "port 4711" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "cluster"], "there is no cluster"),
        (["-m", "cluster"], "there is no cluster"),
        (["-cn", "prod"], "there is no cluster"),
        (["--async"], "service manager"),
        (["--set-job-id", "7"], "-n 7"),
        (["-cj", "false"], "-cj"),
        (["--encrypt"], "shade.identifier"),
        (["-r", "nobody"], "-r edge"),
        (["-r", "edge"], "no state"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    conf: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-c", str(conf), "-i", "P=1", *arguments]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert list(conf.parent.iterdir()) == [conf], "nothing was started"


@pytest.mark.parametrize("arguments", [["-s", "x"], ["-can", "x", "y"], ["-j", "x"], ["--metrics", "x"]])
def test_a_job_that_has_no_state_is_named(conf: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == ExitCode.USAGE
    assert "there is no job x in" in capsys.readouterr().err


def test_the_list_is_empty_where_no_job_has_state(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-l"]) == ExitCode.OK
    assert "no job has state" in capsys.readouterr().out


def test_a_command_line_without_a_job_says_what_is_missing(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", "P=1"]) == ExitCode.USAGE
    assert "-c JOB" in capsys.readouterr().err
