"""The arrival log as the source uses it: what a burst admitted is noted before any of its replies leaves.

A note that cannot be written (the disk is full, or read-only) must not be forgotten: the records are admitted, and a
resend of them would be recognised and answered RECEIVED without a note of its own. So notes that could not be written
wait here, and nothing else is admitted before they are down: what waits is never more than one burst.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from edgesocket.checkpoint.arrival_log import Change, EventKind
from edgesocket.components.state import VitalNotes
from edgesocket.errors import StoreError
from edgesocket.ingress.service import Burst, NoteKind
from edgesocket.store.arrivals import ArrivalWriter
from edgesocket.telemetry.events import ArrivalLogFailed, ArrivalLogRecovered, ArrivalLogSynced, ArrivalLogSyncFailed


class ArrivalJournal:
    """Writes bursts, keeps what could not be written, and knows since when. Thread-safe.

    Attributes:
        failing_since: seconds of the clock at the first failure after the last success; None while all is well.
        failure: the cause of the last failure.

    Args:
        writer: the log. It must leave syncing to us: its `sync_ms` is not 0.
        sync_each: whether every burst is synced before its replies leave.
        report: told when writing begins to fail, and when it works again.
        clock: seconds of a steady clock.
        vital: keeps the notes that must outlive the directory of the log; None where that is part of the state.
    """

    def __init__(
        self,
        writer: ArrivalWriter,
        *,
        sync_each: bool,
        report: Callable[[object], None],
        clock: Callable[[], float] = time.monotonic,
        vital: VitalNotes | None = None,
    ) -> None:
        self.failing_since: float | None = None
        self.failure = ""
        self._writer = writer
        self._sync_each = sync_each
        self._report = report
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = b""
        self._sync_owed = False
        self._vital = vital
        self._to_keep: deque[tuple[int, int, bytes]] = deque()
        self._sync_fails = False

    def write(self, burst: Burst) -> None:
        """Note a burst.

        Raises:
            StoreError: it is not noted yet, so nothing of it may be answered; it waits for `catch_up`.
        """
        data = self._encode(burst)
        with self._lock:
            self._waiting = self._waiting + data if self._waiting else data
            must_last = burst.must_sync or self._sync_each
            self._sync_owed |= must_last
            if must_last and self._vital is not None:
                first = burst.first_sequence
                self._to_keep.append((first, first + len(burst.notes) - 1, data))
            self._write_down()

    def catch_up(self) -> None:
        """Write what waits. Raises StoreError while that cannot be done."""
        if self.failing_since is not None:
            with self._lock:
                self._write_down()

    def sync_if_due(self, now: float) -> None:
        """Write what waits (raises as `catch_up`), and sync what has been unsynced for long.

        A sync that fails is only reported: the notes survive this process, and the next call tries again.
        """
        self.catch_up()
        try:
            synced = self._writer.sync_if_due(now)
        except StoreError as error:
            if not self._sync_fails:
                self._report(ArrivalLogSyncFailed(str(error)))
            self._sync_fails = True
            return
        if synced and self._sync_fails:
            self._report(ArrivalLogSynced())
            self._sync_fails = False

    def rotate(self) -> None:
        """Begin a new segment with the next burst."""
        self._writer.rotate()

    def delete_through(self, sequence: int) -> None:
        """Remove segments whose events all have numbers up to `sequence`. Raises StoreError where it fails."""
        self._writer.delete_through(sequence)

    def close(self, *, clean: bool) -> None:
        """Release the files. `clean`: write and sync everything before; raises StoreError where that fails."""
        try:
            if clean:
                self.catch_up()
        except StoreError:
            self._writer.close(clean=False)
            raise
        self._writer.close(clean=clean)

    def _encode(self, burst: Burst) -> bytes:
        encoder = self._writer.bursts
        encoder.next_sequence = burst.first_sequence
        notes = burst.notes
        if len(notes) == 1 and notes[0].kind is NoteKind.ACCEPTED:
            return encoder.accepted(notes[0].first, notes[0].last)
        return encoder.burst([Change(EventKind(n.kind), n.first, n.last, n.log_index) for n in notes])

    def _write_down(self) -> None:
        try:
            if self._waiting:
                self._writer.append(self._waiting)
                self._waiting = b""
            if self._sync_owed:
                self._writer.sync()
                self._sync_owed = False
            while self._to_keep and self._vital is not None:
                self._vital.keep(*self._to_keep[0])
                self._to_keep.popleft()
        except StoreError as error:
            self.failure = str(error)
            if self.failing_since is None:
                self.failing_since = self._clock()
                self._report(ArrivalLogFailed(str(error)))
            raise
        if self.failing_since is not None:
            self._report(ArrivalLogRecovered(self._clock() - self.failing_since))
            self.failing_since = None
