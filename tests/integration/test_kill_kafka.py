"""kill -9 of `edgesocket run` with a Kafka sink: a reader of committed messages sees every row exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.jobs import free_port, write_job
from tests.support.kafka import KafkaBroker
from tests.support.kill_runs import POINTS, run_kills

KILLS = 200
DECIDING = ["before FenceDeciding", "after FenceDeciding", "before CommitDeciding", "after CommitDeciding"]


class Reader:
    """The ids a reader of committed messages has seen: it never looks back."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self._next = 0
        self._ids: list[int] = []

    def __call__(self) -> list[int]:
        for message in self._broker.read(self._topic, {0: self._next}):
            self._ids.append(int(message.value.removeprefix(b"p")))
            self._next = message.offset + 1
        return self._ids


def _job(directory: Path, port: int, broker: KafkaBroker, topic: str) -> Path:
    options = f'topic = "{topic}", bootstrap.servers = "{broker.servers}", format = text, semantics = EXACTLY_ONCE'
    return write_job(directory, port, sink=f"Kafka {{ {options} }}")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_200_kills_show_every_row_exactly_once(tmp_path: Path, kafka: KafkaBroker) -> None:
    port, topic = free_port(), kafka.topic()
    conf = _job(tmp_path, port, kafka, topic)
    report = run_kills(conf, port, Reader(kafka, topic), kills=KILLS, points=[*DECIDING, *POINTS])
    assert report.killed == KILLS
