"""Which processes run jobs, found through what the jobs say of themselves in their state."""

from __future__ import annotations

import time
from typing import Any

from edgesocket.cli.stopping import is_dead
from edgesocket.errors import EdgeSocketError, ExitCode
from edgesocket.store.ownership import Beat
from edgesocket.store.place import Place

FRESH_S = 5.0
"""A status older than this is not of a process that lives."""


class NotRunningError(EdgeSocketError):
    """The job does not run, or its process cannot be asked."""

    exit_code = ExitCode.UNAVAILABLE


def is_live(status: dict[str, Any] | None, beat: Beat | None, now: float) -> bool:
    """Whether a process shows signs of life: a fresh status, a beat that is not closed, no process known to be dead."""
    if status is None or beat is None or beat.closed or "end" in status:
        return False
    return now - float(status["time"]) < FRESH_S and not is_dead(beat)


def http_of(name: str, place: Place) -> str:
    """The address of the HTTP server of the process that runs a job.

    Raises:
        NotRunningError: the job does not run, or its process has no such server.
    """
    beat, status = place.read_beat(), place.read_status()
    if not is_live(status, beat, time.time()):
        raise NotRunningError(
            f"job {name} does not run: edgesocket status {name} says how it ended, edgesocket run JOB_FILE starts it"
        )
    url = str((status or {}).get("http") or "")
    if not url:
        holder = beat.holder if beat is not None else "its process"
        raise NotRunningError(
            f"the process that runs job {name} ({holder}) has no HTTP server: start it with --http 127.0.0.1:8080 (it "
            "needs pip install 'edgesocket[web]')"
        )
    return url
