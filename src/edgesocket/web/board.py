"""What the web knows of the jobs of this process, and what it may ask of them.

The board reads what jobs *published*: a job's housekeeper does that every second or two and after each checkpoint. No
request takes a lock that a pump or receiver needs, and looking costs nothing but memory reads. One thread uses a board:
the server's.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

import edgesocket
from edgesocket.web.health import Seen
from edgesocket.web.hosted import Host, HostedJob, Published
from edgesocket.web.pipeline import Pipeline, picture_of
from edgesocket.web.rates import RateMeter
from edgesocket.web.views import JobsView, JobView, counters_of, view_of

if TYPE_CHECKING:
    from edgesocket.telemetry.metrics import Reading

JobState = Literal["starting", "running", "stopping", "restarting", "ended", "failed", "fenced"]

LOOK_S = 1.0
"""How often jobs are looked at, and how old an answer about all of them may be."""

_STATES: Mapping[str, JobState] = {
    "running": "running",
    "stopping": "stopping",
    "fenced": "fenced",
    "restarting": "restarting",
    "ended": "restarting",  # only the incarnation has: the job has no outcome yet
    "failed": "restarting",
}

MAX_ENDED = 100
"""Jobs that have ended and are still shown; the oldest are forgotten first."""


class JobOnBoard:
    """One job, with what was seen of it."""

    def __init__(self, job: HostedJob) -> None:
        self.job = job
        self.pipeline: Pipeline = picture_of(job.spec)
        self.kept: dict[str, Any] = {}
        """What was made of the job file for answers, and stays the same."""
        self._meter = RateMeter()
        self._seen: Published | None = None
        self._running_since: float | None = None

    def look(self) -> None:
        """Take what the job has said since the last look."""
        published = self.job.published
        if published is None or published is self._seen:
            return
        self._seen = published
        self._meter.add(published.at, counters_of(published.status))
        if published.status.get("state") != "running":
            self._running_since = None
        elif self._running_since is None:
            self._running_since = published.at

    def view(self, now: float) -> JobView:
        """The job as `/api/jobs` shows it."""
        status = self._seen.status if self._seen else {}
        rates = {name: self._meter.rate(name, now) for name in counters_of({})}
        return view_of(self.job, self.state, status, rates, self.pipeline, self.last_error)

    def seen(self, now: float) -> Seen:
        """The job as health is decided from it."""
        env, status = self.job.spec.env, self._seen.status if self._seen else {}
        since = self._running_since
        silent_s = now - self._seen.at if self._seen else time.time() - self.job.created_ms / 1000
        return Seen(
            state=self.state,
            status=status,
            silent_s=max(0.0, silent_s),
            running_s=0.0 if since is None else max(0.0, now - since),
            interval_s=max(env.checkpoint_interval_ms, env.min_pause_ms) / 1000,
            timeout_s=env.checkpoint_timeout_ms / 1000,
            retry_s=env.retry_interval_s,
            last_error=self.last_error,
        )

    @property
    def state(self) -> JobState:
        """Where it is in its life."""
        outcome = self.job.outcome
        if outcome is not None:
            ended: JobState = "failed" if outcome.exit_code else "ended"
            return "fenced" if outcome.fenced else ended
        return _STATES.get(str(self.status.get("state")), "starting")

    @property
    def last_error(self) -> str:
        """Why it ended, or failed last."""
        outcome = self.job.outcome
        if outcome is not None and outcome.reason:
            return outcome.reason
        return str(self._seen.status.get("last_error") or "") if self._seen else ""

    @property
    def status(self) -> Mapping[str, Any]:
        """What it last said."""
        return self._seen.status if self._seen else {}


class Board:
    """Every job of the process.

    Args:
        host: the process.
        now: a steady clock in seconds, the same as that of `Published.at`.
        wall: seconds since 1970.
    """

    def __init__(
        self, host: Host, now: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self.host = host
        self._now = now
        self._wall = wall
        self._jobs: dict[str, JobOnBoard] = {}
        self._hostname = socket.gethostname()
        self._snapshot: tuple[float, bytes] | None = None

    def look(self) -> None:
        """Look at every job; the server does once a second."""
        known = self._jobs
        found: dict[str, JobOnBoard] = {}
        for job in self.host.jobs():
            before = known.get(job.name)
            found[job.name] = before if before is not None and before.job is job else JobOnBoard(job)
        ended = [name for name, one in found.items() if one.job.outcome is not None]
        for name in ended[: max(0, len(ended) - MAX_ENDED)]:
            del found[name]
        self._jobs = found
        for one in found.values():
            one.look()

    def job(self, name: str) -> JobOnBoard | None:
        """One job, as it is now."""
        one = self._jobs.get(name)
        if one is None or one.job.outcome is not None:
            self.look()  # it may have come just now, or again
            one = self._jobs.get(name)
        if one is not None:
            one.look()
        return one

    def everything(self) -> list[JobOnBoard]:
        """Every job, as it is now."""
        self.look()
        return list(self._jobs.values())

    def view_of(self, one: JobOnBoard) -> JobView:
        """One job as JSON."""
        return one.view(self._now())

    def seen(self, one: JobOnBoard) -> Seen:
        """One job, as health is decided from it."""
        return one.seen(self._now())

    def snapshot(self) -> bytes:
        """All jobs as JSON text, at most `LOOK_S` old: made once for everybody who asks."""
        now = self._now()
        if self._snapshot is None or now - self._snapshot[0] >= LOOK_S * 0.9:
            view: JobsView = {
                "version": edgesocket.__version__,
                "time": round(self._wall(), 3),
                "host": self._hostname,
                "jobs": [one.view(now) for one in self.everything()],
            }
            self._snapshot = (now, msgspec.json.encode(view))
        return self._snapshot[1]

    def health(self) -> list[tuple[str, Seen]]:
        """Every job, as health is decided from it."""
        now = self._now()
        return [(one.job.name, one.seen(now)) for one in self.everything()]

    def readings(self) -> Iterable[Reading]:
        """What metrics are made from."""
        from edgesocket.telemetry.metrics import Reading

        for one in self.everything():
            yield Reading(one.job.name, {**one.status, "state": one.state}, one.job.journal)
