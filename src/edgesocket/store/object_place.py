"""States in a bucket: `s3://bucket/prefix/job`. The arrival log lies in a local scratch directory.

Commit log, state blobs, beat, status and requests are objects below the prefix. docs/state.md says what that
guarantees, what it costs, and what a restart on another machine finds.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgesocket.checkpoint.entries import LOG_DIRECTORY
from edgesocket.components.state import Ownership, StateStore
from edgesocket.config.s3_settings import S3Settings
from edgesocket.errors import StoreError, UsageError
from edgesocket.store import object_owner
from edgesocket.store.bucket import Bucket, bucket, resolved
from edgesocket.store.lease import Beat
from edgesocket.store.object_owner import BEAT, ObjectOwner
from edgesocket.store.objects import ObjectStore
from edgesocket.store.scratch import ScratchDirectory, scratch_directory

STATUS = "status.json"
REQUEST = "stop-request.json"

STATUS_EVERY_S = 1.0
"""A status in which nothing but figures has changed is written this often at most: every write is paid for. Whoever
publishes one leaves out most of those in which nothing has changed, and a status must not grow old meanwhile."""
REQUEST_EVERY_S = 2.0
"""How often it is looked whether somebody asks the job to stop."""
STATUS_TIMEOUT_S = 2.0


class S3Place:
    """See Place.

    Args:
        text: `s3://bucket/prefix`.
        settings: how the bucket is reached, beyond the environment.
        clock: seconds of a steady clock.

    Raises:
        UsageError: the text names no bucket, or no prefix in it.
    """

    def __init__(self, text: str, settings: S3Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        name, self._prefix = split_bucket(text)
        if not self._prefix:
            raise UsageError(f"{text}: a state needs a prefix of its own: s3://{name}/JOB")
        self._settings = settings
        settings = resolved(settings)
        self._bucket: Bucket = bucket(name, settings)
        self._clock = clock
        self.text = f"s3://{name}/{self._prefix}"
        job = self._prefix.rpartition("/")[2]
        self.apart = ScratchDirectory(scratch_directory(job, f"{settings.endpoint} {self.text}"))
        self._lock = threading.Lock()
        self._written: tuple[str, float] = ("", float("-inf"))
        self._asked_at = float("-inf")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"S3Place({self.text!r})"

    def beside(self, suffix: str) -> S3Place:
        """See Place."""
        return S3Place(self.text + suffix, self._settings)

    @property
    def scratch(self) -> Path:
        """See Place."""
        return self.apart.directory

    def open_store(self) -> StateStore:
        """See Place."""
        return ObjectStore(self._bucket, self._prefix)

    def owner(self, job: str) -> Ownership:
        """See Place."""
        return ObjectOwner(self._bucket, self._key(BEAT), self.apart, job)

    def exists(self) -> bool:
        """See Place."""
        return self._bucket.has_any(self._key(LOG_DIRECTORY))

    def read_beat(self) -> Beat | None:
        """See Place."""
        return object_owner.read_beat(self._bucket, self._key(BEAT))

    def read_status(self) -> dict[str, Any] | None:
        """See Place."""
        return self._read_json(STATUS)

    def write_status(self, status: dict[str, Any]) -> None:
        """See Place. One that tells of nothing but newer figures is left out when the last is younger than a second."""
        kind = f"{status.get('state')} {status.get('epoch')} {'end' in status}"
        now = self._clock()
        with self._lock:
            if kind == self._written[0] and now - self._written[1] < STATUS_EVERY_S:
                return
            self._written = (kind, now)
        data = json.dumps({"time": time.time(), **status}).encode()
        try:
            self._bucket.put(self._key(STATUS), data, timeout_s=STATUS_TIMEOUT_S, try_for_s=0.0)
        except StoreError:
            return

    def ask_to_stop(self, instance: str, by: str) -> None:
        """See Place."""
        self._bucket.put(self._key(REQUEST), json.dumps({"instance": instance, "by": by}).encode())

    def asked_to_stop(self, instance: str) -> str:
        """See Place. It is really looked every two seconds."""
        now = self._clock()
        with self._lock:
            if now - self._asked_at < REQUEST_EVERY_S:
                return ""
            self._asked_at = now
        return self._asker(instance)

    def clear_request(self, instance: str) -> None:
        """See Place."""
        if self._asker(instance):
            try:
                self._bucket.delete(self._key(REQUEST))
            except StoreError:
                return

    def _asker(self, instance: str) -> str:
        request = self._read_json(REQUEST)
        if request is None or request.get("instance") != instance:
            return ""
        return str(request.get("by", ""))

    def _read_json(self, name: str) -> dict[str, Any] | None:
        try:
            found = self._bucket.get(self._key(name), timeout_s=STATUS_TIMEOUT_S, try_for_s=0.0)
            value = None if found is None else json.loads(found.data)
        except (StoreError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"


class S3Root:
    """See Root. Each job has a prefix of its name below one prefix, which may be empty.

    Args and errors: as S3Place.
    """

    def __init__(self, text: str, settings: S3Settings) -> None:
        name, self._prefix = split_bucket(text)
        self._settings = settings
        self._bucket = bucket(name, resolved(settings))
        self.text = f"s3://{name}/{self._prefix}".rstrip("/")

    def __str__(self) -> str:
        return self.text

    def place(self, name: str) -> S3Place:
        """See Root."""
        return S3Place(f"{self.text}/{name}", self._settings)

    def names(self) -> list[str]:
        """See Root."""
        found = [prefix.rpartition("/")[2] for prefix in self._bucket.prefixes(self._prefix)]
        return sorted(name for name in found if not name.startswith(".") and self.place(name).exists())


def split_bucket(text: str) -> tuple[str, str]:
    """Bucket and prefix (without slashes around it) of `s3://bucket/prefix`. Raises UsageError."""
    name, _, prefix = text.partition("://")[2].partition("/")
    if not name:
        raise UsageError(f"{text} names no bucket: s3://bucket/prefix")
    return name, "/".join(part for part in prefix.split("/") if part)
