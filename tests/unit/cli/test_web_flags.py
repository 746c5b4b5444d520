"""The flags of the HTTP server: what cannot be is refused before a job starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.cli.main import main
from edgesocket.errors import ExitCode

TOKEN = "0123456789abcdef-test"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job file. It must not be started: that would take hold of this process's signals."""

    def start(*_: object) -> None:
        raise AssertionError("the jobs were started")

    monkeypatch.setattr("edgesocket.cli.run._stop_on_signals", start)
    monkeypatch.delenv("EDGESOCKET_HTTP")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    path = tmp_path / "job.conf"
    path.write_text("env { job.mode = STREAMING }\nsource { EdgeSocket { port = 9, token = t } }\nsink { Null {} }")
    return path


@pytest.mark.parametrize(
    ("arguments", "variable", "code", "says"),
    [
        (["--http", "0.0.0.0:0"], "", ExitCode.USAGE, "a token is needed"),
        (["--http", "somewhere"], "", ExitCode.USAGE, "ADDRESS:PORT"),
        ([], "0.0.0.0:8080", ExitCode.USAGE, "EDGESOCKET_HTTP 0.0.0.0:8080: other hosts"),
        (["--http", "127.0.0.1:0", "--http-key", "k"], "", ExitCode.USAGE, "--http-cert"),
        (["--http", "127.0.0.1:0", "--http-cert", "/nowhere.pem"], "", ExitCode.USAGE, "/nowhere.pem: No such file"),
        (["--http", "127.0.0.1:0", "--http-token-file", "none"], "", ExitCode.USAGE, "--http-token-file none: No such"),
        (["--http", "192.0.2.1:0", "--http-token-file", "token"], "", ExitCode.UNAVAILABLE, "cannot have port"),
    ],
)
def test_a_server_that_cannot_be_as_asked_is_refused_before_the_job_starts(
    job: Path,
    arguments: list[str],
    variable: str,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("uvicorn")
    if variable:
        monkeypatch.setenv("EDGESOCKET_HTTP", variable)
    assert main(["run", str(job), *arguments]) == code
    assert says in capsys.readouterr().err
    assert not (job.parent / ".edgesocket").exists()


@pytest.mark.parametrize("arguments", [[], ["--http", "off", "--http-token-file", "token"]])
def test_serve_without_a_token_or_a_server_is_refused(
    job: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == ExitCode.USAGE
    assert "--http-token-file" in capsys.readouterr().err


def test_where_a_library_is_missing_only_who_asks_for_the_server_is_told(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("edgesocket.cli.web_flags.missing_library", lambda: "uvicorn")
    assert main(["run", str(job), "--http", "127.0.0.1:0"]) == ExitCode.UNAVAILABLE
    assert "pip install 'edgesocket[web]'" in capsys.readouterr().err
    assert main(["run", str(job)]) == ExitCode.BUG, "the test's own hindrance: it would have started"
    assert "the jobs were started" in capsys.readouterr().err
