"""Batches refused for now: runs of ids, each with its own time."""

from __future__ import annotations

import random

from edgesocket.collector.held import HeldIds


def test_the_lowest_and_its_time() -> None:
    held = HeldIds()
    assert held.lowest is None
    assert not held
    held.put(5, 9, 2.0)
    held.put(3, 3, 7.0)
    assert held.lowest == (3, 7.0)
    held.drop(3, 3)
    assert held.lowest == (5, 2.0)
    held.put(5, 5, 8.0)
    assert held.lowest == (5, 8.0)
    held.drop(1, 7)
    assert held.lowest == (8, 2.0)


def test_any_order_of_changes_is_as_in_a_map_of_ids() -> None:
    dice = random.Random(5)
    for _ in range(200):
        held, model = HeldIds(), {}
        for _ in range(30):
            first = dice.randint(1, 30)
            last = first + dice.randint(0, 8)
            if dice.random() < 0.5:
                until = float(dice.randint(1, 9))
                held.put(first, last, until)
                model.update(dict.fromkeys(range(first, last + 1), until))
            else:
                held.drop(first, last)
                for id_ in range(first, last + 1):
                    model.pop(id_, None)
            lowest = min(model, default=None)
            assert held.lowest == (None if lowest is None else (lowest, model[lowest]))
