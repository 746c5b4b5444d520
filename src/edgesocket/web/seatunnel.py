"""SeaTunnel's REST API v2, the part that means something for a process that runs jobs. See `docs/http.md`."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

import msgspec
from starlette.responses import Response

from edgesocket.errors import EdgeSocketError, ExitCode
from edgesocket.web.call import Call
from edgesocket.web.endpoint import JSON, TEXT, Access, Endpoint, Fail, Parameter, encoded
from edgesocket.web.seatunnel_views import (
    FINISHED_STATES,
    CheckpointsInfo,
    JobInfo,
    Overview,
    checkpoints_info,
    job_info,
    seatunnel_state,
)
from edgesocket.web.seatunnel_views import overview as overview_of
from edgesocket.web.views import MAX_CHECKPOINTS, checkpoint_views

MAX_JOBS_A_REQUEST = 100
MAX_LOG_LINES = 1000

_STATUS_OF_CODE: dict[int, int] = {ExitCode.CONFIG: 400, ExitCode.USAGE: 400, ExitCode.TRY_LATER: 409}
"""What is answered where a job cannot be started, by the exit code of the error."""

_ID = Parameter("job_id", "Id of the job, which is its name.", where="path")


class StopJob(msgspec.Struct):
    """Which job to stop. Every stop takes a last checkpoint and keeps the state, with or without a savepoint."""

    jobId: str | int  # noqa: N815 - SeaTunnel's spelling
    isStopWithSavePoint: bool = False  # noqa: N815
    force: bool = False


class JobId(TypedDict):
    """A job."""

    jobId: str


class SubmittedJob(TypedDict):
    """A job that was submitted."""

    jobId: str
    jobName: str


class LogFile(TypedDict):
    """Where the log of a job is."""

    node: str
    logLink: str
    logName: str


async def overview(call: Call) -> Response:
    """How many jobs there are."""
    return encoded(overview_of(call.board.everything()))


async def running_jobs(call: Call) -> Response:
    """Jobs that have not ended."""
    found = [one for one in call.board.everything() if one.job.outcome is None]
    return encoded([job_info(one, call.board.view_of(one)) for one in found])


async def finished_jobs(call: Call) -> Response:
    """Jobs that have ended, in one of the ways to end."""
    state = call.values.get("state")
    found = [one for one in call.board.everything() if one.job.outcome is not None]
    found = [one for one in found if state is None or seatunnel_state(one) == state]
    return encoded([job_info(one, call.board.view_of(one)) for one in found])


async def info(call: Call) -> Response:
    """One job; of one that is not there only its id, as SeaTunnel answers."""
    one = call.board.job(call.values["job_id"])
    unknown: JobInfo = {"jobId": call.values["job_id"]}
    return encoded(unknown if one is None else job_info(one, call.board.view_of(one)))


async def checkpoints(call: Call) -> Response:
    """The checkpoints of a job."""
    one = call.job(call.values["job_id"])
    return encoded(checkpoints_info(one, checkpoint_views(one.job, MAX_CHECKPOINTS)))


async def system(call: Call) -> Response:
    """What SeaTunnel tells of a worker, as far as there is such a thing here."""
    del call
    page, load = os.sysconf("SC_PAGE_SIZE"), os.getloadavg()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    node = {
        "isMaster": "true",
        "host": socket.gethostname(),
        "processors": str(os.cpu_count() or 1),
        "physical.memory.total": _size(page * os.sysconf("SC_PHYS_PAGES")),
        "physical.memory.free": _size(page * os.sysconf("SC_AVPHYS_PAGES")),
        "process.memory.peak": _size(usage.ru_maxrss * 1024),
        "process.cpu.seconds": f"{usage.ru_utime + usage.ru_stime:.2f}",
        "load.systemAverage": f"{load[0]:.2f}",
        "thread.count": str(threading.active_count()),
    }
    return encoded([node])


async def submit_job(call: Call) -> Response:
    """Check a job, and start it in this process."""
    host = call.board.host
    if host.why_no_submit:
        raise Fail(403, host.why_no_submit)
    content = await call.body()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fail(400, f"the body is not UTF-8 text (byte {error.start})") from None
    if not text.strip():
        raise Fail(400, "Request body is empty.")
    wanted, restored = call.values["jobId"], call.values["isStartWithSavePoint"]
    name = call.values["jobName"] or None
    if wanted is not None and name is not None and wanted != name:
        raise Fail(400, f"the id of a job is its name: leave jobId out, or write jobId={name[:100]}")
    name = await _submitted(call, text, name or wanted, restored=restored)
    call.shared.report(f"HTTP: {call.peer} submitted job {name}")
    view: SubmittedJob = {"jobId": name, "jobName": name}
    return encoded(view)


async def _submitted(call: Call, text: str, name: str | None, *, restored: bool) -> str:
    """Reading a job may take a moment, so it has a thread of its own."""
    try:
        file_format: Literal["json", "hocon"] = call.values["format"]
        return await asyncio.to_thread(call.board.host.submit, text, file_format, name, restored=restored)
    except EdgeSocketError as error:
        raise Fail(_STATUS_OF_CODE.get(error.exit_code, 500), str(error)) from None
    except ModuleNotFoundError as error:
        raise Fail(500, f"this needs {error.name}, which is not installed in this process") from None


async def stop_job(call: Call) -> Response:
    """Stop a job."""
    order: StopJob = await call.decoded_body()
    return encoded(_stop(call, order))


async def stop_jobs(call: Call) -> Response:
    """Stop jobs; all of them have to be there, or none is stopped."""
    orders: list[StopJob] = await call.decoded_body()
    if len(orders) > MAX_JOBS_A_REQUEST:
        raise Fail(400, f"more than {MAX_JOBS_A_REQUEST} jobs in one request")
    for order in orders:
        call.job(str(order.jobId))
    return encoded([_stop(call, order) for order in orders])


def _stop(call: Call, order: StopJob) -> JobId:
    one = call.job(str(order.jobId))
    if one.job.outcome is None:
        one.job.stop(f"{call.peer}, over HTTP")
    return {"jobId": one.job.name}


async def logs(call: Call) -> Response:
    """Which logs there are."""
    base = call.request.base_url
    found: list[LogFile] = [
        {"node": base.netloc, "logLink": f"{base}logs/{one.job.name}", "logName": one.job.name}
        for one in call.board.everything()
    ]
    return encoded(found)


async def job_log(call: Call) -> Response:
    """The newest lines of a job's log, as text."""
    name = call.values["job_id"]
    one = call.board.job(name) or call.job(name.removeprefix("job-").removesuffix(".log"))
    journal = one.job.journal
    lines = journal.lines(0, MAX_LOG_LINES)
    text = "".join(f"{_stamp(line.time_ms)} {str(line.level).upper():7} {line.text}\n" for line in lines)
    return Response(text, media_type=TEXT)


