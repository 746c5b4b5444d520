"""What the Kafka sink makes of a broker that dies or falls asleep in the middle of a transaction.

A reader of committed messages sees every row once, and the writing goes on soon after the broker is back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks import kafka_transactions
from edgesocket.sinks.kafka import KafkaSink
from edgesocket.sinks.kafka_client import Clients
from tests.support.jobs import EagerCollector, Job, free_port, write_job
from tests.support.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(240)]

BACK_S = 60.0
"""So soon after the broker is back the rows must be committed."""
ASLEEP_S = 20.0


class Interrupted:
    """A producer with something that happens once, before or after its next call of a name."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._moment = ""
        self._happening: Callable[[], None] = lambda: None

    def interrupt(self, moment: str, happening: Callable[[], None]) -> None:
        """Let it happen `before NAME` or `after NAME`."""
        self._moment, self._happening = moment, happening

    def __len__(self) -> int:
        return len(self._producer)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._producer, name)
        when, _, which = self._moment.partition(" ")
        if name != which:
            return call

        def interrupted(*arguments: Any) -> Any:
            self._moment = ""
            if when == "before":
                self._happening()
            result = call(*arguments)
            if when == "after":
                self._happening()
            return result

        return interrupted


class InterruptedClients(Clients):
    """Clients with such producers."""

    def producer(self, properties: Mapping[str, Any]) -> Any:
        return Interrupted(super().producer(properties))


class Run:
    """Writes checkpoints of 100 rows as an engine would: after a loss it asks what landed and goes on from there."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.epoch = 0
        self.reopened = 0
        self.sink = self.open()

    def open(self) -> KafkaSink:
        self.epoch += 1
        sink = KafkaSink(
            topic=self.topic,
            bootstrap_servers=self.broker.servers,
            format="text",
            semantics="EXACTLY_ONCE",
            clients=InterruptedClients,
        )
        sink.open(SinkContext("outage", self.epoch, self.topic))
        sink.fence(self.epoch)
        return sink

    def interrupt(self, moment: str, happening: Callable[[], None]) -> None:
        """Let something happen before or after the producer's next call of a name."""
        self.sink._deliveries.producer.interrupt(moment, happening)  # type: ignore[union-attr]

    def checkpoint(self, number: int) -> None:
        """Write and commit, through losses."""
        while True:
            try:
                self._write(number)
                return
            except ComponentError as error:
                assert error.reopen, error
                landed = self._reopened()
                if landed == number:
                    return

    def _write(self, number: int) -> None:
        self.sink.write(Rows.of_records(RecordBlock.of_run(1, [b"%d/%d" % (number, n) for n in range(100)])))
        while True:
            try:
                manifest = self.sink.prepare(number)
                break
            except ComponentError as error:
                if error.reopen:
                    raise
        self.sink.commit(number, manifest)

    def _reopened(self) -> int:
        self.sink.close()
        deadline = time.monotonic() + 2 * BACK_S
        while True:
            try:
                self.sink = self.open()
                self.reopened += 1
                return self.sink.landed()
            except ComponentError:
                assert time.monotonic() < deadline
                time.sleep(0.5)

    def close(self) -> None:
        self.sink.close()


@pytest.fixture
def run(kafka: KafkaBroker) -> Iterator[Run]:
    with contextlib.closing(Run(kafka, kafka.topic())) as made:
        yield made


def expected(checkpoints: int) -> list[bytes]:
    return [b"%d/%d" % (number, n) for number in range(1, checkpoints + 1) for n in range(100)]


MOMENTS = [
    "before flush",  # rows are on their way
    "before send_offsets_to_transaction",  # all rows are confirmed
    "before commit_transaction",  # the number of the checkpoint is in the transaction
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_broker_killed_in_a_transaction_costs_no_row_and_doubles_none(run: Run, moment: str) -> None:
    back_at = 0.0

    def kill() -> None:
        nonlocal back_at
        run.broker.kill()
        run.broker.start()
        back_at = time.monotonic()

    run.checkpoint(1)
    run.interrupt(moment, kill)
    run.checkpoint(2)
    assert 0 < time.monotonic() - back_at < BACK_S
    run.checkpoint(3)
    assert run.broker.values(run.topic) == expected(3)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_broker_asleep_in_a_transaction_costs_no_row_and_doubles_none(run: Run, moment: str) -> None:
    wakers: list[threading.Timer] = []

    def pause() -> None:
        run.broker.pause()
        wakers.append(threading.Timer(ASLEEP_S, run.broker.go_on))
        wakers[0].start()

    run.checkpoint(1)
    run.interrupt(moment, pause)
    begin = time.monotonic()
    run.checkpoint(2)
    wakers[0].join()
    assert ASLEEP_S < time.monotonic() - begin < ASLEEP_S + BACK_S
    run.checkpoint(3)
    assert run.broker.values(run.topic) == expected(3)


@pytest.mark.parametrize("moment", MOMENTS[1:])
def test_a_call_that_hangs_is_left_behind_and_changes_nothing_when_it_goes_on(
    run: Run, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def hang() -> None:
        goes_on.wait()
        threading.Timer(2.0, ended.set).start()

    run.checkpoint(1)
    run.interrupt(moment, hang)
    monkeypatch.setattr(kafka_transactions, "HARD_LIMIT_S", 1.0)
    with pytest.raises(ComponentError, match="has not answered for 1 s") as failed:
        run._write(2)
    assert failed.value.reopen
    monkeypatch.undo()
    landed = run._reopened()
    goes_on.set()
    ended.wait()
    assert landed == run.sink.landed() == 1
    run.checkpoint(2)
    assert run.broker.values(run.topic) == expected(2)


def test_a_commit_whose_answer_is_lost_is_read_back_and_not_written_again(run: Run) -> None:
    def lose_answer() -> None:
        raise KafkaException(KafkaError(KafkaError._FAIL, "lost"))

    run.checkpoint(1)
    run.interrupt("after commit_transaction", lose_answer)
    run.checkpoint(2)
    assert run.reopened == 1
    assert run.broker.values(run.topic) == expected(2)


def test_a_job_goes_on_by_itself_through_the_deaths_and_sleeps_of_its_broker(
    tmp_path: Path,
    kafka: KafkaBroker,
) -> None:
    port, topic = free_port(), kafka.topic()
    options = f'topic = "{topic}", bootstrap.servers = "{kafka.servers}", format = text, semantics = EXACTLY_ONCE'
    conf = write_job(tmp_path, port, sink=f"Kafka {{ {options} }}")
    collector = EagerCollector()

    def kill() -> None:
        kafka.kill()
        kafka.start()

    def sleep() -> None:
        kafka.pause()
        time.sleep(ASLEEP_S)
        kafka.go_on()

    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        for outage in (kill, sleep, kill):
            goal = collector.next_id + 500
            sender = threading.Thread(target=_send, args=(collector, port, goal))
            sender.start()
            time.sleep(1.0)
            outage()
            back_at = time.monotonic()
            sender.join(BACK_S)
            assert collector.acked >= goal, job.log_text()
            assert time.monotonic() - back_at < BACK_S
        assert job.stop() == 0, job.log_text()
    assert [int(value.removeprefix(b"p")) for value in kafka.values(topic)] == list(range(1, collector.next_id))


def _send(collector: EagerCollector, port: int, goal: int) -> None:
    deadline = time.monotonic() + ASLEEP_S + 2 * BACK_S
    while not collector.run(port, goal, pause_s=0.005) and time.monotonic() < deadline:
        time.sleep(0.2)  # the job starts again
