"""What a job says of itself while it runs, is started again, and has ended."""

from __future__ import annotations

import socket
from pathlib import Path

from edgesocket.errors import ComponentError
from tests.support.jobs import TOKEN, wait_until
from tests.support.metered_jobs import Metered, MeteredJob

BROKEN = ComponentError("broken", reopen=True)


def test_before_it_runs_it_is_starting(tmp_path: Path) -> None:
    status = MeteredJob(tmp_path, "job").runner.status()
    assert (status["job"], status["state"], status["restarts"], status["last_error"]) == ("job", "starting", 0, "")


def test_a_job_that_ends_well_has_ended(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path, "job")
    job.start()
    assert job.runner.status()["state"] == "running"
    job.stop()
    assert job.runner.status()["state"] == "ended"
    assert job.error is None


def test_a_job_that_fails_says_restarting_then_runs_and_remembers_why(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path, "job", env="job.retry.times = 1\n job.retry.interval.seconds = 1")
    job.start()
    job.gate.write_error = BROKEN
    job.send("x")
    wait_until(lambda: job.runner.status()["restarts"] == 1 or job.runner.status()["state"] == "restarting")
    job.gate.write_error = None
    job.hang_up()
    wait_until(lambda: job.runner.status()["state"] == "running")
    status = job.runner.status()
    assert status["restarts"] == 1
    assert "broken" in status["last_error"]
    assert job.journal.counts()["restart_scheduled"] == 1
    assert job.reading().status["epoch"] == 2
    job.stop()


def test_a_job_without_restarts_left_has_failed(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path, "job", env="job.retry.times = 0")
    job.start()
    job.gate.write_error = BROKEN
    job.send("x")
    wait_until(lambda: job.runner.status()["state"] == "failed")
    values = Metered(job).values()
    assert values["edgesocket_job_failed"] == 1
    assert values["edgesocket_replies_total"] == 1, "what was counted stays true"
    assert "edgesocket_collector_connected" not in values, "what was so is not so any more"
    assert "broken" in job.runner.status()["last_error"]
    job.hang_up()
    job._thread.join(10)
    assert job.error is not None


def test_sessions_and_checkpoints_are_in_the_journal(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path, "job")
    job.start()
    assert job.send("x") == ["RECEIVED"]
    wait_until(lambda: job.reading().status["source"]["watermark"] == 1)
    (session,) = job.journal.sessions
    assert session.ended_ms is None
    wait_until(lambda: [record.status for record in job.journal.checkpoints if record.state_bytes] == ["completed"])
    job.hang_up()
    wait_until(lambda: job.journal.sessions[0].ended_ms is not None)
    assert job.journal.sessions[0].received_bytes > 0
    job.stop()


def test_what_came_together_with_the_first_line_counts_as_received(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path, "job")
    job.start()
    batch = b"__BATCH__:1:hello\n"
    with socket.create_connection(("127.0.0.1", job.port), 5) as peer:
        peer.sendall(b"__AUTH__:" + TOKEN.encode() + b"\n" + batch)
        with peer.makefile("rb") as replies:
            assert [replies.readline() for _ in range(2)] == [b"ACK\n", b"RECEIVED\n"]
    wait_until(lambda: job.journal.sessions and job.journal.sessions[0].ended_ms is not None)
    assert job.journal.sessions[0].received_bytes == len(batch)
    job.stop()
