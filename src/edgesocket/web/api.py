"""`/api`: what the dashboard and `edgesocket top` live on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypedDict

import msgspec
from starlette.responses import Response

from edgesocket.web.board import LOOK_S
from edgesocket.web.call import Call
from edgesocket.web.endpoint import EVENTS, JOB_NAME, JSON, Access, Endpoint, Parameter, encoded
from edgesocket.web.streams import RETRY_MS, EventStream, event, pause
from edgesocket.web.views import JobsView, JobView

MAX_LINES = 500
"""Lines of the log in one answer."""


class LogLineView(TypedDict):
    """One line of a job's log; `seq` counts up without gaps."""

    seq: int
    time_ms: int
    level: str
    text: str


class LogView(TypedDict):
    """Lines of a job's log, oldest first. `next` is the `after` of the next request."""

    lines: list[LogLineView]
    next: int


class StopOrder(msgspec.Struct, forbid_unknown_fields=True):
    """How to stop. Every stop takes a last checkpoint; `savepoint` may say so and changes nothing."""

    savepoint: bool = True


class StopView(TypedDict):
    """A job that was asked to stop; it may take as long as its last checkpoint does."""

    job: str
    state: Literal["stopping", "ended", "failed", "fenced"]


async def jobs(call: Call) -> Response:
    """Every job."""
    return Response(call.board.snapshot(), media_type=JSON)


async def job(call: Call) -> Response:
    """One job."""
    return encoded(call.board.view_of(call.job()))


async def stream(call: Call) -> Response:
    """Every job, again and again."""
    most = call.values["count"]

    async def events() -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % RETRY_MS
        sent = 0
        while True:
            yield event(call.board.snapshot(), "jobs")
            sent += 1
            if sent == most or not await pause(call.shared, LOOK_S):
                return

    return EventStream(call, events())


async def log(call: Call) -> Response:
    """Lines of a job's log."""
    after, limit = call.values["after"], call.values["limit"]
    journal = call.job().job.journal
    if after > journal.last_seq:
        after = 0  # it was counted in the journal of an earlier start of the job
    lines = journal.lines(after, limit)
    view: LogView = {
        "lines": [{"seq": one.seq, "time_ms": one.time_ms, "level": str(one.level), "text": one.text} for one in lines],
        "next": lines[-1].seq if lines else after,
    }
    return encoded(view)


async def stop(call: Call) -> Response:
    """Stop a job gracefully."""
    await call.decoded_body()
    found = call.job()
    if found.job.outcome is None:
        found.job.stop(f"{call.peer}, over HTTP")
    state = found.state
    view: StopView = {
        "job": found.job.name,
        "state": state if state == "ended" or state == "failed" or state == "fenced" else "stopping",
    }
    return encoded(view)


ENDPOINTS = (
    Endpoint("GET", "/api/jobs", "jobs", "Every job of this process.", jobs, JobsView),
    Endpoint(
        "GET",
        "/api/stream",
        "stream",
        "Every job, as server-sent events: `event: jobs` once a second, its data as GET /api/jobs answers.",
        stream,
        media=(EVENTS,),
        parameters=(Parameter("count", "End after so many events.", "whole", minimum=1),),
        fails=(503,),
    ),
    Endpoint("GET", "/api/jobs/{name}", "job", "One job.", job, JobView, parameters=(JOB_NAME,), fails=(404,)),
    Endpoint(
        "GET",
        "/api/jobs/{name}/log",
        "log",
        "The newest lines of the job's log that are kept; a poll with `after` gets what has come since.",
        log,
        LogView,
        parameters=(
            JOB_NAME,
            Parameter("after", "Only lines with a greater `seq`; all, where none has it yet.", "whole", default=0),
            Parameter("limit", "Most lines.", "whole", default=MAX_LINES, minimum=1, maximum=MAX_LINES),
        ),
        fails=(404,),
    ),
    Endpoint(
        "POST",
        "/api/jobs/{name}/stop",
        "stop",
        "Stop a job gracefully: no new records, what is queued goes to the sinks, one last checkpoint.",
        stop,
        StopView,
        access=Access.WRITE,
        parameters=(JOB_NAME,),
        body=StopOrder,
        fails=(404,),
    ),
)
