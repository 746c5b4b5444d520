"""Batches in memory: runs of ids, with gaps, read from anywhere, thrown away from below."""

from __future__ import annotations

import random

import pytest

from edgesocket.collector.memory import MemorySource
from edgesocket.ids import MAX_BATCH_ID


def read_all(source: MemorySource, at: int = 1, batches: int = 100, size: int = 1 << 20) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while (run := source.read(at, batches, size)) is not None:
        assert run.payloads
        assert len(run.payloads) <= batches
        assert len(run.payloads) == 1 or sum(map(len, run.payloads)) <= size
        found += enumerate(run.payloads, run.first_id)
        at = run.next_id
    return found


def test_ids_must_rise_and_end_at_the_largest() -> None:
    source = MemorySource()
    source.append(5, b"")
    for batch_id in (5, 4, 0, -1):
        with pytest.raises(ValueError, match="does not rise"):
            source.append(batch_id, b"")
    source.append(MAX_BATCH_ID, b"")
    with pytest.raises(ValueError, match="beyond the largest"):
        source.append(MAX_BATCH_ID + 1, b"")


def test_any_use_is_as_of_a_plain_dict() -> None:
    dice = random.Random(7)
    for _ in range(60):
        source, model, next_id = MemorySource(), {}, 1
        for _ in range(40):
            if dice.random() < 0.8:
                for _ in range(dice.randint(1, 10)):
                    payload = b"x" * dice.randint(0, 20)
                    source.append(next_id, payload)
                    model[next_id] = payload
                    next_id += dice.choice([1, 1, 1, 5])
            else:
                below = dice.randint(1, next_id)
                source.done(below)
                model = {id_: payload for id_, payload in model.items() if id_ >= below}
            at = dice.randint(0, next_id + 1)
            expected = [(id_, payload) for id_, payload in model.items() if id_ >= at]
            assert read_all(source, at, dice.randint(1, 9), dice.randint(1, 60)) == expected
            assert source.count == len(model)
            assert source.payload_bytes == sum(map(len, model.values()))


def test_a_batch_larger_than_asked_for_comes_alone() -> None:
    source = MemorySource()
    source.append(1, b"x" * 1000)
    source.append(2, b"y")
    run = source.read(1, 10, 10)
    assert run is not None
    assert run.payloads == [b"x" * 1000]


def test_long_runs_come_in_parts() -> None:
    source = MemorySource()
    for batch_id in range(1, 10_001):
        source.append(batch_id, b"")
    assert len(read_all(source, 1, 100_000)) == 10_000
    source.done(9_999)
    assert source.count == 2
