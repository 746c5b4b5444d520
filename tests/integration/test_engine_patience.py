"""The owner's sign of life waits for nothing: not for a long restore, not for a source that is busy."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from edgesocket.components.source import SourceCut
from edgesocket.components.state import Host
from edgesocket.engine.incarnation import Incarnation
from edgesocket.engine.plan import JobPlan
from edgesocket.rows import text_schema
from edgesocket.store.local import LocalStore
from edgesocket.store.ownership import Owner
from tests.support.jobs import wait_until

LEASE_MS = 2000
LONGER_S = 2.5


class BusySource:
    """Takes longer than the lease to open, and to look after itself."""

    schema = text_schema()

    def __init__(self) -> None:
        self.started = threading.Event()
        self.let_go = threading.Event()
        self.ticking = threading.Event()

    def open(self, context: Any, restored: Any) -> None:
        time.sleep(LONGER_S)

    def start(self) -> None:
        self.started.set()

    def poll(self, timeout_s: float) -> list[Any]:
        time.sleep(0.01)
        return []

    def wake(self) -> None: ...

    def cut(self) -> SourceCut:
        return SourceCut({}, dict, 0)

    def complete(self) -> None: ...

    def abort(self) -> None: ...

    def tick(self) -> None:
        self.ticking.set()
        self.let_go.wait(30)

    def stop(self, grace_s: float) -> None: ...

    def silence(self) -> None: ...

    def close(self, *, clean: bool) -> bool:
        return clean

    def status(self) -> dict[str, Any]:
        return {}


def test_a_restore_and_a_busy_source_may_take_longer_than_the_lease(tmp_path: Path) -> None:
    source = BusySource()
    plan = JobPlan("job", tmp_path, "source", lambda: source, (), lease_ms=LEASE_MS)  # type: ignore[arg-type, return-value]
    incarnation = Incarnation(plan, LocalStore(tmp_path), Owner(tmp_path, "job"), Host("host", "boot"), print)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(incarnation.run()), daemon=True)
    thread.start()
    wait_until(source.started.is_set, what="the end of the restore")
    wait_until(source.ticking.is_set)
    time.sleep(LONGER_S)
    assert thread.is_alive(), "it still owns the job"

    source.let_go.set()
    incarnation.stop()
    thread.join(30)
    assert ended == [True]
