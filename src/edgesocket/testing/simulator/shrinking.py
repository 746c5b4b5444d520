"""Makes a failing scenario small: leaves faults out, batches out, oddities out, as long as it still fails.

A smaller scenario is another run with other choices, so only the name of the invariant has to stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.running import Outcome, Scenario, run
from edgesocket.testing.simulator.settings import Settings

_SEEDS_TRIED = 4
"""A candidate that does not fail is tried with so many other seeds: which event comes first is luck."""

MOST_RUNS = 600
"""How many runs a shrink may take."""


class _Shrinker:
    def __init__(self, outcome: Outcome, most_runs: int) -> None:
        assert outcome.violation is not None
        self.best = outcome
        self._invariant = outcome.violation.invariant
        self._runs_left = most_runs

    def shrink(self) -> Outcome:
        """Try candidates until none of them fails."""
        while self._runs_left > 0 and any(self._accept(candidate) for candidate in self._candidates()):
            pass
        return self.best

    def _accept(self, candidate: Scenario) -> bool:
        for seed in (candidate.seed, *range(1, _SEEDS_TRIED)):
            if self._runs_left <= 0:
                return False
            self._runs_left -= 1
            outcome = run(replace(candidate, seed=seed))
            if outcome.violation is not None and outcome.violation.invariant == self._invariant:
                self.best = outcome
                return True
        return False

    def _candidates(self) -> Iterator[Scenario]:
        scenario = self.best.scenario
        faults = scenario.faults
        size = len(faults) // 2
        while size:
            for start in range(0, len(faults), size):
                yield replace(scenario, faults=faults[:start] + faults[start + size :])
            size //= 2
        settings = scenario.settings
        for batches in (1, 2, 3, 5, settings.batches // 2):
            if 0 < batches < settings.batches:
                yield replace(scenario, settings=replace(settings, batches=batches))
        plain = Settings()
        for field in fields(Settings):
            usual = getattr(plain, field.name)
            if field.name != "batches" and getattr(settings, field.name) != usual:
                yield replace(scenario, settings=replace(settings, **{field.name: usual}))


def shrink(outcome: Outcome, most_runs: int = MOST_RUNS) -> Outcome:
    """A small scenario that breaks the same invariant."""
    return _Shrinker(outcome, most_runs).shrink()


def as_test(outcome: Outcome) -> str:
    """The scenario as a regression test to be pasted into tests/simulation/test_regressions.py."""
    scenario, violation = outcome.scenario, outcome.violation
    assert isinstance(violation, Violation)
    plain = Settings()
    given = {field.name: getattr(scenario.settings, field.name) for field in fields(Settings)}
    settings = ", ".join(f"{name}={value!r}" for name, value in given.items() if value != getattr(plain, name))
    lines = [
        f"# {violation.invariant}: {violation.what}",
        "Scenario(",
        f"    seed={scenario.seed},",
        f"    settings=Settings({settings}),",
        "    faults=(",
        *(f"        Fault({fault.at_ms}, FaultKind.{fault.kind.name}, {fault.value})," for fault in scenario.faults),
        "    ),",
        "),",
    ]
    return "\n".join(lines)
