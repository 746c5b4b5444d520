"""An application that writes numbered lines into a log file: in pieces, at a changing pace, with rotations."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from chaos.counting import line_of

_TICK_S = 0.01
_ROTATE_BYTES = 1 << 20
_KEEP_FILES = 3


class Writer:
    """Writes into `directory`/app.log on a thread of its own, from `start` to `end`.

    Args:
        rate: lines a second, asked again and again with the seconds since the start.
        dice: where lines are cut into two writes.
        confirmed: how many lines are confirmed: older files without others are removed. None keeps all.

    Attributes:
        lines: whole lines written so far, numbered from 0.
    """

    def __init__(
        self,
        directory: Path,
        rate: Callable[[float], float],
        dice: random.Random,
        *,
        confirmed: Callable[[], int] | None = None,
    ) -> None:
        self.lines = 0
        self._directory, self._rate, self._dice, self._confirmed = directory, rate, dice, confirmed
        self._rotated: deque[tuple[Path, int]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="writer")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Finish the last line. May be called again."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        path = self._directory / "app.log"
        stream, size, rotation = path.open("ab", buffering=0), 0, 0
        began = last = time.monotonic()
        owed = 0.0
        while not self._stop.wait(_TICK_S):
            now = time.monotonic()
            owed += self._rate(now - began) * (now - last)
            last = now
            count, owed = int(owed), owed % 1.0
            if not count:
                continue
            data = b"".join(line_of(self.lines + n).encode() + b"\n" for n in range(count))
            cut = self._dice.randrange(len(data))
            stream.write(data[:cut])
            stream.write(data[cut:])
            self.lines += count
            size += len(data)
            if size > _ROTATE_BYTES:
                stream.close()
                rotation += 1
                aside = path.with_name(f"app.log.{rotation}")
                path.rename(aside)
                self._rotated.append((aside, self.lines))
                self._forget()
                stream, size = path.open("ab", buffering=0), 0
        stream.close()

    def _forget(self) -> None:
        while self._confirmed is not None and len(self._rotated) > _KEEP_FILES:
            path, upto = self._rotated[0]
            if self._confirmed() < upto:
                return
            path.unlink()
            self._rotated.popleft()
