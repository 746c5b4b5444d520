"""The local directory of an arrival log whose state lies elsewhere: one owner, and notes only of the right history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.errors import StoreError
from edgesocket.store.scratch import SCRATCH_VARIABLE, ScratchDirectory, scratch_directory


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchDirectory]:
    made = ScratchDirectory(tmp_path / "job")
    made.try_lock()
    yield made
    made.unlock()


def notes(scratch: ScratchDirectory) -> list[str]:
    return sorted(path.name for path in (scratch.directory / "arrivals").iterdir())


def test_a_new_directory_knows_no_incarnation(scratch: ScratchDirectory) -> None:
    assert scratch.marks() == frozenset()


def test_who_begins_is_known_beside_the_one_it_goes_on_from(scratch: ScratchDirectory) -> None:
    scratch.begin("one", goes_on_from=None)
    assert scratch.marks() == {"one"}
    scratch.begin("two", goes_on_from="one")
    assert scratch.marks() == {"one", "two"}, "until the commit log knows of two, the notes are those of one"
    scratch.begin("three", goes_on_from="two")
    assert scratch.marks() == {"two", "three"}


def test_notes_stay_for_who_goes_on_from_them_and_go_for_anybody_else(scratch: ScratchDirectory) -> None:
    scratch.begin("one", goes_on_from=None)
    (scratch.directory / "arrivals" / "1.log").touch()
    scratch.begin("two", goes_on_from="one")
    assert notes(scratch) == ["1.log", "marks"]
    scratch.begin("elsewhere", goes_on_from=None)
    assert notes(scratch) == ["marks"]
    assert scratch.marks() == {"elsewhere"}


def test_without_the_lock_nothing_here_is_known_to_be_whole(scratch: ScratchDirectory) -> None:
    scratch.begin("one", goes_on_from=None)
    other = ScratchDirectory(scratch.directory)
    other.try_lock()
    assert not other.locked
    assert other.marks() == frozenset()
    scratch.unlock()
    other.try_lock()
    assert other.locked
    assert other.marks() == {"one"}
    other.unlock()


def test_the_lock_tells_who_held_it_before(scratch: ScratchDirectory) -> None:
    word = scratch.word
    scratch.unlock()
    other = ScratchDirectory(scratch.directory)
    other.try_lock()
    assert other.word_before == word
    assert other.word not in ("", word)
    other.unlock()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, null]", b"\xff", b'["half'])
def test_marks_that_cannot_be_read_are_nobody_s(scratch: ScratchDirectory, content: bytes) -> None:
    scratch.begin("one", goes_on_from=None)
    (scratch.directory / "arrivals" / "marks").write_bytes(content)
    assert scratch.marks() == frozenset()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    scratch = ScratchDirectory(tmp_path / "file" / "job")
    with pytest.raises(StoreError, match="file"):
        scratch.try_lock()
    with pytest.raises(StoreError, match="file"):
        scratch.begin("one", goes_on_from=None)


def test_each_place_has_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SCRATCH_VARIABLE, str(tmp_path))
    one, other = (scratch_directory("a job/..", identity) for identity in ("s3://a/job", "s3://b/job"))
    assert one != other
    assert one.parent == other.parent == tmp_path
    assert one.name.startswith("a_job_..-")
    monkeypatch.delenv(SCRATCH_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert scratch_directory("job", "x").parent == Path("/var/state/edgesocket")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/edge")
    assert scratch_directory("job", "x").parent == Path("/home/edge/.local/state/edgesocket")