def _stamp(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _size(count: int) -> str:
    """As SeaTunnel writes sizes: 16.0G."""
    value, units = float(count), ["", "K", "M", "G"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f}{units[0]}"


def _get(path: str, name: str, summary: str, handle: Any, answer: Any, *parameters: Parameter, **more: Any) -> Endpoint:
    return Endpoint("GET", path, name, summary, handle, answer, tag="SeaTunnel", parameters=parameters, **more)


ENDPOINTS = (
    _get("/overview", "overview", "How many jobs there are.", overview, Overview),
    _get("/running-jobs", "runningJobs", "Jobs that have not ended.", running_jobs, list[JobInfo]),
    _get("/job-info/{job_id}", "jobInfo", "One job; of an unknown one only the id.", info, JobInfo, _ID),
    _get("/running-job/{job_id}", "runningJob", "The same under an older name.", info, JobInfo, _ID),
    _get("/finished-jobs", "finishedJobs", "Jobs that have ended.", finished_jobs, list[JobInfo]),
    _get(
        "/finished-jobs/{state}",
        "finishedJobsOfState",
        "Jobs that have ended in one way. A job that was stopped is SAVEPOINT_DONE.",
        finished_jobs,
        list[JobInfo],
        Parameter("state", "How they ended.", where="path", choices=FINISHED_STATES),
    ),
    _get(
        "/jobs/checkpoints/{job_id}",
        "checkpoints",
        "The checkpoints of a job.",
        checkpoints,
        CheckpointsInfo,
        _ID,
        fails=(404,),
    ),
    _get(
        "/system-monitoring-information",
        "system",
        "The host and the process, as far as SeaTunnel's words fit.",
        system,
        list[dict[str, str]],
    ),
    _get("/logs", "logs", "Which logs there are.", logs, list[LogFile]),
    _get(
        "/logs/{job_id}",
        "jobLog",
        "The newest lines of a job's log, as text.",
        job_log,
        None,
        _ID,
        media=(TEXT,),
        fails=(404,),
    ),
    Endpoint(
        "POST",
        "/submit-job",
        "submitJob",
        "Check a job as `edgesocket check` does, and start it in this process.",
        submit_job,
        SubmittedJob,
        tag="SeaTunnel",
        access=Access.WRITE,
        parameters=(
            Parameter("jobId", "Id of the job, which is its name."),
            Parameter("jobName", "Name of the job, instead of what it says."),
            Parameter("isStartWithSavePoint", "There has to be a state to go on from.", "flag", default=False),
            Parameter("format", "How the body is written.", choices=("json", "hocon"), default="json"),
        ),
        body=dict[str, Any],
        body_media=(JSON, TEXT),
        fails=(409,),
    ),
    Endpoint(
        "POST",
        "/stop-job",
        "stopJob",
        "Stop a job with a last checkpoint.",
        stop_job,
        JobId,
        tag="SeaTunnel",
        access=Access.WRITE,
        body=StopJob,
        fails=(404,),
    ),
    Endpoint(
        "POST",
        "/stop-jobs",
        "stopJobs",
        "Stop jobs with a last checkpoint; where one is not there, none is stopped.",
        stop_jobs,
        list[JobId],
        tag="SeaTunnel",
        access=Access.WRITE,
        body=list[StopJob],
        fails=(404,),
    ),
)
