"""Lines from files and pipes, read only when they are wanted.

Nothing is read ahead beyond the piece asked for, and a line that is too long is never held: so a slow ingress makes the
writer of the pipe wait, and memory does not depend on what comes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from edgesocket.errors import UsageError
from edgesocket.protocol.lines import LineSplitter, Overlong

STDIN = "-"
_STDIN_DESCRIPTOR = 0


class LineInput:
    """The lines of several files, one after the other, as bytes without their line ends (LF or CR LF).

    A last line without a line end counts; it does not join with the next file.
    """

    def __init__(self, names: Sequence[str], max_line_bytes: int, read_bytes: int) -> None:
        """Get ready; a file is opened when its turn comes.

        Args:
            names: file names; `-` is the standard input.
            max_line_bytes: longer lines are skipped.
            read_bytes: how much is read at a time.

        Raises:
            UsageError: a file is not there or cannot be read.
        """
        self._names = deque(names)
        self._max_line_bytes = max_line_bytes
        self._read_bytes = read_bytes
        for name in names:
            if name != STDIN and (Path(name).is_dir() or not os.access(name, os.R_OK)):
                raise UsageError(f"cannot read {name}")
        self._name = ""
        self._descriptor: int | None = None
        self._splitter = LineSplitter(max_line_bytes)
        self._in_line = False
        self.line_number = 0
        """Lines of the current file so far, skipped ones included."""
        self.skipped: list[str] = []
        """`name:line` of lines that were too long, for the caller to take."""
        self._open_next()

    @property
    def ended(self) -> bool:
        """Whether everything has been read."""
        return self._descriptor is None

    def fileno(self) -> int:
        """The descriptor of the current file, to wait on. Not after the end."""
        assert self._descriptor is not None
        return self._descriptor

    def read(self) -> list[bytes]:
        """Read one piece of the current file and return the lines it completes; blocks while there is nothing.

        Raises:
            UsageError: the file cannot be read.
        """
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, self._read_bytes)
        except OSError as problem:
            raise UsageError(f"cannot read {self._name}: {problem.strerror}") from None
        if data:
            self._in_line = not data.endswith(b"\n")
            return self._lines(data)
        lines = self._lines(b"\n") if self._in_line else []
        self.close()
        self._open_next()
        return lines

    def close(self) -> None:
        """Close the current file; nothing more is read from it."""
        if self._descriptor is not None and self._descriptor != _STDIN_DESCRIPTOR:
            os.close(self._descriptor)
        self._descriptor = None

    def _lines(self, data: bytes) -> list[bytes]:
        lines: list[bytes] = []
        for line in self._splitter.feed(data):
            self.line_number += 1
            if isinstance(line, Overlong):
                self.skipped.append(f"{self._name}:{self.line_number}")
            else:
                lines.append(line)
        return lines

    def _open_next(self) -> None:
        if not self._names:
            return
        name = self._names.popleft()
        self._splitter = LineSplitter(self._max_line_bytes)
        self._in_line = False
        self.line_number = 0
        if name == STDIN:
            self._name, self._descriptor = "stdin", _STDIN_DESCRIPTOR
            return
        self._name = name
        try:
            self._descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as problem:
            raise UsageError(f"cannot read {name}: {problem.strerror}") from None
