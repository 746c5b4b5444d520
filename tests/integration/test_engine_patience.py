"""Who waits for whom: a sign of life for nothing, and a pump that has nothing to do no longer than others need it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from edgesocket.checkpoint.commit_log import append, read_log
from edgesocket.checkpoint.entries import Settle
from edgesocket.components.source import OperatorSettlement, SourceCut
from edgesocket.components.state import Host
from edgesocket.engine.incarnation import Incarnation
from edgesocket.engine.log_watch import LOG_WATCH_S
from edgesocket.engine.plan import JobPlan
from edgesocket.errors import FencedError
from edgesocket.rows import Rows, text_schema
from edgesocket.store.local import LocalStore
from edgesocket.store.ownership import Owner
from edgesocket.testing.sinks import ListStorage
from tests.support.jobs import wait_until
from tests.support.rig import NoOwnership, Rig

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


class IdleSource(BusySource):
    """Nothing comes; the pump sleeps as long as it says, unless it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = threading.Event()
        self.fed = False
        self.longest_s = 0.0
        self.settled: list[OperatorSettlement] = []

    def open(self, context: Any, restored: Any) -> None: ...

    def tick(self) -> None: ...

    def poll(self, timeout_s: float) -> list[Any]:
        self.longest_s = max(self.longest_s, timeout_s)
        if self.woken.wait(0.1 if self.fed else timeout_s):
            self.woken.clear()
        elif self.fed:
            return [Rows.of_batch(pa.record_batch([["a row"]], schema=text_schema()))]
        return []

    def wake(self) -> None:
        self.woken.set()

    def settle(self, settlement: OperatorSettlement) -> None:
        self.settled.append(settlement)


class SleepyOwnership(NoOwnership):
    """Of a process that slept, on a disk that does not answer: its last sign of life is too old, and hangs."""

    slept = False

    def __init__(self) -> None:
        self.beating, self.let_go = threading.Event(), threading.Event()

    def beat(self) -> None:
        self.beating.set()
        self.let_go.wait(60)

    def is_overdue(self, now: float) -> bool:
        return self.slept


class Idle:
    """An incarnation that has nothing to do, on a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self.source, self.owner, self.store = IdleSource(), SleepyOwnership(), LocalStore(directory)
        plan = JobPlan("job", directory, "source", lambda: self.source, (), checkpoint_interval_s=60.0)  # type: ignore[arg-type, return-value]
        self.incarnation = Incarnation(plan, self.store, self.owner, Host("host", "boot"), print)
        self.ended: list[BaseException | bool] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_until(lambda: self.source.longest_s > 2 * PROMPT_S, what="a pump that sleeps")
        wait_until(self.owner.beating.is_set)

    def _run(self) -> None:
        try:
            self.ended.append(self.incarnation.run())
        except FencedError as error:
            self.ended.append(error)


PROMPT_S = 3.0


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Idle]:
    idle = Idle(tmp_path)
    yield idle
    idle.owner.let_go.set()
    idle.incarnation.stop()
    idle.thread.join(10)


@pytest.mark.parametrize("fed", [False, True], ids=["idle", "a row now and then"])
def test_a_job_hears_soon_what_an_operator_wrote(idle: Idle, fed: bool) -> None:
    idle.source.fed = fed
    idle.source.wake()
    time.sleep(2 * LOG_WATCH_S)
    log = idle.store.run(read_log())
    idle.store.run(append(log, Settle(0, 1, ((3, 5),), "lost", "ann")))
    wait_until(lambda: bool(idle.source.settled), timeout_s=PROMPT_S)
    idle.source.fed = False
    idle.incarnation.stop()
    idle.thread.join(10)
    assert idle.ended == [True]


def test_an_idle_job_ends_soon_when_it_may_not_be_its_owner_any_more(idle: Idle) -> None:
    idle.owner.slept = True
    wait_until(lambda: bool(idle.ended), timeout_s=PROMPT_S)
    assert isinstance(idle.ended[0], FencedError)


def test_a_source_that_may_not_answer_any_more_wakes_the_pump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, ListStorage()).start()
    began = time.monotonic()
    threading.Timer(0.1, rig.source.may_send).start()
    rig.source.poll(0.5)
    assert time.monotonic() - began >= 0.5, "it may answer, so it lets the pump sleep"

    monkeypatch.setattr(NoOwnership, "is_overdue", lambda self, now: True)
    threading.Timer(0.1, rig.source.may_send).start()
    rig.source.poll(30.0)
    assert time.monotonic() - began < 10.0


def test_an_idle_job_does_not_look_as_if_it_hung(idle: Idle) -> None:
    for _ in range(20):
        assert idle.incarnation.standstill_s < 0.5
        time.sleep(0.1)
