"""Stopping a job from another process: finding who runs it, asking it to stop, waiting for its end."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

from edgesocket.cli.output import Progress
from edgesocket.errors import EdgeSocketError, ExitCode, StoreError
from edgesocket.store.identity import host_identity
from edgesocket.store.ownership import Beat
from edgesocket.store.place import Place

FRESH_S = 5.0
"""A status older than this is not of a process that lives."""

LOOK_S = 0.1
WAIT_S = 120.0
"""How long an end is waited for: a last checkpoint may take its whole timeout."""


class NoEndError(EdgeSocketError):
    """A job does not end, or nobody who runs it answers."""

    exit_code = ExitCode.TRY_LATER


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended: the exit code for it, and the last batch that a completed checkpoint covers."""

    exit_code: int
    confirmed: int


def add_stop_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verbs that stop a job."""
    parser.add_argument("--wait", type=float, default=WAIT_S, metavar="S", help="wait so long (default: 120)")


def stop_job(name: str, place: Place, wait_s: float) -> End | None:
    """Ask whoever runs a job to stop it, and wait until it has.

    Returns:
        How it ended; None where it does not run, which is said on the error stream.

    Raises:
        NoEndError: it has not ended in time, or its owner shows no sign of life; the text says where it runs.
        StoreError: the place of the state cannot be written.
    """
    beat, status = place.read_beat(), place.read_status()
    if beat is None or beat.closed or is_dead(beat):
        print(f"edgesocket: job {name} does not run; its state is in {place.text}", file=sys.stderr)
        return None
    if status is None or "instance" not in status or time.time() - status["time"] > FRESH_S:
        raise NoEndError(
            f"job {name}: {beat.holder} owns it, and shows no sign of life; stop it there, or kill it: nothing that is "
            "confirmed is lost"
        )
    instance = str(status["instance"])
    try:
        place.ask_to_stop(instance, f"{getpass.getuser()} (pid {os.getpid()} on {host_identity().host})")
    except StoreError as error:
        raise StoreError(f"{error}; {beat.holder} owns job {name}") from error
    deadline = time.monotonic() + wait_s
    with Progress() as progress:
        while time.monotonic() < deadline:
            now = place.read_status()
            end = _end(now, instance) or _end_without_word(place.read_beat(), beat)
            if end is not None:
                return end
            progress(f"waiting for job {name} to end: {_standing(now)}")
            time.sleep(LOOK_S)
    raise NoEndError(
        f"job {name} was asked to stop and has not ended within {wait_s:g} s: {beat.holder}; it ends by itself when "
        f"its last checkpoint has completed or timed out. edgesocket status {name} says what it waits for"
    )


def end_as_json(name: str, place: Place, end: End | None) -> dict[str, Any]:
    """How a job ended, for programs. `stopped` is False where it did not run."""
    shown: dict[str, Any] = {"job": name, "state_dir": place.text, "stopped": end is not None}
    return shown if end is None else {**shown, "confirmed": end.confirmed, "exit_code": end.exit_code}


def _standing(status: dict[str, Any] | None) -> str:
    """How far a job is on its way to its end."""
    status = status or {}
    source = status.get("source") or {}
    queued = (source.get("queue") or {}).get("records", 0)
    return (
        f"{status.get('state', 'no word from it')}, {queued:,} records queued, confirmed {source.get('watermark', 0)}"
    )


def is_dead(beat: Beat) -> bool:
    """Whether the process of a beat is known to be gone: it ran on this kernel, and no process has its number."""
    if not host_identity().same_kernel(beat.boot):
        return False
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _end(status: dict[str, Any] | None, instance: str) -> End | None:
    if status is None or status.get("instance") != instance or "end" not in status:
        return None
    return End(int(status["end"]["exit_code"]), int(status["end"]["confirmed"]))


def _end_without_word(now: Beat | None, before: Beat) -> End | None:
    """The owner is gone and left no status of its end: killed meanwhile."""
    if now is not None and (now.boot, now.pid) == (before.boot, before.pid) and not is_dead(now):
        return None
    if now is not None and now.closed:
        return None  # the last status is about to come
    return End(ExitCode.TRY_LATER, 0)
