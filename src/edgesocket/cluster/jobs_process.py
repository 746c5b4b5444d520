"""The process of a host's jobs: `python -m edgesocket.cluster.jobs_process ...`, started by the host's actor.

It dies with the actor: by a signal of the kernel on Linux, and by the end of their link anywhere. When it hangs, a
timer in the kernel kills it. In both cases nobody has to notice anything for its listeners to be closed.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Protocol

from edgesocket.cluster.host_link import Above, Link, complain
from edgesocket.cluster.watchdog import watch_this_process
from edgesocket.errors import ExitCode

WATCHDOG_S = 10.0
"""A process that shows no sign of life for so long is killed by the kernel, and started again by its actor."""

_PR_SET_PDEATHSIG = 1


class Running(Protocol):
    """The host: `cluster.host.JobHost` and what belongs to it."""

    def run(self) -> None:
        """Work for ever."""

    def look(self, job: str) -> None:
        """There is a new order for this job."""

    def states(self) -> dict[str, dict[str, Any]]:
        """What each job is doing."""


Factory = Callable[[str, str, Above], Running]
"""Makes the host from the root of the states, its name, and the actor above it."""


def main() -> NoReturn:
    """The process."""
    args = _parser().parse_args()
    _die_with(args.parent)
    os.set_inheritable(args.fd, False)  # whatever is started here is not to keep the link open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, meant for whoever started Ray there
    link = Link(Connection(args.fd))
    above = Above(link, args.node, args.address, args.follows, args.before)
    inner = _Inner(link, above)
    threading.Thread(target=inner.listen, name="edgesocket-link", daemon=True).start()
    watch_this_process(WATCHDOG_S)
    try:
        module, _, function = args.factory.partition(":")
        make: Factory = getattr(importlib.import_module(module), function)
        inner.host = make(args.root, args.name, above)
        inner.host.run()
    except BaseException as error:
        link.send("problem", f"{type(error).__name__}: {error}")
        complain(f"host {args.name} does not work:\n{traceback.format_exc()}")
        os._exit(ExitCode.BUG)  # jobs may run: what looks after them must not be missing
    os._exit(ExitCode.TRY_LATER)


class _Inner:
    """Hears what the actor says. `host` is None until it is made: a host looks at all of its orders as it begins."""

    def __init__(self, link: Link, above: Above) -> None:
        self.host: Running | None = None
        self._link = link
        self._above = above

    def listen(self) -> None:
        """Until the actor is gone, or cannot be understood; then nothing of this process goes on."""
        try:
            while (message := self._link.receive()) is not None:
                self._hear(*message)
        finally:
            os._exit(ExitCode.TRY_LATER)

    def _hear(self, kind: str, *rest: Any) -> None:
        if kind == "answer":
            self._above.answers.take(rest[0], tuple(rest[1:]))
        elif kind == "states":
            self._link.send("states", rest[0], {} if self.host is None else self.host.states())
        elif kind == "look" and self.host is not None:
            self.host.look(rest[0])


def _die_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends. Linux; elsewhere the end of the link does it."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        os._exit(ExitCode.TRY_LATER)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edgesocket.cluster.jobs_process", description=__doc__)
    parser.add_argument("--factory", required=True, help="module:function that makes the host")
    parser.add_argument("--root", required=True, help="where the states lie")
    parser.add_argument("--name", required=True, help="of the host")
    parser.add_argument("--node", required=True, help="id of the Ray node")
    parser.add_argument("--address", required=True, help="of the Ray node")
    parser.add_argument("--fd", required=True, type=int, help="the link to the actor")
    parser.add_argument("--parent", required=True, type=int, help="pid of the actor")
    parser.add_argument("--follows", required=True, type=int, help="number of the start before this one, or 0")
    parser.add_argument("--before", required=True, type=int, help="pid of the process before this one, or 0")
    return parser


if __name__ == "__main__":
    main()
