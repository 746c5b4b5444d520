"""Keys of a terminal, one by one."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType

ESCAPE_S = 0.05
"""An escape that is followed by nothing for so long is the key Esc, and not the begin of another one."""

_NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1bOH": "home",
    b"\x1b[F": "end",
    b"\x1b[4~": "end",
    b"\x1bOF": "end",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x1b": "escape",
    b"\x03": "q",
    b"\x04": "q",
}


class Keys:
    """Reads keys while the terminal gives them at once and shows none. A context manager; the terminal is put back."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._before: list[object] | None = None
        self._waiting = b""

    def __enter__(self) -> Keys:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def next(self, timeout_s: float) -> str:
        """The next key: its letter, or a name such as `up`. Empty: none came in time; `q`: the terminal is gone."""
        if not self._waiting and not self._fill(timeout_s):
            return ""
        if self._waiting == b"\x1b":
            self._fill(ESCAPE_S)
        return self._take()

    def _fill(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        if not ready:
            return False
        try:
            found = os.read(self._descriptor, 256)
        except OSError:
            found = b""
        self._waiting += found or b"q"
        return True

    def _take(self) -> str:
        key, self._waiting = split_key(self._waiting)
        return key


def split_key(read: bytes) -> tuple[str, bytes]:
    """The first key of what was read, empty for one without a name, and the rest. `read` is not empty."""
    for code in sorted(_NAMES, key=len, reverse=True):
        if read.startswith(code) and (code != b"\x1b" or len(read) == 1 or read[1:2] not in b"[O"):
            return _NAMES[code], read[len(code) :]
    if read.startswith(b"\x1b"):  # a key that has no name here: an escape, a letter, figures, a letter
        end = 2
        while end < len(read) and not (read[end : end + 1].isalpha() or read[end : end + 1] == b"~"):
            end += 1
        return "", read[end + 1 :]
    for length in range(1, 5):
        try:
            letter = read[:length].decode()
        except UnicodeDecodeError:
            continue
        return (letter if letter.isprintable() else ""), read[length:]
    return "", read[1:]
