"""Exactly once into Kafka: an owner that falls asleep inside a checkpoint is fenced by the one that takes the job."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import Job, Wire, free_port, wait_for_ack, write_job
from tests.support.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("after PrepareSinks", 2),  # all rows are confirmed, in an open transaction
        ("before CommitDeciding", 2),  # step 4 is still to come
        ("after CommitDeciding", 2),  # and here it has happened, without a record
        ("create.before:log/", 4),  # so has it here; the claim and `started` were the first two files
        ("create.done:log/", 4),
        ("before Complete", 2),
    ],
)
def test_an_owner_that_slept_between_prepare_and_step_7_changes_nothing_when_it_wakes(
    tmp_path: Path,
    kafka: KafkaBroker,
    point: str,
    nth: int,
) -> None:
    topic, state = kafka.topic(), tmp_path / "state"
    options = ("--state-dir", str(state))
    block = (
        f'Kafka {{ topic = "{topic}", bootstrap.servers = "{kafka.servers}", format = text, semantics = EXACTLY_ONCE, '
        f'transaction_prefix = "{topic}" }}'
    )
    env = "lease_ms = 2000\n job.name = shared"
    first_port, second_port = free_port(), free_port()
    first_conf = write_job(tmp_path, first_port, env=env, sink=block, name="first")
    second_conf = write_job(tmp_path, second_port, env=env, sink=block, name="second")
    with Job(first_conf, *options, kill_at=(point, nth), signal_at_point=signal.SIGSTOP) as first:
        assert first.wait_until_listening(), first.log_text()
        with Wire(first_port) as old:
            offered, acked = _offer_until_it_sleeps(old)
            first.wait_for_state("T")
            with Job(second_conf, *options) as second:
                assert second.wait_until_listening(), second.log_text()
                with Wire(second_port) as wire:
                    top = offered + 10
                    for n in range(acked + 1, top + 1):
                        assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
                    assert wait_for_ack(wire, top) == f"ACK:{top}"
                    assert _ids(kafka, topic) == list(range(1, top + 1))

                    os.kill(first.pid, signal.SIGCONT)
                    assert first.wait(30) == ExitCode.TRY_LATER, first.log_text()
                    assert wire.ask(f"__BATCH__:{top + 1}:p{top + 1}") == "RECEIVED"
                    assert wait_for_ack(wire, top + 1) == f"ACK:{top + 1}"
                assert second.stop() == ExitCode.OK, second.log_text()
    assert _ids(kafka, topic) == list(range(1, top + 2))


def _ids(broker: KafkaBroker, topic: str) -> list[int]:
    """What a reader of committed messages sees."""
    return sorted(int(value.removeprefix(b"p")) for value in broker.values(topic))


def _offer_until_it_sleeps(wire: Wire) -> tuple[int, int]:
    """Send batches until nobody answers. Returns the last one received and the last one acknowledged."""
    offered = acked = 0
    wire.socket.settimeout(3.0)
    with contextlib.suppress(OSError):
        while True:
            reply = wire.ask(f"__BATCH__:{offered + 1}:p{offered + 1}")
            if reply.startswith("QUEUE_FULL"):  # it sleeps, or the machine is busy
                time.sleep(0.05)
                continue
            assert reply == "RECEIVED"
            offered += 1
            reply = wire.ask(f"__COMMIT__:{offered}")
            acked = int(reply[4:]) if reply.startswith("ACK:") else acked
    return offered, acked
