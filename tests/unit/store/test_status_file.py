"""The status file: always whole for a reader, and written over where nothing new fits on the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgesocket.store.status_file import STATUS_FILE, read_status, write_status


def test_what_was_written_is_read_and_private(tmp_path: Path) -> None:
    write_status(tmp_path, {"state": "running"})
    status = read_status(tmp_path)
    assert status is not None
    assert status["state"] == "running"
    assert status["time"] > 0
    assert (tmp_path / STATUS_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [STATUS_FILE]


def test_without_a_status_there_is_none(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / STATUS_FILE).write_bytes(b'{"half')
    assert read_status(tmp_path) is None


def test_on_a_full_disk_the_old_one_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_status(tmp_path, {"state": "running", "long": "x" * 5000})
    size = (tmp_path / STATUS_FILE).stat().st_size
    real_open = os.open

    def full(path: os.PathLike[str] | str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "no room")
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    write_status(tmp_path, {"state": "failing"})
    monkeypatch.undo()

    status = read_status(tmp_path)
    assert status is not None
    assert status["state"] == "failing"
    assert (tmp_path / STATUS_FILE).stat().st_size == size, "not a byte more"


def test_it_is_written_over_while_it_fits_and_made_anew_when_it_does_not(tmp_path: Path) -> None:
    write_status(tmp_path, {"state": "running"})
    inode = (tmp_path / STATUS_FILE).stat().st_ino
    write_status(tmp_path, {"state": "stopping"})
    assert (tmp_path / STATUS_FILE).stat().st_ino == inode
    with (tmp_path / STATUS_FILE).open("rb"):  # keeps the number from being given again
        write_status(tmp_path, {"state": "ended", "long": "x" * 5000})
        assert (tmp_path / STATUS_FILE).stat().st_ino != inode
    assert (read_status(tmp_path) or {})["state"] == "ended"
    write_status(tmp_path, {"state": "running"})
    assert "long" not in (read_status(tmp_path) or {}), "nothing of a longer one is left"


def test_where_nothing_can_be_written_nothing_happens(tmp_path: Path) -> None:
    write_status(tmp_path / "nowhere", {"state": "running"})
    assert list(tmp_path.iterdir()) == []
