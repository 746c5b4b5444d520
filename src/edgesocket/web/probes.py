"""`/healthz`, `/readyz` and `/metrics`: for whoever watches the process. The answers say why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypedDict

from starlette.responses import Response

from edgesocket.web.call import Call
from edgesocket.web.endpoint import JOB_NAME, TEXT, Access, Endpoint, encoded
from edgesocket.web.health import Seen, why_not_alive, why_not_ready


class JobHealth(TypedDict):
    """One job: `ok`, or the reasons why not."""

    name: str
    ok: bool
    reasons: list[str]


class HealthView(TypedDict):
    """`status` is ok where all jobs are, except for those that ended or failed and are none of this process's any more.

    `message` has the reasons in one line; it is empty where there are none.
    """

    status: Literal["ok", "fail"]
    message: str
    jobs: list[JobHealth]


async def live(call: Call) -> Response:
    """Whether the process lives: a job that has ended or failed does not come back by starting it anew."""
    hung = [(name, seen) for name, seen in call.board.health() if seen.state not in ("ended", "failed", "fenced")]
    return _answer(call, hung, why_not_alive)


async def ready(call: Call) -> Response:
    """Whether every job of the process is ready, except those that were stopped."""
    wanted = [(name, seen) for name, seen in call.board.health() if seen.state != "ended"]
    if not wanted and call.board.host.why_no_submit:
        return _nothing_runs(call)
    return _answer(call, wanted, why_not_ready)


async def job_live(call: Call) -> Response:
    """Whether one job lives."""
    return _answer(call, [_one(call)], why_not_alive)


async def job_ready(call: Call) -> Response:
    """Whether one job is ready."""
    return _answer(call, [_one(call)], why_not_ready)


def _one(call: Call) -> tuple[str, Seen]:
    job = call.job()
    return job.job.name, call.board.seen(job)


def _nothing_runs(call: Call) -> Response:
    del call
    view: HealthView = {"status": "fail", "message": "no job runs in this process", "jobs": []}
    return encoded(view, 503)


def _answer(call: Call, jobs: Iterable[tuple[str, Seen]], judge: Callable[[Seen], list[str]]) -> Response:
    found: list[JobHealth] = []
    for name, seen in jobs:
        reasons = judge(seen)
        if not call.trusted:  # what went wrong exactly is not for strangers
            reasons = [reason.partition(": ")[0] for reason in reasons]
        found.append({"name": name, "ok": not reasons, "reasons": reasons})
    message = "; ".join(f"{one['name']}: {', '.join(one['reasons'])}" for one in found if not one["ok"])
    view: HealthView = {"status": "fail" if message else "ok", "message": message, "jobs": found}
    return encoded(view, 503 if message else 200)


async def metrics(call: Call) -> Response:
    """Every metric, in the format that the header Accept asks for."""
    from edgesocket.web.metrics import render

    content, media = render(call.board, call.request.headers.get("accept", ""))
    return Response(content, headers={"Content-Type": media})


ENDPOINTS = (
    Endpoint(
        "GET",
        "/healthz",
        "live",
        "Does the process live? 503 means that starting it anew may help.",
        live,
        HealthView,
        tag="probes",
        access=Access.OPEN,
        unavailable=HealthView,
    ),
    Endpoint(
        "GET",
        "/healthz/{name}",
        "jobLive",
        "Does this job live?",
        job_live,
        HealthView,
        tag="probes",
        access=Access.OPEN,
        parameters=(JOB_NAME,),
        unavailable=HealthView,
        fails=(404,),
    ),
    Endpoint(
        "GET",
        "/readyz",
        "ready",
        "Is every job ready: its port is open or a collector streams, and checkpoints complete?",
        ready,
        HealthView,
        tag="probes",
        access=Access.OPEN,
        unavailable=HealthView,
    ),
    Endpoint(
        "GET",
        "/readyz/{name}",
        "jobReady",
        "Is this job ready?",
        job_ready,
        HealthView,
        tag="probes",
        access=Access.OPEN,
        parameters=(JOB_NAME,),
        unavailable=HealthView,
        fails=(404,),
    ),
    Endpoint(
        "GET",
        "/metrics",
        "metrics",
        "Metrics for Prometheus.",
        metrics,
        media=(TEXT,),
        tag="probes",
    ),
)
