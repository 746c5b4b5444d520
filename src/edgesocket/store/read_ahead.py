"""Reads many small objects at once, for a reader that asks for them one after the other.

A commit log is read entry by entry, in the order of its listing. Over a network that is a round trip an entry, and a
log of an hour has hundreds. So the first read of a listed name fetches those behind it too, some at a time.

What is served was read after the listing and at most `LIFETIME_S` ago, and once: to the reader it is a read that
happened a little earlier. Files of a store never change; one that was missing is not remembered, but looked for again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from edgesocket.errors import StoreError

BATCH = 64
AT_ONCE = 16
FEWEST = 4
"""With fewer names to come it is not worth it."""
LIFETIME_S = 10.0


class ReadAhead:
    """Thread-safe.

    Args:
        read: reads one file; None where there is none; raises StoreError.
        clock: seconds of a steady clock.
    """

    def __init__(self, read: Callable[[str], bytes | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._position: dict[str, int] = {}
        self._names: Sequence[str] = ()
        self._fetched: dict[str, bytes] = {}
        self._good_until = 0.0

    def listed(self, names: Sequence[str]) -> None:
        """These files were just listed, and may be read in this order. What was fetched before is forgotten."""
        with self._lock:
            self._names = names if len(names) >= FEWEST else ()
            self._position = {name: index for index, name in enumerate(self._names)}
            self._fetched = {}

    def read(self, name: str) -> bytes | None:
        """The file, as `read` gives it. Raises StoreError."""
        with self._lock:
            if self._clock() > self._good_until:
                self._fetched = {}
            found = self._fetched.pop(name, None)
            start = self._position.pop(name, None)
            batch = () if start is None else self._names[start : start + BATCH]
            names = self._names
        if found is not None:
            return found
        if len(batch) < FEWEST:
            return self._read(name)
        self._fetch(batch[1:], names)
        return self._read(name)

    def _fetch(self, names: Sequence[str], listing: Sequence[str]) -> None:
        began = self._clock()
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="edgesocket-read") as threads:
            found = list(threads.map(self._try, names))
        with self._lock:
            if self._names is not listing:
                return  # it was listed again meanwhile
            self._fetched.update({name: data for name, data in zip(names, found, strict=True) if data is not None})
            self._good_until = began + LIFETIME_S

    def _try(self, name: str) -> bytes | None:
        try:
            return self._read(name)
        except StoreError:
            return None  # whoever really needs it gets the error
