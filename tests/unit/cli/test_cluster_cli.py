"""The verbs of a cluster while no Ray answers: orders are written, read, and ended all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cli.main import main
from edgesocket.cluster.attempts import Attempt, Attempts
from edgesocket.store.place import root_of

NOWHERE = "127.0.0.1:1"
"""An address at which no Ray answers."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "states"
    monkeypatch.setenv("EDGESOCKET_CLUSTER", str(root))
    monkeypatch.setenv("RAY_ADDRESS", NOWHERE)
    return root


def job(directory: Path, name: str = "edge", port: int = 9999, more: str = "") -> str:
    path = directory / f"{name}.conf"
    path.write_text(
        f"env {{ tag_filter {{ zone = a }}\n {more} }}\n"
        f'source {{ EdgeSocket {{ port = {port}\n token = "t0ken-t0ken" }} }}\nsink {{ Null {{ }} }}\n'
    )
    return str(path)


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_job_is_ordered_without_ray_and_says_what_starts_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", job(tmp_path), "--wait", "0"]) == 0
    told = capsys.readouterr()
    assert "edgesocket reconcile starts it" in told.err
    assert "job edge is ordered and does not run yet" in told.out
    assert main(["jobs", "--format", "json"]) == 0
    (found,) = shown(capsys)
    assert (found["job"], found["state"], found["wanted"]) == ("edge", "PENDING", "RUNNING")
    assert main(["status", "edge"]) == 0
    assert "job edge: PENDING" in capsys.readouterr().out


def test_waiting_for_a_job_that_does_not_run_says_try_later(root: Path, tmp_path: Path) -> None:
    assert main(["submit", job(tmp_path), "--wait", "0.01"]) == 75


def test_a_job_that_never_ran_is_cancelled(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["submit", job(tmp_path), "--wait", "0"])
    assert main(["cancel", "edge"]) == 0
    assert "it has never run" in capsys.readouterr().out
    main(["status", "edge", "--format", "json"])
    assert shown(capsys)["cluster"]["state"] == "CANCELLED"
    assert main(["submit", job(tmp_path), "--wait", "0"]) == 0


def test_a_second_job_on_the_port_is_refused_with_file_and_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["submit", job(tmp_path), "--wait", "0"])
    capsys.readouterr()
    assert main(["submit", job(tmp_path, "other"), "--wait", "0"]) == 78
    told = capsys.readouterr().err
    assert "other.conf:" in told
    assert "job edge listens on port 9999 too" in told


def test_apply_leaves_what_is_there_and_replaces_what_changed(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["submit", job(tmp_path), "--wait", "0", "--apply"])
    capsys.readouterr()
    assert main(["submit", job(tmp_path), "--wait", "0", "--apply"]) == 0
    assert "is submitted already, as it is" in capsys.readouterr().out
    assert main(["submit", job(tmp_path, more="checkpoint.interval = 4000"), "--wait", "0", "--apply"]) == 0
    capsys.readouterr()
    main(["status", "edge", "--format", "json"])
    found = shown(capsys)["cluster"]
    assert (found["order"], found["host"]) == (2, "edge~2")


def test_a_directory_of_jobs_shares_processes(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "jobs"
    directory.mkdir()
    for number in range(3):
        job(directory, f"j{number}", 9000 + number)
    assert main(["submit", str(directory), "--jobs-per-host", "2", "--wait", "0"]) == 0
    capsys.readouterr()
    main(["jobs", "--format", "json"])
    assert [one["host"] for one in shown(capsys)] == ["pool-zone.a-1", "pool-zone.a-1", "pool-zone.a-2"]


def test_those_before_one_that_is_refused_are_ordered(root: Path, tmp_path: Path) -> None:
    directory = tmp_path / "jobs"
    directory.mkdir()
    job(directory, "a", 9000)
    job(directory, "b", 9000)
    assert main(["submit", str(directory), "--wait", "0"]) == 78
    assert root_of(str(root)).place("a").exists() is False
    assert main(["status", "a"]) == 0
    assert main(["status", "b"]) == 64


def test_logs_come_from_the_file_of_the_job(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["submit", job(tmp_path), "--wait", "0"])
    assert main(["logs", "edge"]) == 69
    place = root_of(str(root)).place("edge")
    attempt = Attempt(time_ms=1, host="edge", start=1, node="n", address="10.0.0.2", pid=7, order=1)
    Attempts(place.open_store()).note(attempt)
    (root / "edge" / "job.log").write_text("one\ntwo\nthree\n")
    capsys.readouterr()
    assert main(["logs", "edge", "-n", "2"]) == 0
    assert capsys.readouterr().out == "two\nthree\n"


@pytest.mark.parametrize("verb", ["status", "cancel", "savepoint", "move"])
def test_a_job_that_was_never_submitted_is_named(
    root: Path, verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([verb, "nobody"]) == 64
    assert "there is no job nobody in" in capsys.readouterr().err


def test_without_a_root_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("EDGESOCKET_CLUSTER", raising=False)
    assert main(["submit", job(tmp_path)]) == 64
    assert "--cluster ROOT, or set EDGESOCKET_CLUSTER" in capsys.readouterr().err


def test_reconcile_without_ray_says_so_at_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reconcile"]) == 69
    assert f"Ray at {NOWHERE} cannot be reached" in capsys.readouterr().err
