"""Wakes the intake thread when something happens in a directory, where the package `watchfiles` is installed.

Only a wake-up: what has happened is found by looking. Without the package, on a network file system, or where the
system has no watches left, looking at intervals finds the same a little later.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

_STEP_MS = 50
_TURN_MS = 2_000
"""How long the thread may take to notice that it is to end."""


class FileWatch:
    """A thread that waits for the system, and a descriptor that becomes readable when there is news."""

    def __init__(self, directories: Sequence[str], report: Callable[[str], object]) -> None:
        """Begin to watch the directories (not what lies below them).

        Raises:
            ImportError: the package is not installed.
        """
        from watchfiles import watch

        self._watch = watch
        self._directories = list(directories)
        self._report = report
        self._ended = threading.Event()
        self.descriptor, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="file-watch", daemon=True)
        self._thread.start()

    def taken(self) -> bool:
        """Whether there was news since the last call."""
        try:
            return bool(os.read(self.descriptor, 4096))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()
        os.close(self.descriptor)
        os.close(self._write)

    def _run(self) -> None:
        try:
            changes = self._watch(
                *self._directories,
                watch_filter=None,
                debounce=_STEP_MS,
                step=_STEP_MS,
                rust_timeout=_TURN_MS,
                yield_on_timeout=True,
                stop_event=self._ended,
                recursive=False,
                raise_interrupt=False,
            )
            for change in changes:
                if self._ended.is_set():
                    return
                if change:
                    self._wake()
        except (OSError, RuntimeError) as problem:
            self._report(f"the system does not tell of changed files ({problem}): they are looked at in intervals")

    def _wake(self) -> None:
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            pass  # it is awake
