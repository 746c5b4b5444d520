"""A bucket in memory: what `store.bucket.Bucket` offers, without a server."""

from __future__ import annotations

from edgesocket.errors import StoreError
from edgesocket.store.bucket import Found


class FakeBucket:
    """Objects by key.

    Attributes:
        away: every request fails.
        writes: keys that were written, in order.
    """

    name = "states"

    def __init__(self) -> None:
        self.objects: dict[str, Found] = {}
        self.away = False
        self.writes: list[str] = []

    def create(self, key: str, data: bytes, token: str) -> bool:
        self._reach()
        if key in self.objects:
            return False
        self.objects[key] = Found(data, token)
        return True

    def put(self, key: str, data: bytes, *, timeout_s: float = 0.0, try_for_s: float = 0.0) -> None:
        self._reach()
        self.writes.append(key)
        self.objects[key] = Found(data, "")

    def get(self, key: str, *, timeout_s: float = 0.0, try_for_s: float = 0.0) -> Found | None:
        self._reach()
        return self.objects.get(key)

    def delete(self, key: str) -> None:
        self._reach()
        self.objects.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        self._reach()
        return sorted(key for key in self.objects if key.rpartition("/")[0] == prefix)

    def prefixes(self, prefix: str) -> list[str]:
        self._reach()
        start = f"{prefix}/" if prefix else ""
        below = [key[len(start) :] for key in self.objects if key.startswith(start)]
        return sorted({start + rest.partition("/")[0] for rest in below if "/" in rest})

    def has_any(self, prefix: str) -> bool:
        self._reach()
        return any(key.startswith(f"{prefix}/") for key in self.objects)

    def _reach(self) -> None:
        if self.away:
            raise StoreError("away")
