"""The Ray actor that a host process is. Imported by Ray's workers; Ray itself is imported only inside.

The constructor returns at once and never fails: Ray does not start an actor again whose constructor raised, and starts
one that died in it again without any pause. All work is done by a thread of its own (`cluster.host`).
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from edgesocket.errors import ExitCode

WATCHDOG_S = 10.0
"""A process that shows no sign of life for so long is killed by the kernel, and started again by Ray."""

FEED_S = 1.0
BROKEN_PAUSE_S = 30.0
"""Between tries to begin where something is missing on this worker."""


class Running(Protocol):
    """The host inside the actor: `cluster.host.JobHost` and what belongs to it."""

    def run(self) -> None:
        """Work for ever."""

    def look(self, job: str) -> None:
        """There is a new order for this job."""

    def states(self) -> dict[str, dict[str, Any]]:
        """What each job is doing."""


class HostActor:
    """One host process.

    Args:
        root: where the states of the cluster's jobs lie, as text.
        name: of this host.
        factory: `module:function` that makes the `Running` of (root, name).
    """

    def __init__(self, root: str, name: str, factory: str) -> None:
        self._arguments = (root, name)
        self._factory = factory
        self._host: Running | None = None
        self._told: list[str] = []
        self._problem = ""
        threading.Thread(target=self._serve, name="edgesocket-host", daemon=True).start()
        threading.Thread(target=_feed_watchdog, name="edgesocket-watchdog", daemon=True).start()

    def look(self, job: str) -> int:
        """There is a new order for this job. Returns the pid."""
        if self._host is None:
            self._told.append(job)
        else:
            self._host.look(job)
        return os.getpid()

    def states(self) -> dict[str, Any]:
        """What this host and its jobs are doing, as JSON."""
        jobs = {} if self._host is None else self._host.states()
        return {"pid": os.getpid(), "problem": self._problem, "jobs": jobs}

    def _serve(self) -> None:
        while True:
            try:
                module, _, function = self._factory.partition(":")
                make: Callable[[str, str], Running] = getattr(importlib.import_module(module), function)
                self._host = make(*self._arguments)
                self._problem = ""
                for job in self._told:
                    self._host.look(job)
                self._host.run()
            except Exception as error:
                self._problem = f"{type(error).__name__}: {error}"
                text = f"host {self._arguments[1]} does not work:\n{traceback.format_exc()}"
                print(text, file=sys.stderr, flush=True)  # noqa: T201  goes to Ray's log of this process
                if self._host is not None:
                    os._exit(ExitCode.BUG)  # jobs may run: what looks after them must not be missing
            time.sleep(BROKEN_PAUSE_S)


def _feed_watchdog() -> None:
    from edgesocket.cluster.watchdog import Watchdog

    watchdog = Watchdog(WATCHDOG_S)
    while watchdog.armed:
        watchdog.feed()
        time.sleep(FEED_S)


def ancestors(pid: int) -> Iterator[list[str]]:
    """Command lines of the processes above this one, the nearest first. Linux; nothing elsewhere."""
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:  # noqa: PTH123  runs on any worker
                pid = int(stream.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/cmdline", "rb") as stream:  # noqa: PTH123
                yield stream.read().decode(errors="replace").split("\0")
        except (OSError, ValueError, IndexError):
            return


def raylet_command() -> list[str]:
    """The command line of the raylet that started this process; empty where there is none."""
    for command in ancestors(os.getpid()):
        if command and command[0].rpartition("/")[2] == "raylet":
            return command
    return []
