"""A flag that a thread blocked in poll() can wait for."""

from __future__ import annotations

import os
import select
import threading


class Wake:
    """Raised once, never lowered. Any thread may raise it, and a signal handler too (it only writes to a pipe)."""

    def __init__(self) -> None:
        self.is_set = False
        self._closed = True
        # Re-entrant, because a signal handler may call `set` on the thread that is inside `close`.
        self._lock = threading.RLock()
        self._read, self._write = os.pipe()
        self._closed = False
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """What to register with a poller: readable for ever once the flag is raised."""
        return self._read

    def set(self) -> None:
        """Raise the flag."""
        with self._lock:
            if not self.is_set and not self._closed:
                self.is_set = True
                os.write(self._write, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is up, at most `seconds`. Returns whether it is."""
        poller = select.poll()
        poller.register(self._read, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def close(self) -> None:
        """Give the descriptors back. Nobody may be waiting any more; a later `set` does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)

    def __del__(self) -> None:
        self.close()  # a server that was made and never started
