"""`edgesocket run`, with a signal built in: `python -m tests.support.killable_run SIGKILL POINT NTH run JOB ...`.

POINT is a fault point of the store (`create.half-written`), of the arrival log (`arrivals.written`), or `before X` /
`after X` where X is an effect of the checkpoint procedure (`PrepareSinks`); a point of the store may be narrowed by a
part of the file's name (`create.synced:log/`). The process sends itself the signal (SIGKILL, or SIGSTOP to fall
asleep) when the point is reached the NTH time; with HANG in its place only the thread that got there sleeps, as on a
disk that does not answer. Everything else is the real command.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from typing import Any

from edgesocket.cli.main import main
from edgesocket.engine.incarnation import Incarnation
from edgesocket.sources import edge_socket
from edgesocket.store import directory
from edgesocket.store.arrivals import ArrivalWriter
from edgesocket.store.local import LocalStore

HANG = "HANG"


class KillAt:
    """Signals the own process when a point is reached for the nth time; without a signal the thread hangs."""

    def __init__(self, number: signal.Signals | None, point: str, nth: int) -> None:
        self._number = number
        self._point, _, self._name = point.partition(":")
        self._left = nth
        self._lock = threading.Lock()

    def __call__(self, reached: str) -> None:
        """A fault point, perhaps followed by a blank and a file's name, was reached."""
        point, name = (reached, "") if reached.startswith(("before ", "after ")) else reached.split(" ", 1)
        if point != self._point or self._name not in name:
            return
        with self._lock:
            self._left -= 1
            if self._left:
                return
        if self._number is None:
            time.sleep(3600)
        else:
            os.kill(os.getpid(), self._number)


def install(fault: KillAt) -> None:
    """Put the fault into everything that has points."""
    directory.LocalStore = partial(LocalStore, fault=fault)  # type: ignore[misc]
    edge_socket.ArrivalWriter = partial(ArrivalWriter, fault=fault)  # type: ignore[misc]
    perform = Incarnation._perform

    def perform_with_fault(self: Incarnation, effect: Any) -> Any:
        name = type(effect).__name__
        fault(f"before {name}")
        result = perform(self, effect)
        fault(f"after {name}")
        return result

    Incarnation._perform = perform_with_fault  # type: ignore[method-assign]


if __name__ == "__main__":
    number = None if sys.argv[1] == HANG else signal.Signals[sys.argv[1]]
    install(KillAt(number, sys.argv[2], int(sys.argv[3])))
    sys.exit(main(sys.argv[4:]))
