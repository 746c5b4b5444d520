"""Who runs a job whose state is in a bucket: a beat object and a lease; the lock lies in the local scratch directory.

There is no lock across machines. A starter that finds a beat which has not been closed watches it for the lease, on its
own monotonic clock: unchanged for so long, its writer is dead, or overdue by its own clock and silent. Only on the same
machine, with the same scratch directory, the lock says at once that the writer is dead: it held the very lock file that
the starter holds now. The rules are in lease.py; the fence is the commit log, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from edgesocket.store.bucket import Bucket
from edgesocket.store.identity import HostIdentity
from edgesocket.store.lease import Beat, LeasedOwner, encode_beat, parse_beat, wall_clock_ms
from edgesocket.store.scratch import ScratchDirectory

BEAT = "beat"
BEAT_TIMEOUT_S = 1.0
"""One try to read or to write the beat: a lease has room for some."""
BEAT_TRY_FOR_S = 0.6


class ObjectOwner(LeasedOwner):
    """One process's hold on a job; see LeasedOwner.

    Args:
        bucket, key: of the beat.
        scratch: the local directory; its lock is taken when it is free.
        job, host, pid, wall_ms: see LeasedOwner.
    """

    looks_a_lease = 10

    def __init__(
        self,
        bucket: Bucket,
        key: str,
        scratch: ScratchDirectory,
        job: str,
        *,
        host: HostIdentity | None = None,
        pid: int | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        super().__init__(job, host=host, pid=pid, wall_ms=wall_ms)
        self._bucket = bucket
        self._key = key
        self._scratch = scratch

    @property
    def has_lock(self) -> bool:
        """Whether the lock of the scratch directory is held."""
        return self._scratch.locked

    def _lock_id(self) -> str:
        return self._scratch.word

    def _held_this_lock(self, last: Beat) -> bool:
        return self._host.same_kernel(last.boot) and bool(last.lock) and last.lock == self._scratch.word_before

    def _read(self) -> bytes | None:
        found = self._bucket.get(self._key, timeout_s=BEAT_TIMEOUT_S, try_for_s=BEAT_TRY_FOR_S)
        return None if found is None else found.data

    def _write(self, beat: Beat) -> None:
        data = encode_beat(beat)
        self._bucket.put(self._key, data, timeout_s=BEAT_TIMEOUT_S, try_for_s=BEAT_TRY_FOR_S)

    def _try_lock(self) -> None:
        self._scratch.try_lock()

    def _unlock(self) -> None:
        self._scratch.unlock()


def read_beat(bucket: Bucket, key: str) -> Beat | None:
    """The newest beat; None where there is none, or no readable one. Raises StoreError."""
    found = bucket.get(key)
    return None if found is None else parse_beat(found.data)
