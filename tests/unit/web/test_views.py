"""A job as the JSON of /api/jobs, and as SeaTunnel's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgesocket.store.directory import DirectoryPlace
from edgesocket.telemetry.events import CheckpointAborted, CheckpointCompleted
from edgesocket.web.board import MAX_ENDED, Board
from edgesocket.web.hosted import Outcome
from edgesocket.web.seatunnel_views import CheckpointsInfo, JobInfo, Overview, checkpoints_info, job_info, overview
from edgesocket.web.views import JobsView, checkpoint_views
from tests.support.web import PlayedHost, PlayedJob, job_spec, status_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def board_of(*jobs: PlayedJob) -> tuple[Board, Clock]:
    clock = Clock()
    return Board(PlayedHost(jobs), clock, lambda: 1_700_000_000.25), clock


def view(job: PlayedJob) -> dict[str, Any]:
    board, _ = board_of(job)
    (shown,) = msgspec.json.decode(board.snapshot())["jobs"]
    return shown  # type: ignore[no-any-return]


def test_what_is_shown_has_the_documented_form() -> None:
    board, _ = board_of(PlayedJob().say(status_of(), 999.5), PlayedJob(name="silent", spec=job_spec("silent")))
    shown = msgspec.json.decode(board.snapshot(), type=JobsView)
    assert [job["name"] for job in shown["jobs"]] == ["edge", "silent"]
    assert [job["state"] for job in shown["jobs"]] == ["running", "starting"]
    assert shown["time"] == 1_700_000_000.25
    assert shown["jobs"][0]["dead_letters"] == {"count": 3, "can_be_read": True}


@pytest.mark.parametrize(
    ("said", "outcome", "state"),
    [
        (None, None, "starting"),
        ("starting", None, "starting"),
        ("running", None, "running"),
        ("stopping", None, "stopping"),
        ("ended", None, "restarting"),
        ("restarting", None, "restarting"),
        ("fenced", None, "fenced"),
        ("ended", Outcome(0, "", 1), "ended"),
        ("ended", Outcome(69, "the disk", 1), "failed"),
        ("fenced", Outcome(75, "taken over", 1, fenced=True), "fenced"),
    ],
)
def test_the_state_is_what_the_job_said_until_it_has_an_outcome(
    said: str | None, outcome: Outcome | None, state: str
) -> None:
    job = PlayedJob(outcome=outcome)
    if said is not None:
        job.say(status_of(said))
    shown = view(job)
    assert shown["state"] == state
    assert shown["last_error"] == (outcome.reason if outcome else "")


def test_rates_come_from_two_looks() -> None:
    job = PlayedJob().say(status_of(), 1000.0)
    board, clock = board_of(job)
    board.look()
    job.say(status_of(rows_written=140, source__replies={"RECEIVED": 150, "QUEUE_FULL": 15}), 1002.0)
    clock.now = 1002.0
    (shown,) = msgspec.json.decode(board.snapshot())["jobs"]
    assert shown["rates"] == {
        "received_records_per_s": 25.0,
        "received_bytes_per_s": 0.0,
        "batches_per_s": 30.0,
        "written_rows_per_s": 20.0,
    }


@pytest.mark.parametrize("state", ["held", "lost", "gap"])
def test_a_batch_that_only_people_can_move_comes_with_the_command_for_it(state: str) -> None:
    job = PlayedJob(name="my edge", state=DirectoryPlace(Path("/srv/my states/my edge")))
    holds = view(job.say(status_of(source__holder={"id": 7, "state": state, "since_s": 31.0})))["holds"]
    command = "edgesocket settle 'my edge' 7 --state-dir '/srv/my states/my edge' --reason TEXT"
    assert holds["what_to_do"].endswith(f": {command}")
    assert (holds["id"], holds["state"], holds["since_s"]) == (7, state, 31.0)


def test_a_batch_on_its_way_needs_nobody_and_a_job_that_is_over_holds_nothing() -> None:
    holder = {"id": 7, "state": "captured", "since_s": 1.0}
    assert "checkpoint" in view(PlayedJob().say(status_of(source__holder=holder)))["holds"]["what_to_do"]
    over = PlayedJob(outcome=Outcome(0, "", 1)).say(status_of("ended", source__holder=holder))
    assert view(over)["holds"] is None


def test_histograms_are_left_to_the_metrics() -> None:
    seconds = {"buckets": [[0.1, 5]], "sum": 0.2, "count": 5}
    job = PlayedJob().say(status_of(sinks__each={"Null": {"rows": 5, "write_seconds": seconds}}))
    shown = view(job)["status"]["sinks"]["each"]
    assert shown == {"Null": {"rows": 5, "write_seconds": {"sum": 0.2, "count": 5}}}
    assert job.published is not None
    assert job.published.status["sinks"]["each"]["Null"]["write_seconds"] == seconds, "the original stays as it is"


def test_all_jobs_are_encoded_once_a_second_whoever_asks() -> None:
    job = PlayedJob().say(status_of())
    board, clock = board_of(job)
    first = board.snapshot()
    job.say(status_of(rows_written=999))
    clock.now += 0.5
    assert board.snapshot() is first
    clock.now += 0.5
    assert b"999" in board.snapshot()


def test_one_job_is_always_shown_as_it_is_now() -> None:
    job = PlayedJob().say(status_of())
    board, _ = board_of(job)
    board.snapshot()
    job.say(status_of(rows_written=999))
    one = board.job("edge")
    assert one is not None
    assert board.view_of(one)["status"]["rows_written"] == 999
    assert board.job("none") is None


def test_a_job_that_comes_again_under_its_name_is_a_new_one() -> None:
    host = PlayedHost([PlayedJob(outcome=Outcome(0, "", 1)).say(status_of("ended"))])
    board = Board(host)
    ended = board.job("edge")
    assert ended is not None
    assert ended.state == "ended"
    host.played = [PlayedJob().say(status_of())]
    again = board.job("edge")
    assert again is not None
    assert again.state == "running"


def test_jobs_that_ended_long_ago_are_forgotten() -> None:
    ended = [PlayedJob(name=f"old-{n}", outcome=Outcome(0, "", n)) for n in range(MAX_ENDED + 5)]
    board, _ = board_of(*ended, PlayedJob(name="lives"))
    names = [one.job.name for one in board.everything()]
    assert len(names) == MAX_ENDED + 1
    assert names[0] == "old-5"
    assert names[-1] == "lives"


# ---- SeaTunnel's JSON ------------------------------------------------------------------------------------------------


def seatunnel(job: PlayedJob) -> dict[str, Any]:
    board, _ = board_of(job)
    (one,) = board.everything()
    info = job_info(one, board.view_of(one))
    return msgspec.to_builtins(msgspec.convert(info, JobInfo))  # type: ignore[no-any-return]


def test_a_job_has_seatunnels_form() -> None:
    info = seatunnel(PlayedJob().say(status_of()))
    assert (info["jobId"], info["jobName"], info["jobStatus"]) == ("edge", "edge", "RUNNING")
    assert info["isStartWithSavePoint"] is True
    assert info["metrics"]["SourceReceivedCount"] == "100"
    assert info["metrics"]["SinkWriteCount"] == "100"
    assert info["envOptions"]["checkpoint.interval"] == 1000
    assert info["jobDag"]["vertexInfoMap"] == [
        {"vertexId": 1, "type": "source", "vertexName": "Source[0]-EdgeSocket", "tablePaths": ["EdgeSocket"]},
        {"vertexId": 2, "type": "transform", "vertexName": "Transform[0]-Copy", "tablePaths": ["Copy"]},
        {"vertexId": 3, "type": "sink", "vertexName": "Sink[0]-Console", "tablePaths": ["Console"]},
        {"vertexId": 4, "type": "sink", "vertexName": "Sink[1]-Null", "tablePaths": ["Null"]},
    ]
    assert info["jobDag"]["pipelineEdges"]["1"] == [
        {"inputVertexId": "1", "targetVertexId": "2"},
        {"inputVertexId": "2", "targetVertexId": "3"},
        {"inputVertexId": "1", "targetVertexId": "4"},
    ]
    assert "finishTime" not in info
    assert "edge-token" not in str(info)


@pytest.mark.parametrize(
    ("state", "outcome", "word"),
    [
        ("starting", None, "INITIALIZING"),
        ("running", None, "RUNNING"),
        ("stopping", None, "DOING_SAVEPOINT"),
        ("restarting", None, "FAILING"),
        ("ended", Outcome(0, "", 1_700_000_000_000), "SAVEPOINT_DONE"),
        ("failed", Outcome(69, "the disk", 1_700_000_000_000), "FAILED"),
        ("fenced", Outcome(75, "taken over", 1_700_000_000_000, fenced=True), "UNKNOWABLE"),
    ],
)
def test_every_state_has_seatunnels_word(state: str, outcome: Outcome | None, word: str) -> None:
    info = seatunnel(PlayedJob(outcome=outcome).say(status_of(state)))
    assert info["jobStatus"] == word
    if outcome is not None:
        assert info["finishTime"] == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_700_000_000))
        assert info["errorMsg"] == (outcome.reason or None)


def test_the_overview_counts_in_texts() -> None:
    board, _ = board_of(
        PlayedJob(name="a").say(status_of()),
        PlayedJob(name="b", outcome=Outcome(0, "", 1)),
        PlayedJob(name="c", outcome=Outcome(65, "bad", 1)),
    )
    shown = msgspec.convert(overview(board.everything()), Overview)
    assert (shown["runningJobs"], shown["finishedJobs"], shown["failedJobs"]) == ("1", "1", "1")


def test_checkpoints_have_seatunnels_form_newest_first() -> None:
    job = PlayedJob(outcome=Outcome(0, "", 1)).say(status_of("ended"))
    job.journal(CheckpointCompleted(1, 0.25, 700))
    job.journal(CheckpointAborted(2, 1.5, "the disk is full"))
    job.journal(CheckpointCompleted(3, 0.5, 800))
    board, _ = board_of(job)
    (one,) = board.everything()
    shown = msgspec.convert(checkpoints_info(one, checkpoint_views(job, 32)), CheckpointsInfo)
    (pipeline,) = shown["pipelines"]
    assert [entry["checkpointId"] for entry in pipeline["history"]] == [3, 2, 1]
    assert pipeline["counts"] == {"triggered": 6, "completed": 5, "failed": 1, "inProgress": 0, "restored": 1}
    assert pipeline["latestFailed"] is not None
    assert pipeline["latestFailed"]["failureReason"] == "the disk is full"
    assert pipeline["latestFailed"]["completedTimestamp"] is None
    assert pipeline["latestSavepoint"] is not None
    assert pipeline["latestSavepoint"]["checkpointId"] == 3
    assert pipeline["latestCompleted"] is not None
    assert pipeline["latestCompleted"]["durationMillis"] == 500
