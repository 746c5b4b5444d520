"""Servers that several modules use, one of each for the whole session; and which tests run in one process.

Tests may run in several processes (`make test ARGS='-n 3'`). Those of a module stay together in one of them, and so do
the modules that use the same server. The kills of jobs that write to Kafka take as long as all else with a broker,
so they have a broker of their own.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.support.databases import mariadb, postgresql
from tests.support.kafka import kafka

__all__ = ["kafka", "mariadb", "postgresql"]

os.environ["EDGESOCKET_HTTP"] = "off"
"""Jobs of tests serve nothing over HTTP, unless a test says so: thousands of them start one."""

SERVERS = {"kafka": {"kafka", "kafka kills"}, "mariadb": {"databases"}, "postgresql": {"databases"}}
"""Fixtures whose modules run in few processes, each with a server of its own, and what those are called."""

TOGETHER = {
    "tests/contracts/test_sink_jdbc.py": "databases",
    "tests/contracts/test_sink_kafka.py": "kafka",
    "tests/e2e/test_reference_snippets.py": "kafka",
    "tests/integration/test_jdbc.py": "databases",
    "tests/integration/test_jdbc_exactly_once.py": "databases",
    "tests/integration/test_kafka.py": "kafka",
    "tests/integration/test_kafka_outages.py": "kafka",
    "tests/integration/test_kafka_take_over.py": "kafka",
    "tests/integration/test_kill_kafka.py": "kafka kills",
    "tests/integration/test_kill_postgresql.py": "databases",
}
"""Modules that use them. The process that hands out tests collects none, so it cannot ask them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See that `TOGETHER` is true; begin with what takes long."""
    slow: dict[str, int] = {}
    for item in items:
        module = _module(item.nodeid)
        for name in getattr(item, "fixturenames", ()):
            if name in SERVERS and TOGETHER.get(module) not in SERVERS[name]:
                raise pytest.UsageError(f"{module} uses {name}: add it to TOGETHER in tests/conftest.py")
        slow[_together(module)] = slow.get(_together(module), 0) + (item.get_closest_marker("slow") is not None)
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=lambda item: -slow[_together(_module(item.nodeid))])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand tests out by module or server, in the order of `pytest_collection_modifyitems`."""
    from xdist.scheduler import LoadScopeScheduling

    class ByServer(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _together(_module(nodeid))

    config.option.loadscopereorder = False
    return ByServer(config, log)


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _together(module: str) -> str:
    return TOGETHER.get(module, module)
