"""`edgesocket dead-letters` on real processes: while the job runs, and killed in the middle of a replay."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jobs import ROOT, Job, Wire, edgesocket, free_port, wait_until, write_job
from tests.support.letter_kit import write_letters

SCHEMA = "on_bad_record = dead_letter\n schema { fields { id = %s, name = string } }"


def job_file(directory: Path, port: int, kind: str = "int") -> Path:
    sink = f'LocalFile {{ path = "{directory / "out"}", file_format_type = json }}'
    conf = write_job(directory, port, source=SCHEMA % kind, sink=sink)
    with conf.open("a") as stream:
        stream.write(f'dead_letter {{ DeadLetter {{ path = "{directory / "dead"}" }} }}\n')
    return conf


def ids(directory: Path) -> list[object]:
    """The field id of every published row."""
    lines = [line for path in sorted(directory.glob("part-*")) for line in path.read_text().splitlines()]
    return [json.loads(line)["id"] for line in lines]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Path, Wire]]:
    """A job that runs, and a collector."""
    port = free_port()
    conf = job_file(tmp_path, port)
    with Job(conf) as job:
        assert job.wait_until_listening()
        wire = Wire(port)
        yield conf, wire
        wire.close()


def test_letters_of_a_running_job_are_listed_shown_and_replayed(running: tuple[Path, Wire], tmp_path: Path) -> None:
    conf, wire = running
    wire.ask('__BATCH__:1:{"id": 1, "name": "a"}', '__BATCH__:2:{"id": "two", "name": "b"}', "__BATCH__:3:{")
    wait_until(lambda: list((tmp_path / "dead").glob("dead-*")), what="dead letters")
    listed = edgesocket("dead-letters", "list", conf)
    assert listed.returncode == 0, listed.stderr
    assert "field id: expected int" in listed.stdout
    page = json.loads(edgesocket("dead-letters", "list", conf, "--format", "json").stdout)
    places = [one["position"] for one in page["letters"]]
    shown = edgesocket("dead-letters", "show", conf, places[0])
    assert shown.stdout.endswith('{"id": "two", "name": "b"}\n')
    mended = job_file(tmp_path, 1, "string")
    done = edgesocket("dead-letters", "replay", mended, "--all", "--format", "json")
    assert done.returncode == 65, done.stderr
    end = json.loads(done.stdout)
    assert (end["replayed"], end["failed"], end["failures"][0]["position"]) == (1, 1, places[1])
    wire.ask('__BATCH__:4:{"id": 4, "name": "d"}')
    wait_until(lambda: len(ids(tmp_path / "out")) == 3, what="the row of batch 4")
    assert sorted(map(str, ids(tmp_path / "out"))) == ["1", "4", "two"]
    again = edgesocket("dead-letters", "replay", mended, places[0])
    assert again.returncode == 0
    assert "1 had been replayed before" in again.stdout
    assert len(ids(tmp_path / "out")) == 3
    states = {
        row["Job ID"]: row
        for row in json.loads(edgesocket("jobs", tmp_path / ".edgesocket", "--format", "json").stdout)
    }
    assert set(states) == {"job", "job.replay"}
    assert edgesocket("status", "job.replay", "--state-dir", tmp_path / ".edgesocket").returncode == 0


@pytest.mark.parametrize(
    "point",
    [
        "after PrepareSinks",
        "create.synced:log/",
        "after CommitSinks",
        "after Complete",
    ],
)
def test_a_replay_killed_anywhere_goes_on_and_every_row_is_there_once(tmp_path: Path, point: str) -> None:
    conf = job_file(tmp_path, 1)
    letters = [{"batch_id": n, "payload": f'{{"id": {n if n % 5 else chr(34) + "x" + chr(34)}}}'} for n in range(1, 21)]
    write_letters(tmp_path / "dead", letters)
    nth = "2" if point.startswith("create.synced") else "1"
    command = [sys.executable, "-m", "tests.support.killable_run", "SIGKILL", point, nth]
    killed = subprocess.run(
        [*command, "dead-letters", "replay", str(conf), "--all"], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert killed.returncode == -9, killed.stderr.decode()
    done = edgesocket("dead-letters", "replay", conf, "--all", "--format", "json")
    assert done.returncode == 65, done.stderr
    end = json.loads(done.stdout)
    assert end["replayed"] + end["replayed_before"] == 16
    assert end["failed"] == 4
    assert sorted(ids(tmp_path / "out")) == [n for n in range(1, 21) if n % 5]


def test_what_cannot_be_done_says_what_can(tmp_path: Path) -> None:
    conf = job_file(tmp_path, 1)
    for arguments, code, hint in [
        (("replay", conf), 64, "--all"),
        (("replay", conf, "nine"), 64, "1-4-0:17"),
        (("show", conf, "1-4-0:17"), 66, "list shows"),
        (("list", "job"), 64, "job file"),
    ]:
        done = edgesocket("dead-letters", *arguments)
        assert (done.returncode, hint in done.stderr) == (code, True), done.stderr
    plain = write_job(tmp_path, 1, name="plain")
    done = edgesocket("dead-letters", "list", plain)
    assert done.returncode == 64
    assert "dead_letter {" in done.stderr


@pytest.mark.parametrize("point", ["before CommitDeciding", "after CommitDeciding"])
def test_a_sink_that_decides_gets_every_row_once_too(tmp_path: Path, point: str) -> None:
    database = tmp_path / "rows.db"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("create table visits (id integer, name text)")
    jdbc = f'url = "jdbc:sqlite:{database}", query = "insert into visits (id, name) values (?, ?)"'
    conf = write_job(
        tmp_path,
        1,
        source=SCHEMA % "int",
        sink=f"Jdbc {{ {jdbc}, is_exactly_once = true, on_rejected_row = dead_letter }}",
    )
    with conf.open("a") as stream:
        stream.write(f'dead_letter {{ DeadLetter {{ path = "{tmp_path / "dead"}" }} }}\n')
    letters = [{"batch_id": n, "payload": f'{{"id": {n}, "name": "n"}}'} for n in range(1, 11)]
    write_letters(tmp_path / "dead", [*letters, {"batch_id": 11, "payload": '{"id": 11}', "origin": "Jdbc"}])
    command = [sys.executable, "-m", "tests.support.killable_run", "SIGKILL", point, "1"]
    killed = subprocess.run(
        [*command, "dead-letters", "replay", str(conf), "--all"], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert killed.returncode == -9, killed.stderr.decode()
    done = edgesocket("dead-letters", "replay", conf, "--all", "--format", "json")
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout)
    assert end["replayed"] + end["replayed_before"] == 11
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert [row[0] for row in connection.execute("select id from visits order by id")] == list(range(1, 12))
