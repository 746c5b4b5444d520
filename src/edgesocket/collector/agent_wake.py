"""Waking a thread that waits on descriptors, from another thread or a signal handler."""

from __future__ import annotations

import os


class Wake:
    """A descriptor that becomes readable when somebody calls `set`; many calls before a `clear` are one."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    def fileno(self) -> int:
        """To wait on."""
        return self._read_end

    @property
    def write_end(self) -> int:
        """For `signal.set_wakeup_fd`."""
        return self._write_end

    def set(self) -> None:
        """Make it readable. Never blocks, safe in any thread."""
        try:
            os.write(self._write_end, b"\0")
        except BlockingIOError:
            pass  # it is readable already

    def clear(self) -> bytes:
        """Make it unreadable; returns the bytes that were in it (numbers of signals, as the interpreter writes)."""
        found = b""
        while True:
            try:
                piece = os.read(self._read_end, 4096)
            except BlockingIOError:
                return found
            found += piece
            if len(piece) < 4096:
                return found

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read_end)
        os.close(self._write_end)
