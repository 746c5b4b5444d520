"""`edgesocket spool`: what it prints, what it changes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgesocket.cli.main import main
from edgesocket.errors import ExitCode
from tests.support.spool_kit import FIRST_ID, abandon, open_spool, put, read_all, segments


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A closed spool with three records, a mark and two dead letters."""
    one = open_spool(tmp_path)
    put(one, b"alpha", b"\xff\xfe", b"gamma", **{"f/a": "17"})
    read_all(one)
    one.refused(FIRST_ID + 1, b"\xff\xfe", "DECODE_FAILED")
    one.refused(FIRST_ID + 2, b"gamma", "BAD_REQUEST")
    one.close()
    return tmp_path


def test_info_says_what_is_there(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "info", str(spool)]) == ExitCode.OK
    text = capsys.readouterr().out
    for part in (
        "used by       nobody",
        "records       3",
        f"from {FIRST_ID}, below {FIRST_ID + 3}",
        "f/a = 17",
        "letters  2",
    ):
        assert part in text


def test_info_works_on_a_spool_in_use_and_changes_nothing(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = open_spool(spool)
    put(used, b"more")
    before = {path: path.read_bytes() for path in spool.rglob("*") if path.is_file()}
    assert main(["spool", "info", str(spool), "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["used_by"].startswith("process ")
    assert (found["records"], found["dead_letters"], found["marks"]) == (4, 2, {"f/a": "17"})
    assert main(["spool", "verify", str(spool)]) == ExitCode.OK
    assert {path: path.read_bytes() for path in spool.rglob("*") if path.is_file()} == before
    for action in (["repair"], ["dead-letters", "--remove"], ["dead-letters", "--resend"]):
        assert main(["spool", action[0], str(spool), *action[1:]]) == ExitCode.TRY_LATER
        assert "in use" in capsys.readouterr().err
    used.close()


def test_a_half_written_append_of_a_running_agent_is_no_damage(tmp_path: Path) -> None:
    used = open_spool(tmp_path)
    put(used, b"x")
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b"half")
    assert main(["spool", "verify", str(tmp_path)]) == ExitCode.OK
    abandon(used)
    assert main(["spool", "verify", str(tmp_path)]) == ExitCode.BAD_DATA


def test_verify_names_damage_and_repair_takes_it_out(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "verify", str(spool)]) == ExitCode.OK
    path = segments(spool)[0]
    data = path.read_bytes()
    path.write_bytes(data.replace(b"alpha", b"alphA"))
    capsys.readouterr()
    assert main(["spool", "verify", str(spool)]) == ExitCode.BAD_DATA
    assert f"{path}: bytes " in capsys.readouterr().out
    assert main(["spool", "repair", str(spool)]) == ExitCode.OK
    assert "1 segments written anew, 3 records lost" in capsys.readouterr().out
    assert main(["spool", "verify", str(spool)]) == ExitCode.OK


def test_dead_letters_are_printed_and_removed(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "dead-letters", str(spool)]) == ExitCode.OK
    text = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in text] == [str(FIRST_ID + 1), str(FIRST_ID + 2)]
    assert text[0].endswith("DECODE_FAILED  \\xff\\xfe")
    assert text[1].endswith("BAD_REQUEST  gamma")
    assert main(["spool", "dead-letters", str(spool), "--json", "--remove"]) == ExitCode.OK
    letters = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert letters[0]["payload_base64"] == "//4="
    assert letters[1]["payload"] == "gamma"
    assert main(["spool", "dead-letters", str(spool)]) == ExitCode.OK
    assert capsys.readouterr().out == ""


def test_dead_letters_can_be_appended_again(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "dead-letters", str(spool), "--resend"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("2 dead letters")
    again = open_spool(spool)
    found = read_all(again, FIRST_ID + 3)
    assert found == {FIRST_ID + 3: b"\xff\xfe", FIRST_ID + 4: b"gamma"}
    assert again.state().dead_letters == 0
    again.close()


def test_what_is_no_spool_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "info", str(tmp_path)]) == ExitCode.USAGE
    assert "is no spool" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
