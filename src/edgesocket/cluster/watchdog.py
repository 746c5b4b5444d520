"""A timer in the kernel that kills this process when it does not set it again: the only watchdog that a stopped or
stuck process cannot take with it.

Ray notices that a process has ended and that a node is gone, not that a process hangs. The timer goes on while the
process is stopped (SIGSTOP, a frozen control group), while it swaps, or while a library holds the interpreter's lock
for ever; SIGKILL works in all of these, and whoever started the process sees it end.

Linux only. Elsewhere there is no watchdog, and `Watchdog.armed` says so.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time

_CLOCK_MONOTONIC = 1
_SIGEV_SIGNAL = 0


class _SigEvent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("_", ctypes.c_char * 48),
    )


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


def watch_this_process(limit_s: float) -> None:
    """Have this process killed when its threads could not run for `limit_s`; makes a thread that is there for ever."""
    threading.Thread(target=_keep_feeding, args=(limit_s,), name="edgesocket-watchdog", daemon=True).start()


def _keep_feeding(limit_s: float) -> None:
    watchdog = Watchdog(limit_s)
    while watchdog.armed:
        watchdog.feed()
        time.sleep(limit_s / 10)


class Watchdog:
    """Kills this process `limit_s` after the last `feed`. One a process.

    Args:
        limit_s: seconds without a sign of life. Nothing happens before the first `feed`.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._timer: ctypes.c_void_p | None = None
        if not sys.platform.startswith("linux"):
            return
        self._libc = ctypes.CDLL(None, use_errno=True)
        timer = ctypes.c_void_p()
        event = _SigEvent(None, signal.SIGKILL, _SIGEV_SIGNAL)
        try:
            made = self._libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) == 0
        except AttributeError:  # a C library that keeps it elsewhere
            made = False
        if made:
            self._timer = timer

    @property
    def armed(self) -> bool:
        """Whether there is a timer."""
        return self._timer is not None

    def feed(self) -> None:
        """Show a sign of life: the process may live for another `limit_s`."""
        self._set(self._limit_s)

    def stop(self) -> None:
        """End it: the process is about to end in good order, however long that takes."""
        self._set(0.0)

    def _set(self, seconds: float) -> None:
        if self._timer is None:
            return
        whole = int(seconds)
        spec = _TimerSpec(_TimeSpec(0, 0), _TimeSpec(whole, int((seconds - whole) * 1e9)))
        self._libc.timer_settime(self._timer, 0, ctypes.byref(spec), None)
