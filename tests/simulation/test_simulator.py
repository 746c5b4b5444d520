"""Seeds of the simulator: whatever goes wrong, what must hold does hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgesocket.testing.simulator import Fault, FaultKind, Scenario, Settings, draw_scenario, run, run_seed
from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.shrinking import as_test, shrink
from tests.simulation.mutations import MUTATIONS

QUICK_SEEDS = 200
ALL_SEEDS = 2000
BLOCK = 125


def check(seeds: range) -> None:
    for seed in seeds:
        violation = run_seed(seed).violation
        assert violation is None, f"seed {seed}: {violation}; see docs/simulation.md for how to go on"


@pytest.mark.parametrize("first", range(1, QUICK_SEEDS, 50))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    check(range(first, first + 50))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK_SEEDS + 1, ALL_SEEDS, BLOCK))
def test_none_of_two_thousand_seeds_breaks_an_invariant(first: int) -> None:
    check(range(first, min(first + BLOCK, ALL_SEEDS + 1)))


def test_a_seed_gives_the_same_run_every_time() -> None:
    for seed in (3, 17, 40):
        first, second = run_seed(seed), run_seed(seed)
        assert (first.steps, first.seconds) == (second.steps, second.seconds)


def test_seeds_differ_in_what_they_are_like() -> None:
    scenarios = [draw_scenario(seed) for seed in range(1, 300)]
    drawn = {fault.kind for scenario in scenarios for fault in scenario.faults}

    assert drawn == set(FaultKind)
    assert {scenario.settings.collector for scenario in scenarios} == {"sender", "eager", "lazy"}
    assert {scenario.settings.sink for scenario in scenarios} == {"recommittable", "deciding", "both"}


def test_without_faults_everything_is_delivered_soon() -> None:
    outcome = run(Scenario(1, Settings(batches=20)))

    assert outcome.violation is None
    assert outcome.seconds < 10


def test_a_failing_scenario_shrinks_to_a_script_that_fails_the_same_way() -> None:
    evict_at_received = next(m for m in MUTATIONS if m.name == "a collector evicts at RECEIVED")
    faults = tuple(Fault(ms, FaultKind.KILL) for ms in range(500, 5000, 500))
    scenario = Scenario(1, replace(Settings(), batches=30, latency_ms=100, pieces=5), faults)
    with evict_at_received.in_place():
        failing = run(scenario)
        assert isinstance(failing.violation, Violation)
        small = shrink(failing, most_runs=150)
        again = run(small.scenario).violation

    assert again is not None
    assert again.invariant == failing.violation.invariant
    assert len(small.scenario.faults) < len(faults)
    assert small.scenario.settings.batches < 30
    assert f"seed={small.scenario.seed}" in as_test(small)
