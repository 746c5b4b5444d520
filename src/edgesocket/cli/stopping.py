"""Stopping a job from another process: finding who runs it, asking it to stop, waiting for its end."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgesocket.cli.status_file import read_status
from edgesocket.cli.stop_request import ask_to_stop
from edgesocket.errors import EdgeSocketError, ExitCode, StoreError
from edgesocket.store.identity import host_identity
from edgesocket.store.ownership import Beat, read_beat

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


def stop_job(name: str, state_dir: Path, wait_s: float) -> End | None:
    """Ask whoever runs a job to stop it, and wait until it has.

    Returns:
        How it ended; None where it does not run, which is said on the error stream.

    Raises:
        NoEndError: it has not ended in time, or its owner shows no sign of life; the text says where it runs.
        StoreError: the state directory cannot be written.
    """
    beat, status = read_beat(state_dir), read_status(state_dir)
    if beat is None or beat.closed or is_dead(beat):
        print(f"job {name} does not run; its state is in {state_dir}", file=sys.stderr)
        return None
    if status is None or "instance" not in status or time.time() - status["time"] > FRESH_S:
        raise NoEndError(f"job {name}: {beat.holder} owns it, and shows no sign of life; stop it there")
    instance = str(status["instance"])
    try:
        ask_to_stop(state_dir, instance, f"{getpass.getuser()} (pid {os.getpid()} on {host_identity().host})")
    except OSError as error:
        raise StoreError(f"{state_dir}: {error.strerror or error}; {beat.holder} owns job {name}") from error
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        end = _end(read_status(state_dir), instance) or _end_without_word(read_beat(state_dir), beat)
        if end is not None:
            return end
        time.sleep(LOOK_S)
    raise NoEndError(f"job {name} was asked to stop and has not ended within {wait_s:g} s: {beat.holder}")


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
