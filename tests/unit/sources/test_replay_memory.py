"""What a replay remembers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.sources import replay_memory
from edgesocket.sources.letter_files import LetterFile
from edgesocket.sources.replay_memory import Failed, ReplayMemory
from tests.support.letter_kit import at

STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(1, 12)), max_size=60)


@given(STEPS)
def test_it_knows_exactly_the_letters_that_were_replayed_and_not_refused_since(
    steps: list[tuple[bool, int, int]],
) -> None:
    memory, done = ReplayMemory(), set()
    for replayed, checkpoint, line in steps:
        position = at(line, checkpoint=checkpoint)
        if replayed and position not in done:
            memory.add(position, 100)
            done.add(position)
        elif not replayed:
            memory.fail(position, Failed("no"))
            done.discard(position)
    memory = ReplayMemory(memory.to_json())
    for checkpoint in (1, 2, 3):
        for line in range(1, 14):
            assert memory.is_done(at(line, checkpoint=checkpoint)) == (at(line, checkpoint=checkpoint) in done)
    assert memory.replayed == len(done)
    assert not done & set(memory.failed)


def test_neighbouring_lines_take_one_range() -> None:
    memory = ReplayMemory()
    for line in (1, 2, 4, 3, 6):
        memory.add(at(line), 100)
    assert memory.to_json()["files"] == {"1-1-0": {"bytes": 100, "lines": [[1, 4], [6, 6]]}}


def test_a_file_of_another_size_is_another_file() -> None:
    memory = ReplayMemory()
    memory.add(at(1), 100)
    memory.fail(at(2), Failed("no"))
    memory.look_at([LetterFile(at(1).file, Path("x"), 100)])
    assert memory.is_done(at(1))
    memory.look_at([LetterFile(at(1).file, Path("x"), 101)])
    assert not memory.is_done(at(1))
    assert not memory.failed


def test_a_file_that_is_gone_is_remembered_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_memory, "FILES_KEPT", 2)
    memory = ReplayMemory()
    for checkpoint in (1, 2, 3):
        memory.add(at(1, checkpoint=checkpoint), 100)
    memory.look_at([LetterFile(at(1, checkpoint=2).file, Path("x"), 100)])
    assert [memory.is_done(at(1, checkpoint=n)) for n in (1, 2, 3)] == [False, True, True]


def test_reasons_are_bounded_and_what_other_sinks_took_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_memory, "FAILED_KEPT", 2)
    memory = ReplayMemory()
    memory.fail(at(1), Failed("x" * 500, frozenset({"A"})))
    for line in (2, 3, 4):
        memory.fail(at(line), Failed("never a row"))
    assert len(memory.failed[at(1)].reason) == 200
    assert set(memory.failed) == {at(1), at(4)}


def test_a_copy_is_apart() -> None:
    memory = ReplayMemory()
    memory.add(at(1), 100)
    other = memory.copy()
    other.add(at(2), 100)
    assert not memory.is_done(at(2))
    assert other.is_done(at(1))
