"""Is a job alive, is it ready? Pure: decided from what it last said of itself, with the reasons in words.

*Alive* means that starting the process anew would not help: it still speaks. *Ready* means that a collector that dials
now is served, and that what it sends will be confirmed: the port is open or a collector streams, and checkpoints
complete. A job whose sink is down for long is alive and not ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LIVE_WITHIN_S = 60.0
"""A job that says nothing for so long hangs: it says something every second or two."""

CHECKPOINTS_LATE = 3
"""A checkpoint is fresh for so many intervals and one timeout: one that fails is not the end of readiness."""

SERVING = ("listening", "connected")
"""States of the port in which a collector is served."""

REBIND_S = 5.0
"""So long the port may be closed after a collector has left."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as the web sees it.

    Attributes:
        state: as in `/api/jobs`.
        status: what it last said.
        silent_s: how long ago that was.
        running_s: since when it runs.
        interval_s, timeout_s: of its checkpoints.
        retry_s: how long it waits before it is started again.
        last_error: why it failed.
    """

    state: str
    status: Mapping[str, Any]
    silent_s: float
    running_s: float
    interval_s: float
    timeout_s: float
    retry_s: float = 0.0
    last_error: str = ""


def why_not_alive(seen: Seen) -> list[str]:
    """Reasons why this process should be started anew for this job; none if it should not."""
    if seen.state in ("failed", "fenced"):
        return [f"it has {'failed' if seen.state == 'failed' else 'lost its job to another process'}{_because(seen)}"]
    if seen.state == "ended":
        return ["it has ended"]
    if seen.silent_s > LIVE_WITHIN_S + (seen.retry_s if seen.state == "restarting" else 0.0):
        return [f"it has said nothing for {seen.silent_s:.0f} s: its disk does not answer, or it hangs"]
    return []


def why_not_ready(seen: Seen) -> list[str]:
    """Reasons why a collector is not served, or not confirmed; none if it is."""
    reasons = why_not_alive(seen)
    if reasons:
        return reasons
    if seen.state != "running":
        return [f"it is {seen.state}{_because(seen)}"]
    return [*_port_trouble(seen), *_checkpoint_trouble(seen)]


def _port_trouble(seen: Seen) -> list[str]:
    listener = (seen.status.get("source") or {}).get("listener")
    if listener is None:
        return ["its port is not open yet"]
    state = str(listener.get("state", ""))
    if state in SERVING or (state == "binding" and float(listener.get("state_since_s", 0.0)) < REBIND_S):
        return []
    problem = listener.get("bind_problem") or listener.get("failure")
    return [f"its port is not open ({state}{f': {problem}' if problem else ''})"]


def _checkpoint_trouble(seen: Seen) -> list[str]:
    checkpoints = seen.status.get("checkpoints") or {}
    ago = checkpoints.get("last_completed_ago_s")
    age = seen.running_s if ago is None else float(ago) + seen.silent_s
    limit = CHECKPOINTS_LATE * seen.interval_s + seen.timeout_s
    if age <= limit:
        return []
    failure = checkpoints.get("last_failure") or (seen.status.get("sinks") or {}).get("last_failure")
    return [
        f"no checkpoint has completed for {age:.0f} s ({limit:.0f} s are allowed){f': {failure}' if failure else ''}"
    ]


def _because(seen: Seen) -> str:
    return f": {seen.last_error}" if seen.last_error else ""
