"""What the whole cluster knows: which jobs there are, which use a port, which belong to a host process.

Small files below `.cluster` in the root of the states, each made once. They only say where to look; what is true stands
in the orders. So one that is too many does no harm, and each is made before the order that it leads to. Those of a port
or of a host are found by one listing, however many jobs there are.

Beside them: each start of a host process takes the next number by exclusive creation, so that one which was replaced
while it was cut off sees that by itself.
"""

from __future__ import annotations

import json

from edgesocket.checkpoint.effects import Create, List, Read
from edgesocket.components.state import StateStore
from edgesocket.errors import ConfigError, ConfigProblem, StoreError

REGISTRY = ".cluster"
"""The place of it in the root; so no job's name may begin with a dot."""

_DIGITS = 20
_MOST_TRIES = 1000


def check_cluster_name(name: str, path: str, location: str = "") -> None:
    """See that a job or host may be called so in a cluster. Raises ConfigError."""
    if name.startswith(".") or "/" in name or not name:
        message = f"{name!r} cannot be a name in a cluster: it is empty, begins with a dot, or holds a slash"
        raise ConfigError([ConfigProblem(path, message, "choose another name", location)])


class Registry:
    """See the module's text.

    Args:
        store: of the place `.cluster`. Everything raises StoreError when it fails.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def note(self, job: str, port: int, host: str) -> None:
        """Before a job is ordered to run: say where it will have to be looked for."""
        for name in (f"jobs/{job}", f"ports/{port}/{job}", f"hosts/{host}/jobs/{job}"):
            self._store.perform(Create(f"{name}.json", b"{}"))

    def jobs(self) -> list[str]:
        """Every job that was ever submitted."""
        return self._names("jobs")

    def on_port(self, port: int) -> list[str]:
        """Every job that was ever submitted with this port."""
        return self._names(f"ports/{port}")

    def of_host(self, host: str) -> list[str]:
        """Every job that was ever given to this host."""
        return self._names(f"hosts/{host}/jobs")

    def begin_host(self, host: str, facts: dict[str, object]) -> int:
        """A process begins as this host: take the next number, which says that all before it are replaced."""
        prefix = f"hosts/{host}/starts"
        data = json.dumps(facts).encode()
        number = max(map(int, self._names(prefix)), default=0)
        for _ in range(_MOST_TRIES):
            number += 1
            if self._store.perform(Create(f"{prefix}/{number:0{_DIGITS}}.json", data)):
                return number
        raise StoreError(f"host {host}: no number could be taken for this start")

    def go_on_host(self, host: str, facts: dict[str, object], after: int, before: int = 0) -> int | None:
        """As `begin_host`, for a process that goes on where the start `after` of this host ended.

        Args:
            host, facts: see `begin_host`; `facts` have the `node` and the `pid`.
            after: number of that start.
            before: pid of the process before this one: it may have taken a number and ended before it could say so.

        Returns:
            None where another process has begun as this host since, so that this one is not to.
        """
        for number in range(after + 1, after + 1 + _MOST_TRIES):
            name = f"hosts/{host}/starts/{number:0{_DIGITS}}.json"
            if self._store.perform(Create(name, json.dumps(facts).encode())):
                return number
            there = _facts(self._store.perform(Read(name)))
            if there.get("node") != facts["node"]:
                return None
            if there.get("pid") == facts["pid"]:  # ours, from a try of which nobody could tell how it ended
                return number
            if not before or there.get("pid") != before:
                return None
        return None

    def starts_ms(self, host: str, newest: int = 16) -> list[int]:
        """When this host was started, the newest times: Unix time in ms."""
        found = []
        for number in sorted(self._names(f"hosts/{host}/starts"))[-newest:]:
            data = self._store.perform(Read(f"hosts/{host}/starts/{number}.json"))
            try:
                found.append(int(json.loads(data or b"{}")["time_ms"]))
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def is_replaced(self, host: str, number: int) -> bool:
        """Whether another process began as this host after the start `number`. One small read."""
        return self._store.perform(Read(f"hosts/{host}/starts/{number + 1:0{_DIGITS}}.json")) is not None

    def host_start(self, host: str) -> tuple[int, dict[str, object]] | None:
        """Number and facts of the newest start of this host; None: it has never run."""
        names = self._names(f"hosts/{host}/starts")
        if not names:
            return None
        data = self._store.perform(Read(f"hosts/{host}/starts/{max(names)}.json"))
        return int(max(names)), _facts(data)

    def remember(self, kind: str, name: str, facts: dict[str, object]) -> None:
        """Keep something that never changes, such as what a node was started with."""
        self._store.perform(Create(f"{kind}/{name}.json", json.dumps(facts).encode()))

    def recall(self, kind: str, name: str) -> dict[str, object] | None:
        """What `remember` kept, or None."""
        data = self._store.perform(Read(f"{kind}/{name}.json"))
        try:
            facts = json.loads(data) if data else None
        except ValueError:
            return None
        return facts if isinstance(facts, dict) else None

    def _names(self, prefix: str) -> list[str]:
        found: list[str] = self._store.perform(List(prefix))
        start = len(prefix) + 1
        return [name[start:].removesuffix(".json") for name in found if name.endswith(".json")]


def _facts(data: bytes | None) -> dict[str, object]:
    try:
        facts = json.loads(data or b"{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
