"""Notes of arrivals in the state store: those that a new machine must find although the old one's disk is gone.

Where the arrival log lies apart from the state (a bucket holds the state, the log is on a local disk), a restart on
another machine has no log. For most notes that is no loss: an id above all others that is forgotten counts as lost
when a collector passes it over, and answers RESEND. The few notes for which that does not hold (the first floor, a
late id, a refusal for good: `Burst.must_sync`, which is why they are synced at once on any disk) are written into the
store as well, before their replies leave: one small file a burst, `arrivals/<epoch>-<first number>.log`, with the
bytes of a segment. With `arrival_sync_ms = 0` every burst is.

What was kept is removed once a checkpoint covers it, a few files at a time.
"""

from __future__ import annotations

import re
import threading
from collections import deque

from edgesocket.checkpoint.arrival_log import encode_header
from edgesocket.checkpoint.effects import Create, List, Read, Remove
from edgesocket.components.state import StateStore
from edgesocket.errors import StoreError

DIRECTORY = "arrivals"
REMOVALS_AT_ONCE = 50
"""Files that one call removes: the store may be far away, and the rest is for the next call."""

_NAME = re.compile(rf"{DIRECTORY}/(\d{{20}})-(\d{{20}})\.log", re.ASCII)


class StoredNotes:
    """The notes that one incarnation keeps in the store, and those it finds there. Thread-safe.

    Args:
        store: of the job's state.
        epoch: of this incarnation.
        oldest_epoch: of the checkpoint that is restored: what older incarnations noted is part of it.
    """

    def __init__(self, store: StateStore, epoch: int, oldest_epoch: int) -> None:
        self._store = store
        self._epoch = epoch
        self._oldest_epoch = oldest_epoch
        self._lock = threading.Lock()
        self._older: deque[str] = deque()
        """Files of earlier incarnations."""
        self._own: deque[tuple[int, str]] = deque()
        """The last number in each file of this incarnation, and its name."""

    def kept(self) -> list[tuple[str, bytes]]:
        """See VitalNotes."""
        found: list[tuple[str, bytes]] = []
        names: list[str] = self._store.perform(List(DIRECTORY))
        for name in sorted(names):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            with self._lock:
                self._older.append(name)
            if int(match[1]) >= self._oldest_epoch:
                data: bytes | None = self._store.perform(Read(name))
                if data is not None:
                    found.append((name.removeprefix(f"{DIRECTORY}/"), data))
        return found

    def keep(self, first_sequence: int, last_sequence: int, burst: bytes) -> None:
        """See VitalNotes."""
        name = f"{DIRECTORY}/{self._epoch:020d}-{first_sequence:020d}.log"
        data = encode_header(self._epoch, first_sequence) + burst
        if not self._store.perform(Create(name, data)) and self._store.perform(Read(name)) != data:
            raise StoreError(f"{name} holds other notes than this process has made")
        with self._lock:
            self._own.append((last_sequence, name))

    def forget_through(self, sequence: int) -> bool:
        """See VitalNotes."""
        for _ in range(REMOVALS_AT_ONCE):
            name = self._next_to_forget(sequence)
            if name is None:
                return False
            try:
                self._store.perform(Remove(name))
            except StoreError:
                with self._lock:
                    self._older.append(name)
                raise
        return True

    def _next_to_forget(self, sequence: int) -> str | None:
        with self._lock:
            if self._older:
                return self._older.popleft()
            if self._own and self._own[0][0] <= sequence:
                return self._own.popleft()[1]
        return None
