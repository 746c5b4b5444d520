"""The Http sink passes the suite of its commit role, with one request a row and with arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgesocket.components.sink import Sink
from edgesocket.sinks.http import HttpSink
from edgesocket.testing.sink_contract import AnySink, BreakableSink
from tests.support.http_server import ScriptedServer, answer


class HttpHarness:
    """A server that keeps what it accepts."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.accepted: list[bytes] = []
        self.is_broken = False
        self.server = ScriptedServer(rule=self._take)
        self.sinks: list[HttpSink] = []

    def _take(self, body: bytes) -> bytes:
        if self.is_broken:
            return answer(503)
        rows = json.loads(body)
        self.accepted += [row["value"].encode() for row in (rows if self.batch_size else [rows])]
        return answer(200)

    def sink(self) -> Sink:
        sink = HttpSink(
            url=self.server.url, retry=0, draw=lambda: 0.0, array_mode=self.batch_size > 0, batch_size=self.batch_size
        )
        self.sinks.append(sink)
        return sink

    def read(self) -> list[bytes]:
        return self.accepted

    @contextmanager
    def broken(self) -> Iterator[None]:
        self.is_broken = True
        yield
        self.is_broken = False

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
        self.server.close()


@pytest.mark.parametrize("harness", [0, 1, 7], ids=["objects", "arrays of 1", "arrays of 7"], indirect=True)
class TestHttp(AnySink, BreakableSink):
    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest) -> Iterator[HttpHarness]:
        harness = HttpHarness(request.param)
        yield harness
        harness.close()
