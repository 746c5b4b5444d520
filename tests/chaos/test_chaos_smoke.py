"""A few cheap rows of the chaos table, once each: the harness works, and the promise holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.destinations import Servers
from chaos.rows import row_named
from chaos.run import run_row
from chaos.shim import ShimMissingError, library

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["kill-agent", "kill-ingress", "cut", "failing-state"])
def test_a_row_loses_nothing_doubles_nothing_and_recovers(name: str, servers: Servers) -> None:
    row = row_named(name)
    if row.shims:
        try:
            library()
        except ShimMissingError as missing:
            pytest.skip(str(missing))
    result = run_row(row, 1, servers, strikes=2)
    assert result.is_good, result
    assert result.written > 100
    assert result.strikes == 2
