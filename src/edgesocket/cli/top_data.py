"""Where `edgesocket top` has its figures from: running processes over HTTP, and the states of jobs for the rest.

A job says in its status which process runs it. Each process is asked once for all of its jobs; what no process tells
of (it has no HTTP server, or does not answer) is made of the status in the job's state, with rates worked out from two
of them. A job that does not run is described from its commit log, which is read again only when something has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edgesocket.cli.asking import Asking
from edgesocket.cli.processes import is_live
from edgesocket.cli.status import report_on
from edgesocket.cli.top_model import Job
from edgesocket.errors import EdgeSocketError
from edgesocket.store.place import Place

ASKED_AT_ONCE = 8
"""So many processes, or states, are asked at the same time."""

COUNTERS = ("received_records_per_s", "received_bytes_per_s", "written_rows_per_s")

Places = Callable[[], Sequence[tuple[str, Place]]]
"""The jobs to show: names and where their states lie. Asked again and again, since jobs come and go."""


@dataclass(slots=True)
class _Known:
    """What was read of one job before."""

    counted: tuple[float, dict[str, float]] | None = None
    still: tuple[Any, Job] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one look gave.

    Attributes:
        jobs: as /api/jobs has them; `origin` of each is the address of its process, or empty.
        problems: what could not be asked.
    """

    jobs: list[Job]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class JobsReader:
    """Looks again and again.

    Args:
        places: the jobs.
        ask: asks the process at an address.
        urls: processes that are asked besides those which the jobs name.
        wall: Unix seconds.
    """

    places: Places
    ask: Callable[[str], Asking]
    urls: Sequence[str] = ()
    wall: Callable[[], float] = time.time
    _known: dict[str, _Known] = field(default_factory=dict)

    def look(self) -> Answer:
        """Every job as it is now."""
        now = self.wall()
        problems: list[str] = []
        try:
            places = list(self.places())
        except EdgeSocketError as error:
            places, problems = [], [str(error)]
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            signs = list(pool.map(_signs, (place for _, place in places)))
            live = [status if is_live(status, beat, now) else None for status, beat in signs]
            urls = list(dict.fromkeys([*self.urls, *(str(one["http"]) for one in live if one and one.get("http"))]))
            told: dict[str, Job] = {}
            for jobs, problem in pool.map(self._ask, urls):
                for job in jobs:
                    if told.get(str(job["name"]), {}).get("state") != "running":
                        told[str(job["name"])] = job
                if problem:
                    problems.append(problem)
            missing = [
                (name, place, status, beat, fresh)
                for (name, place), (status, beat), fresh in zip(places, signs, live, strict=True)
                if name not in told
            ]
            made = list(pool.map(partial(self._of_state, now), *zip(*missing, strict=True)) if missing else ())
        names = {name for name, _ in places}
        shown = [job for name, job in told.items() if name in names or job["origin"] in self.urls]
        return Answer([*shown, *made], tuple(problems))

    def log(self, job: Job, most: int) -> tuple[str, ...]:
        """The newest lines of a job's log; why there are none, else."""
        if not job.get("origin"):
            return ("its process cannot be asked for its log: it has no HTTP server",)
        try:
            page = self.ask(str(job["origin"])).get(f"/api/jobs/{_quoted(str(job['name']))}/log?limit=500")
        except EdgeSocketError as error:
            return (str(error),)
        lines = [
            f"{time.strftime('%H:%M:%S', time.localtime(one['time_ms'] / 1000))} {one['level']:<7} {one['text']}"
            for one in page["lines"]
        ]
        return tuple(lines[-most:])

    def _ask(self, url: str) -> tuple[list[Job], str]:
        try:
            answer = self.ask(url).get("/api/jobs")
            return [{**job, "origin": url} for job in answer["jobs"]], ""
        except (EdgeSocketError, KeyError, TypeError) as error:
            return [], str(error) if isinstance(error, EdgeSocketError) else f"{url} does not answer as /api/jobs does"

    def _of_state(self, now: float, name: str, place: Place, status: Any, beat: Any, fresh: Any) -> Job:
        known = self._known.setdefault(name, _Known())
        if fresh is None:
            return self._still(name, place, status, beat, known, now)
        counters = counters_of(fresh)
        rates = dict.fromkeys(COUNTERS, 0.0)
        at = float(fresh["time"])
        if known.counted is not None and at > known.counted[0]:
            before, then = known.counted
            rates = {key: max(0.0, (counters[key] - then[key]) / (at - before)) for key in COUNTERS}
        if known.counted is None or at > known.counted[0]:
            known.counted = (at, counters)
        return {
            **_nothing(name, str(fresh.get("state", "running"))),
            "status": fresh,
            "rates": rates,
            "restarts": fresh.get("restarts", 0),
            "last_error": fresh.get("last_error", ""),
        }

    @staticmethod
    def _still(name: str, place: Place, status: Any, beat: Any, known: _Known, now: float) -> Job:
        """A job that does not run."""
        signs = (status, beat)
        if known.still is not None and known.still[0] == signs:
            return known.still[1]
        try:
            report = report_on(name, place, now)
        except EdgeSocketError as error:
            return {**_nothing(name, "unknown"), "last_error": str(error)}
        ended = report.get("ended")
        state = "unknown" if ended is None else "failed" if ended["reason"] else "ended"
        checkpoint = report.get("checkpoint") or {}
        watermark = checkpoint.get("watermark", 0)
        job: Job = {
            **_nothing(name, state),
            "status": {"source": {"watermark": watermark, "highest_offered": watermark}} if checkpoint else {},
            "last_error": "" if ended is None else ended["reason"],
        }
        known.still = (signs, job)
        return job


def counters_of(status: dict[str, Any]) -> dict[str, float]:
    """What rates are made of, by their names in /api/jobs."""
    source = status.get("source") or {}
    return {
        "received_records_per_s": float((source.get("replies") or {}).get("RECEIVED", 0)),
        "received_bytes_per_s": float((source.get("listener") or {}).get("received_bytes", 0)),
        "written_rows_per_s": float(status.get("rows_written") or 0),
    }


def _signs(place: Place) -> tuple[Any, Any]:
    try:
        return place.read_status(), place.read_beat()
    except EdgeSocketError:
        return None, None


def _nothing(name: str, state: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "status": {},
        "rates": dict.fromkeys(COUNTERS, 0.0),
        "pipeline": {"nodes": [], "edges": []},
        "holds": None,
        "checkpoints": [],
        "sessions": [],
        "dead_letters": {"count": 0, "can_be_read": False},
        "last_error": "",
        "restarts": 0,
        "origin": "",
    }


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
