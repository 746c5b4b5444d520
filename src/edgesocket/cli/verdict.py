"""What is wrong with a job, and what to do about it: the first thing that somebody wants to know at night. Pure.

Made of what a job publishes (`live` of `edgesocket status`, `status` of `/api/jobs`). A field that is not there says
nothing: a process of another version may publish less.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

PATIENCE_S = 60.0
"""A batch may wait for sinks and checkpoints for so long before that is worth a word."""

LATE_INTERVALS = 10
"""A checkpoint that is so many intervals late (and later than PATIENCE_S) is missing."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that an operator should know.

    Attributes:
        what: what is wrong, and since when.
        to_do: what to do about it; empty where it heals by itself.
        grave: whether records are held up; else it is only worth knowing.
    """

    what: str
    to_do: str
    grave: bool = True

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def troubles(job: str, live: Mapping[str, Any], job_file: str = "JOB_FILE", state: str = "") -> list[Trouble]:
    """What is wrong with a job that runs, the gravest first.

    Args:
        job: its name, for commands.
        live: what it published.
        job_file: its file, for commands that need it.
        state: where its state lies, for commands that are to work anywhere; empty: leave it out.
    """
    source = live.get("source") or {}
    found = [
        *_stores(live, source),
        *_sinks(live),
        *_checkpoints(live),
        *_holder(job, source, state),
        *_queue(source),
        *_connections(source),
        *_process(live),
        *_refused(live, source, job_file),
    ]
    return sorted(found, key=lambda one: not one.grave)


def _stores(live: Mapping[str, Any], source: Mapping[str, Any]) -> Iterator[Trouble]:
    log = source.get("arrival_log") or {}
    if log.get("failing_for_s") is not None:
        yield Trouble(
            f"ARRIVAL LOG FAILS since {span(log['failing_for_s'])}: {log.get('last_failure', '')}",
            "make room on the disk of the state, or mend it; collectors get no answer until then, and nothing is lost",
        )
    if live.get("state") == "fenced":
        yield Trouble("ANOTHER PROCESS OWNS THE JOB", "look there; this one has fallen silent and ends")


def _sinks(live: Mapping[str, Any]) -> Iterator[Trouble]:
    sinks = live.get("sinks") or {}
    if sinks.get("failing_for_s") is not None:
        yield Trouble(
            f"A SINK FAILS since {span(sinks['failing_for_s'])}: {sinks.get('last_failure', '')}",
            "mend what it writes to; rows wait in the queue meanwhile, and the job goes on by itself",
        )


def _checkpoints(live: Mapping[str, Any]) -> Iterator[Trouble]:
    figures = live.get("checkpoints") or {}
    if figures.get("failing_for_s") is not None:
        yield Trouble(
            f"CHECKPOINTS FAIL since {span(figures['failing_for_s'])}: {figures.get('last_failure', '')}",
            "nothing is confirmed until one completes: mend the disk or the sink that is named",
        )
    else:
        age, interval = figures.get("last_completed_ago_s"), figures.get("interval_s") or 0.0
        if age is not None and age > max(PATIENCE_S, LATE_INTERVALS * interval) and live.get("state") == "running":
            yield Trouble(
                f"NO CHECKPOINT for {span(age)}, and one is due every {interval:g} s",
                "see the log for what the pump waits for: mostly a sink that does not answer",
            )
    if figures.get("large_state"):
        yield Trouble(f"LARGE CHECKPOINTS: {figures['large_state']}", "", grave=False)


def _holder(job: str, source: Mapping[str, Any], where: str) -> Iterator[Trouble]:
    holder = source.get("holder")
    if not holder:
        return
    id_, state, since_s = holder["id"], holder["state"], float(holder["since_s"])
    if state in ("held", "lost", "gap"):
        yield Trouble(
            f"batch {id_} ({state}) holds the watermark since {span(since_s)}",
            "its collector has to send it" + (" again" if state != "gap" else "") + "; if it never will, give it up: "
            f"edgesocket settle {shlex.quote(job)} {id_}{in_state(where)} --reason TEXT",
        )
    elif since_s > PATIENCE_S:
        waits = "is queued, and the sinks are behind" if state == "received" else "waits for a checkpoint to complete"
        yield Trouble(f"batch {id_} {waits}, since {span(since_s)}", "", grave=False)


def _queue(source: Mapping[str, Any]) -> Iterator[Trouble]:
    queue = source.get("queue") or {}
    mark = queue.get("high_water_mark")
    if mark and queue.get("records", 0) >= mark:
        yield Trouble(
            f"QUEUE FULL: {queue['records']:,} records, and the mark is {mark:,}; collectors are answered QUEUE_FULL",
            "see why the sinks are behind; edgesocket size says which capacity fits",
        )


def _connections(source: Mapping[str, Any]) -> Iterator[Trouble]:
    listener = source.get("listener") or {}
    if listener.get("bind_problem"):
        yield Trouble(
            f"PORT {listener.get('port')} CANNOT BE BOUND: {listener['bind_problem']}",
            "free the port, or give the job another one; it is tried again",
        )
    if listener.get("auth_failed") and not listener.get("sessions"):
        yield Trouble(
            f"{counted(listener['auth_failed'], 'peer', 'peers')} came with a wrong token, and none with the right one",
            "compare the collector's token with that of the job",
        )


def _process(live: Mapping[str, Any]) -> Iterator[Trouble]:
    last_error = str(live.get("last_error") or "")
    if live.get("state") == "restarting":
        yield Trouble(f"RESTARTING after: {last_error}", "it goes on from its last checkpoint")
    elif live.get("restarts"):
        times = counted(live["restarts"], "time", "times")
        yield Trouble(f"it has started again {times}, after: {last_error}", "", grave=False)


def _refused(live: Mapping[str, Any], source: Mapping[str, Any], job_file: str) -> Iterator[Trouble]:
    letters = (live.get("sinks") or {}).get("dead_letters") or 0
    if letters:
        yield Trouble(
            f"{counted(letters, 'record was', 'records were')} refused since its start, and kept as dead letters",
            f"edgesocket dead-letters list {job_file}",
            grave=False,
        )
    decode = sum((source.get("replies") or {}).get(word, 0) for word in ("DECODE_FAILED", "DECRYPT_FAILED"))
    if decode:
        yield Trouble(
            f"{counted(decode, 'batch was', 'batches were')} answered DECODE_FAILED or DECRYPT_FAILED",
            "compare packet mode, key and schema of collector and job",
            grave=False,
        )


def counted(count: int, one: str, more: str) -> str:
    """A number and its word: `1 record was`, `2 records were`."""
    return f"{count:,} {one if count == 1 else more}"


def in_state(state: str) -> str:
    """`--state-dir` as a part of a command; empty where no place is given."""
    return f" --state-dir {shlex.quote(state)}" if state else ""


def span(seconds: float) -> str:
    """A time for people, such as `3 s`, `12 min`, `5 h`, `4 d`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} d"


def size(count: float) -> str:
    """Bytes for people, in powers of 1000."""
    units = iter(("kB", "MB", "GB", "TB", "PB"))
    value, unit = float(count), "B"
    while value >= 999.5:
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.3g} {unit}"
