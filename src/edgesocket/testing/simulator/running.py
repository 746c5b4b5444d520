"""Runs one scenario: faults for a while, then calm, until everything is confirmed; and says what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from edgesocket.testing.simulator.faults import Fault, FaultKind, draw_faults
from edgesocket.testing.simulator.happening import schedule
from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.settings import Settings, draw_settings
from edgesocket.testing.simulator.system_calls import on_simulated_disk
from edgesocket.testing.simulator.world import World

CALM_S = 1.0
"""How long after the last fault things begin to be put right."""

PROGRESS_S = 300.0
"""How long after that everything has to be confirmed, in simulated seconds ..."""

PROGRESS_STEPS = 60_000
"""... and in steps."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that decides what happens."""

    seed: int
    settings: Settings
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario went.

    Attributes:
        scenario: what was run.
        violation: the invariant that did not hold, or None.
        steps: how many events happened.
        seconds: how long it took, in simulated seconds.
    """

    scenario: Scenario
    violation: Violation | None
    steps: int
    seconds: float


def draw_scenario(seed: int, only: tuple[FaultKind, ...] = (), **like: Any) -> Scenario:
    """The scenario of a seed.

    Args:
        seed: decides everything that is not given.
        only: the kinds of faults; any by default.
        like: settings, by name.
    """
    random = Random(seed)  # noqa: S311 - it has to be repeatable
    settings = replace(draw_settings(random), **like)
    return Scenario(seed, settings, draw_faults(random, settings, only))


def run(scenario: Scenario) -> Outcome:
    """Run a scenario to its end, or to the first invariant that does not hold."""
    world = World(scenario.seed, scenario.settings)
    schedule(world, scenario.faults)
    violation = None
    with on_simulated_disk(world.disk):
        try:
            _run(world, max((fault.at_ms for fault in scenario.faults), default=0) / 1000 + CALM_S)
        except Violation as found:
            violation = found
        except Exception as error:  # what no part expects is a finding, too
            violation = Violation("no-surprise", f"{type(error).__name__}: {error}")
            violation.__cause__ = error
    return Outcome(scenario, violation, world.loop.steps, world.loop.now)


def run_seed(seed: int) -> Outcome:
    """Draw and run the scenario of a seed."""
    return run(draw_scenario(seed))


def _run(world: World, calm_at: float) -> None:
    loop = world.loop
    while loop.now < calm_at:
        loop.step()
        world.check()
    world.calm_down()
    deadline, last_step = loop.now + PROGRESS_S, loop.steps + PROGRESS_STEPS
    while not world.done:
        if loop.now > deadline or loop.steps > last_step:
            left = sorted(world.collector.spool.kept)[:5]
            raise Violation(
                "progress-returns", f"{left} are not confirmed {loop.now - calm_at:.0f} s after the last fault"
            )
        loop.step()
        world.check()
    world.facts.final()
