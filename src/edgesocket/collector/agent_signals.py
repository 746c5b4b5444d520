"""Signals as bytes in a descriptor, for a main thread that waits on descriptors."""

from __future__ import annotations

import signal
import threading
from types import TracebackType

from edgesocket.collector.agent_wake import Wake

STOP = frozenset({signal.SIGTERM, signal.SIGINT})
RELOAD = frozenset({signal.SIGHUP})


class Signals:
    """While it is entered, SIGTERM, SIGINT and SIGHUP do nothing but write their number into a `Wake`.

    Outside the main thread, where Python cannot take signals, they are left alone.
    """

    def __init__(self, wake: Wake) -> None:
        """Args: what is written into."""
        self._wake = wake
        self._before: dict[int, object] = {}
        self._descriptor = -1

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._descriptor = signal.set_wakeup_fd(self._wake.write_end, warn_on_full_buffer=False)
            for number in STOP | RELOAD:
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            for number, handler in self._before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            signal.set_wakeup_fd(self._descriptor)
            self._before.clear()
