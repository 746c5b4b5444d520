"""The simulator finds every deliberate fault of mutations.py, and names an invariant that fits it."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation

MOST_SEEDS = 400
"""So many seeds are tried where the named one finds nothing, because the product has changed since."""


def find(mutation: Mutation) -> str | None:
    for seed in chain([mutation.seed], range(1, MOST_SEEDS)):
        violation = mutation.run(seed).violation
        if violation is not None and violation.invariant in mutation.noticed_by:
            return violation.invariant
    return None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_deliberate_fault_is_found(mutation: Mutation) -> None:
    assert find(mutation) is not None


def test_there_are_enough_of_them_with_names_of_their_own() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 20
