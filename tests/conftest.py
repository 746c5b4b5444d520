"""Servers that several modules use: one of each for the whole session, started for the first test that asks.

Tests may run in several processes (`make test ARGS='-n 3 --dist loadgroup'`). Those that share something costly, or a
module, stay together in one of them.
"""

import os

import pytest

from tests.support.databases import mariadb, postgresql
from tests.support.kafka import kafka

__all__ = ["kafka", "mariadb", "postgresql"]

os.environ["EDGESOCKET_HTTP"] = "off"
"""Jobs of tests serve nothing over HTTP, unless a test says so: thousands of them start one."""

SHARED = ("kafka", "mariadb", "postgresql")
"""Fixtures whose tests run in one process, one after the other."""


@pytest.hookimpl(tryfirst=True)  # before the plugin looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        item.add_marker(pytest.mark.xdist_group(used[0] if used else item.path.as_posix()))
