"""What a job says of itself while it runs, is started again, and has ended."""

from __future__ import annotations

from pathlib import Path

from edgesocket.errors import ComponentError
from tests.support.jobs import wait_until
from tests.support.metered_jobs import MeteredJob

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
