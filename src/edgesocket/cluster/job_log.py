"""The log of a job that runs in a host: a file of its own, so that `edgesocket logs` finds it with Ray down.

It lies in the job's local directory, which in a shared directory of states is readable from everywhere. Two files of at
most `MOST_BYTES`: the current one, and the one before.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

FILE = "job.log"
OLDER = "job.log.1"
MOST_BYTES = 1 << 20


class JobLogFile:
    """A stream that `LogLines` writes to. Thread-safe; trouble with the disk is never the job's.

    Args:
        directory: made where it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Append lines. The file is opened each time: a host may hold a hundred jobs, and lines are rare."""
        data = text.encode(errors="replace")
        with self._lock:
            path = self._directory / FILE
            try:
                self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.write(descriptor, data)
                    size = os.fstat(descriptor).st_size
                finally:
                    os.close(descriptor)
                if size > MOST_BYTES:
                    path.replace(self._directory / OLDER)
            except OSError:
                pass
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def read_log(directory: Path, lines: int) -> list[str] | None:
    """The last lines; None where there is no log here."""
    found: list[str] = []
    seen = False
    for name in (OLDER, FILE):
        try:
            found += (directory / name).read_text(encoding="utf-8", errors="replace").splitlines()
            seen = True
        except OSError:
            continue
    return found[-lines:] if seen else None
