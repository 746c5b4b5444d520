"""The Assert sink passes the suite of sinks without commits: what it was given and did not refuse counts as read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from edgesocket.components.sink import Sink
from edgesocket.rows import Rows
from edgesocket.sinks.assert_ import AssertSink
from edgesocket.testing.sink_contract import AnySink

LONG = {"rule_type": "MAX_LENGTH", "rule_value": Decimal(100_000), "equals_to": None}
RULES = {"field_rules": ({"field_name": "value", "field_type": "string", "field_value": (LONG,)},)}


class AssertHarness:
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def sink(self) -> Sink:
        seen = self.seen

        class Watched(AssertSink):
            def write(self, rows: Rows) -> None:
                super().write(rows)
                seen.extend(text.encode() for text in rows.batch.column(0).to_pylist())

        return Watched(rules=RULES)

    def read(self) -> list[bytes]:
        return self.seen


class TestAssert(AnySink):
    @pytest.fixture
    def harness(self) -> AssertHarness:
        return AssertHarness()
