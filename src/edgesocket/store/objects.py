"""The state store in a bucket: one object a file, made by a conditional write.

`Create` is a PUT with `If-None-Match: *`: of several writers exactly one makes an object, and it is there whole. What
this asks of the service:

- that conditional write. Amazon S3 has it since 2024, others since about then; a service that ignores the header is
  found out before anything is made;
- read and list after write: what was written is in every later read and listing (Amazon S3 since 2020);
- durability of what was answered with success.

An answer that was lost leaves it open whether the object was made. Each `Create` carries a token of its own as
metadata, so the repeat that finds the name taken looks whose it is. A request that is still on its way when this side
has given up may yet land much later: that is the sleeping writer of checkpoint/commit_log.py, against whom the log
defends itself.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeVar

from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.effects import Create, List, Procedure, Read, Remove, StoreEffect
from edgesocket.errors import StoreError
from edgesocket.store.bucket import BULK_TIMEOUT_S, TIMEOUT_S, Bucket, RefusedError
from edgesocket.store.read_ahead import ReadAhead

T = TypeVar("T")

LISTING_LIMIT_S = 30.0
"""A listing that took longer is done again: see commit_log.py, "what this asks of a store". The log keeps its entries
for far longer than this, and a listing of a day's entries takes some ten requests."""
_LISTINGS = 3

PROBE = "conditional-writes"
"""An object that is created twice when a store is opened: the second time must be refused."""

BULK_DIRECTORY = "state"
"""Directory of the files that may be big."""


class ObjectStore:
    """Performs the store's effects on the objects below one prefix. Thread-safe.

    Guarantees: `Create` is exclusive among all writers of the bucket, and durable when it returns. `Remove` is durable.
    Nothing is cached, but see ReadAhead. Each effect is tried again for a while (see bucket.py) before it raises.

    Args:
        bucket: where the objects are.
        prefix: what their keys begin with, without a slash at the end; empty: nothing.
        clock: seconds of a steady clock.
    """

    def __init__(self, bucket: Bucket, prefix: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._clock = clock
        self._lock = threading.Lock()
        self._is_checked = False
        self._ahead = ReadAhead(self._read)

    def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure of store effects to its end and return its result."""
        return drive(procedure, self.perform)

    def perform(self, effect: StoreEffect) -> bool | bytes | list[str] | None:
        """Do one effect.

        Returns:
            Create: whether it was made. Read: the bytes, or None. List: names as Read takes them. Remove: None.

        Raises:
            StoreError: the service failed. After Create it is unknown whether the object is there.
        """
        match effect:
            case Create(name, data):
                self._check_conditional_writes()
                return self._bucket.create(self._key(name), data, secrets.token_hex(16))
            case Read(name):
                return self._ahead.read(name)
            case List(prefix):
                names = self._list(prefix)
                self._ahead.listed([] if prefix == BULK_DIRECTORY else names)
                return names
            case Remove(name):
                self._bucket.delete(self._key(name))
                return None
        raise TypeError(f"a store does not perform {effect!r}")

    def _read(self, name: str) -> bytes | None:
        timeout_s = BULK_TIMEOUT_S if name.startswith(f"{BULK_DIRECTORY}/") else TIMEOUT_S
        found = self._bucket.get(self._key(name), timeout_s=timeout_s)
        return None if found is None else found.data

    def _list(self, directory: str) -> list[str]:
        key = self._key(directory)
        for _ in range(_LISTINGS):
            started = self._clock()
            keys = self._bucket.keys(key)
            if self._clock() - started <= LISTING_LIMIT_S:
                return [name for name in map(self._name, keys) if not PurePosixPath(name).name.startswith(".")]
        raise StoreError(f"s3://{self._bucket.name}/{key}: listing it takes longer than {LISTING_LIMIT_S:g} s")

    def _check_conditional_writes(self) -> None:
        """Make sure, before the first create, that the service refuses a second one.

        Raises:
            RefusedError: it does not: two processes could both believe that they own the job.
        """
        with self._lock:
            if self._is_checked:
                return
            key = self._key(PROBE)
            self._bucket.create(key, b"\n", secrets.token_hex(16))
            if self._bucket.create(key, b"\n", secrets.token_hex(16)):
                raise RefusedError(
                    f"s3://{self._bucket.name}/{key} could be created twice: this service does not honour "
                    "If-None-Match, and without it two processes could both believe that they own the job; keep the "
                    "state elsewhere"
                )
            self._is_checked = True

    def _key(self, name: str) -> str:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise ValueError(f"{name!r} is not a name inside the store")
        return "/".join(part for part in (self._prefix, str(relative) if name else "") if part)

    def _name(self, key: str) -> str:
        return key[len(self._prefix) + 1 :] if self._prefix else key
