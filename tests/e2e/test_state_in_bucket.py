"""`edgesocket run` with its state in a bucket: killed, and started again on another disk, from the bucket alone."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="needs obstore: the extra s3")
pytest.importorskip("moto.server", reason="needs moto's server")

from edgesocket.errors import ExitCode
from tests.support.jobs import (
    EagerCollector,
    Job,
    Wire,
    edgesocket,
    free_port,
    rows,
    wait_for_ack,
    write_job,
)
from tests.support.s3_faults import DROP, KEYS, LOSE, Fate, FaultyS3, Request, faulty_s3

KILLS = 4


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as proxy:
        yield proxy


class Place:
    """A bucket, and one disk after another."""

    def __init__(self, s3: FaultyS3, tmp_path: Path, env: str = "", source: str = "") -> None:
        self.port = free_port()
        self.conf = write_job(tmp_path, self.port, env=f"checkpoint.interval = 200\n {env}", source=source)
        self.out = tmp_path / "out"
        self.root = f"s3://{s3.bucket()}/states"
        self.environ = {**KEYS, "AWS_ENDPOINT_URL": s3.url, "AWS_REGION": "us-east-1", "EDGESOCKET_STATE": self.root}
        self._disks = tmp_path / "disks"
        self._disk = 0

    def new_disk(self) -> None:
        """The next run is on another machine."""
        self._disk += 1

    def job(self) -> Job:
        return Job(self.conf, env={**self.environ, "EDGESOCKET_SCRATCH": str(self._disks / str(self._disk))})

    def ask(self, *arguments: str) -> str:
        """Run a verb that succeeds; returns what it prints."""
        done = edgesocket(*arguments, env={**os.environ, **self.environ})
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def place(s3: FaultyS3, tmp_path: Path) -> Iterator[Place]:
    yield Place(s3, tmp_path)
    s3.fate = lambda request: None


class KillAt:
    """Kills a job at the nth write of its state, before or after the service has performed it."""

    def __init__(self, job: Job, nth: int, *, performed: bool) -> None:
        self._job = job
        self._left = nth
        self._performed = performed

    def __call__(self, request: Request) -> Fate:
        if request.method != "PUT" or not request.key.startswith(("states/job/log/", "states/job/state/")):
            return None
        self._left -= 1
        if self._left:
            return None
        if not self._performed:
            self._job.kill()
            return DROP
        threading.Timer(0.0, self._job.kill).start()
        return LOSE


@pytest.mark.slow
def test_killed_at_writes_and_started_on_other_disks_nothing_acknowledged_is_missing(
    place: Place, s3: FaultyS3
) -> None:
    collector = EagerCollector()
    chance = random.Random(7)
    for kill in range(KILLS):
        with place.job() as job:
            assert job.wait_until_listening(), job.log_text()
            s3.fate = KillAt(job, chance.randrange(4, 16), performed=kill % 2 == 0)
            assert not collector.run(place.port, 1_000_000), "it goes on until the kill"
            assert job.wait() == -signal.SIGKILL
            s3.fate = lambda request: None
        if kill != 1:
            place.new_disk()
        seen = {int(row.removeprefix("p")) for row in rows(place.out)}
        assert not [id_ for id_ in range(1, collector.acked + 1) if id_ not in seen]
    last = collector.next_id + 20
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        assert collector.run(place.port, last), job.log_text()
        assert job.stop() == 0
    published = sorted(int(row.removeprefix("p")) for row in rows(place.out))
    assert published == list(range(1, last + 1)), "each row is there, and once"
    assert collector.answers_after_restart.get("RESEND", 0) > 0, "some were received, and lost with their disk"


def test_what_a_lost_disk_had_received_before_the_first_checkpoint_answers_resend(s3: FaultyS3, tmp_path: Path) -> None:
    place = Place(s3, tmp_path, env="checkpoint.interval = 60000")
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            assert wire.ask("__BATCH__:5:five", "__BATCH__:6:six", "__BATCH__:7:seven") == "RECEIVED RECEIVED RECEIVED"
        job.kill()
    place.new_disk()
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            assert wire.ask("__BATCH__:8:eight") == "RECEIVED"
            assert wire.ask(*(f"__COMMIT__:{id_}" for id_ in (5, 6, 7))) == "RESEND RESEND RESEND"
            assert wire.ask("__BATCH__:5:five", "__BATCH__:6:six", "__BATCH__:7:seven") == "RECEIVED RECEIVED RECEIVED"
        assert job.stop() == 0
    assert sorted(rows(place.out)) == ["eight", "five", "seven", "six"]


LONG_LEASE = "lease_ms = 60000"
"""Longer than a test waits for a job to listen: where that is soon, no lease was waited for."""


@pytest.mark.parametrize("same_disk", [True, False])
def test_after_a_kill_the_same_disk_knows_what_was_received_and_another_one_does_not(
    s3: FaultyS3, tmp_path: Path, same_disk: bool
) -> None:
    place = Place(s3, tmp_path, env=LONG_LEASE if same_disk else "")
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            wire.ask("__BATCH__:1:one")
            assert wait_for_ack(wire, 1) == "ACK:1"
        job.kill()
    if not same_disk:
        place.new_disk()
    with place.job() as job:
        assert job.wait_until_listening(), "the lock says at once that the owner is dead"
        with Wire(place.port) as wire:
            wire.ask("__BATCH__:9:nine")
            assert wire.ask("__COMMIT__:5") == ("RETRY" if same_disk else "RESEND")
            if same_disk:
                assert wait_for_ack(wire, 9) == "ACK:9"
        assert ("count as lost" in job.log_text()) is not same_disk


def test_after_a_graceful_stop_another_disk_goes_on_at_once_as_if_nothing_was(s3: FaultyS3, tmp_path: Path) -> None:
    place = Place(s3, tmp_path, env=LONG_LEASE)
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            wire.ask("__BATCH__:1:one")
        assert job.stop() == 0
    place.new_disk()
    with place.job() as job:
        assert job.wait_until_listening(), "who has closed its beat is not waited for"
        with Wire(place.port) as wire:
            assert wire.ask("__COMMIT__:1") == "ACK:1"
            wire.ask("__BATCH__:9:nine")
            assert wait_for_ack(wire, 9) == "ACK:9", "2 to 8 are a legal gap"


def test_with_every_burst_kept_in_the_store_another_disk_knows_everything(s3: FaultyS3, tmp_path: Path) -> None:
    place = Place(s3, tmp_path, env="checkpoint.interval = 60000", source="arrival_sync_ms = 0")
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            for id_ in (1, 2, 40):
                assert wire.ask(f"__BATCH__:{id_}:row {id_}") == "RECEIVED"
        job.kill()
    place.new_disk()
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            assert wire.ask(*(f"__COMMIT__:{id_}" for id_ in (1, 2, 40))) == "RESEND RESEND RESEND"
            assert wire.ask("__COMMIT__:41") == "RETRY", "it was never received, and that is known"


def test_a_service_that_is_away_for_less_than_the_lease_costs_nothing(s3: FaultyS3, tmp_path: Path) -> None:
    place = Place(s3, tmp_path, env="lease_ms = 20000")
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            wire.ask("__BATCH__:1:one")
            assert wait_for_ack(wire, 1) == "ACK:1"
            s3.fate = lambda request: 503
            assert wire.ask("__BATCH__:2:two") == "RECEIVED", "the arrival log is on the disk"
            assert wire.ask("__COMMIT__:2") == "PENDING"
            assert wire.ask("__BATCH__:3:three", "__COMMIT__:3") == "RECEIVED PENDING"
            s3.fate = lambda request: None
            assert wait_for_ack(wire, 3) == "ACK:3"
        assert job.stop() == 0
    assert rows(place.out) == ["one", "two", "three"]


@pytest.mark.slow
def test_an_owner_that_may_not_write_any_more_ends_after_its_lease_and_nothing_is_lost(
    place: Place, s3: FaultyS3
) -> None:
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            wire.ask("__BATCH__:1:one")
            assert wait_for_ack(wire, 1) == "ACK:1"
            s3.fate = lambda request: None if request.method == "GET" else 403
            assert wire.ask("__BATCH__:2:two") == "RECEIVED"
            assert wire.ask("__COMMIT__:2") == "PENDING"
            assert job.wait(60) == ExitCode.TRY_LATER
        assert "AccessDenied" in job.log_text()
        s3.fate = lambda request: None
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            assert wire.ask("__COMMIT__:1", "__COMMIT__:2") == "ACK:1 RESEND"


@pytest.mark.slow
def test_the_verbs_find_a_state_in_a_bucket(place: Place) -> None:
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port) as wire:
            wire.ask("__BATCH__:1:one")
            assert wait_for_ack(wire, 1) == "ACK:1"
        status = json.loads(place.ask("status", "job", "--format", "json"))
        assert status["running"] is True
        assert status["state_dir"] == f"{place.root}/job"
        assert "RUNNING" in place.ask("jobs")
        assert "settled 7" in place.ask("settle", "job", "7", "--reason", "a test")
        assert "confirmed up to batch 1" in place.ask("savepoint", "job")
        assert job.wait() == 0
    assert "SAVEPOINT_DONE" in place.ask("jobs", place.root)
    assert "checkpoint" in place.ask("restore", "job", "--state-dir", f"{place.root}/job")


def test_a_second_start_is_refused_and_names_the_owner(place: Place) -> None:
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        place.new_disk()
        with place.job() as second:
            assert second.wait() == ExitCode.TRY_LATER
            assert f"pid {job.pid}" in second.log_text()
