"""The DeadLetter sink passes the suite of its commit role. The stories' rows become dead letters on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgesocket.components.dead_letter import DEAD_LETTER_SCHEMA, DeadLetter, dead_letter_rows
from edgesocket.components.sink import Sink, SinkContext
from edgesocket.rows import Rows
from edgesocket.sinks.dead_letter import DeadLetterSink
from edgesocket.testing.sink_contract import BreakableSink, RecommittableSink


class Refusing(DeadLetterSink):
    """Takes payloads and refuses every one of them."""

    def open(self, context: SinkContext) -> None:
        super().open(replace(context, schema=DEAD_LETTER_SCHEMA))

    def write(self, rows: Rows) -> None:
        assert rows.records is not None
        payloads = enumerate(rows.records.payloads())
        super().write(dead_letter_rows([DeadLetter(rows.id_at(n), one, "why", "me", 0) for n, one in payloads]))


class DeadLetterHarness:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "dead"

    def sink(self) -> Sink:
        return Refusing(path=self.path)

    def read(self) -> list[bytes]:
        files = [file.read_bytes() for file in sorted(self.path.glob("dead-*"))]
        assert all(file.endswith(b"\n") for file in files), "no empty files, no half lines"
        return [json.loads(line)["payload"].encode() for file in files for line in file.split(b"\n")[:-1]]

    @contextmanager
    def broken(self) -> Iterator[None]:
        away = self.path.with_name("away")
        self.path.rename(away)
        yield
        away.rename(self.path)


class TestDeadLetter(RecommittableSink, BreakableSink):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> DeadLetterHarness:
        return DeadLetterHarness(tmp_path)
