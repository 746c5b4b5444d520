"""Hundreds of short lives of a collector and its ingress, under loss, delay, refusals and crashes of both."""

from __future__ import annotations

import os

import pytest

from edgesocket.collector import doubts
from tests.simulation.collector_world import SCALED, World

SEEDS = int(os.environ.get("EDGESOCKET_SEEDS", "400"))
"""More of them can be asked for."""
STEPS = 80


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of what is in doubt, scaled down as the ingress's memory is, so that short lives reach them."""
    for name, number in SCALED.items():
        monkeypatch.setattr(doubts, name, number)


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_doubled_or_thrown_away_too_early(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        world = World(seed)
        try:
            world.live(STEPS)
        except AssertionError as problem:
            problem.add_note(f"seed {seed}")
            raise
