"""A process that runs jobs of a cluster: the same jobs as `edgesocket run`, told what to do by their orders.

An actor of Ray's starts this process, on a worker that fits, and starts it again when it ends; Ray makes the actor anew
when its machine is lost. All else is decided here, from what lies in the store: which jobs are its own, whether one is
to stop, when one that failed is tried again. A host does not trust Ray to have only one of it: each start takes a
number, and a process that sees a higher one ends at once. Nor does it have to: the commit log of each job is the fence.

One thread looks round once a second, one a job runs it. Nothing here imports Ray.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgesocket.cluster.after_end import Next, Outcome, next_step
from edgesocket.cluster.attempts import Attempt, Attempts, wait_s
from edgesocket.cluster.orders import Order, OrderRefusedError, Wanted, append_order, newest_order, order_after
from edgesocket.cluster.registry import Registry
from edgesocket.components.state import StateStore
from edgesocket.errors import EdgeSocketError, ExitCode, NotOwnerError

LOOK_S = 1.0
"""How often it is looked whether this process was replaced, and whether jobs live."""

ORDERS_LOOK_S = 10.0
"""How often the store is asked for new orders. Whoever orders tells the host as well; this is for when that failed."""

FENCED_GRACE_S = 3.0
"""How long a job that was fenced may take to end by itself, before the process ends."""

LET_GO_S = 90.0
"""How long a job that is moved waits for the host that ran it to let go with a last checkpoint."""

LET_GO_LOOK_S = 0.3
IDLE_S = 30.0
"""A host without a job ends after this."""


class Hosted(Protocol):
    """A job as its host sees it."""

    def run(self) -> int:
        """Run until stopped. Returns the exit code. Raises EdgeSocketError when the job failed."""

    def stop(self) -> None:
        """Ask for a graceful end; may take seconds."""

    @property
    def fenced(self) -> bool:
        """Whether another process may own the job."""

    @property
    def stuck(self) -> bool:
        """Whether its engine has not moved for so long that it hangs."""


class JobPlace(Protocol):
    """Where a job's state lies: what this needs of `store.place.Place`."""

    def open_store(self) -> StateStore:
        """Its store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Where this host runs: its name, the Ray node's id and address, the process, and where its health is asked.

    Attributes:
        follows: number of the start that this process goes on from, under the same actor; 0: there was none.
        before: pid of the process before this one, under the same actor; 0: there was none.
    """

    name: str
    node: str
    address: str
    pid: int
    http: str = ""
    follows: int = 0
    before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a host is given.

    Attributes:
        registry: of the cluster.
        place: finds a job's place by its name.
        make_job: makes the job of an order, not running yet. The flag: take it over from whoever owns it. The number:
            of this start, for its status. Raises EdgeSocketError.
        relocate: puts a job on another worker, by an order of its own, because of a reason; returns whether it did.
            May raise anything.
        end_process: ends the process at once, with an exit code; another one goes on.
        give_way: ends the process at once, and the actor above it: another process has begun as this host.
        begun: takes the number of this start.
        retire: ends the host for good: it has no job any more.
        report: takes a line for the log of a job ("" for the host's own).
        masked: a text about a job without the job's secrets.
        now: steady seconds.
        wall_ms: Unix time in ms.
    """

    registry: Registry
    place: Callable[[str], JobPlace]
    make_job: Callable[[Order, bool, int, Callable[[object], None]], Hosted]
    relocate: Callable[[Order, str], bool]
    end_process: Callable[[int], None]
    give_way: Callable[[], None]
    begun: Callable[[int], None]
    retire: Callable[[], None]
    report: Callable[[str, object], None]
    masked: Callable[[str, str], str] = lambda _job, text: text
    now: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Slot:
    """One job here. `left`: it is not this host's any more; `ended`: its thread is done."""

    order: Order
    store: StateStore
    job: Hosted | None = None
    left: threading.Event = field(default_factory=threading.Event)
    told_to_stop: bool = False
    ended: bool = False
    failures: int = 0
    fenced_since: float | None = None
    state: str = "waiting"
    last_error: str = ""


class JobHost:
    """See the module's text. Made, `run` on a thread, and never stopped: a host ends with its process."""

    def __init__(self, facts: HostFacts, surroundings: Surroundings) -> None:
        self.facts = facts
        self._around = surroundings
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._told: set[str] = set()
        self._number = 0
        self._next_orders = 0.0
        self._idle_since: float | None = None
        self._last_problem = ""

    # ---- on any thread -------------------------------------------------------------------------------------------

    def look(self, job: str) -> None:
        """There is a new order for this job, perhaps its first one here."""
        with self._lock:
            self._told.add(job)
        self._wake.set()

    def states(self) -> dict[str, dict[str, Any]]:
        """What each job here is doing, as JSON."""
        with self._lock:
            slots = dict(self._slots)
        return {
            name: {"state": slot.state, "order": slot.order.n, "error": slot.last_error} for name, slot in slots.items()
        }

    def jobs(self) -> Iterator[Hosted]:
        """The jobs that run here now."""
        with self._lock:
            found = [slot.job for slot in self._slots.values() if slot.job is not None and not slot.ended]
        yield from found

    # ---- the thread that looks round -----------------------------------------------------------------------------

    def run(self) -> None:
        """Look round for ever; returns only where another process has begun as this host."""
        self._begin()
        while self._number:
            self._wake.wait(LOOK_S)
            self._wake.clear()
            self.turn()

    def turn(self) -> None:
        """Look round once."""
        now = self._around.now()
        try:
            if self._around.registry.is_replaced(self.facts.name, self._number):
                self._give_way()
                return
            self._take_orders(now)
            self._last_problem = ""
        except EdgeSocketError as error:  # the jobs look after themselves; each of them falls silent in time
            if str(error) != self._last_problem:
                self._last_problem = str(error)
                self._around.report("", f"orders cannot be read: {error}")
        for slot in list(self._slots.values()):
            self._look_after(slot, now)
        self._retire_when_idle(now)

    def _begin(self) -> None:
        """Take a number, after a pause where this host was started too often lately."""
        around, facts = self._around, self.facts
        while not self._number:
            try:
                starts = around.registry.starts_ms(facts.name)
                pause_s = wait_s(starts, around.wall_ms())
                if pause_s:
                    around.report("", f"this host was started {len(starts)} times lately: waiting {pause_s:.0f} s")
                    self._wake.wait(pause_s)
                    self._wake.clear()
                    continue
                start = {"time_ms": around.wall_ms(), "node": facts.node, "address": facts.address, "pid": facts.pid}
                if facts.follows:
                    number = around.registry.go_on_host(facts.name, start, facts.follows, facts.before)
                else:
                    number = around.registry.begin_host(facts.name, start)
                if number is None:
                    self._give_way()
                    return
                self._number = number
                around.begun(number)
            except EdgeSocketError as error:
                around.report("", f"this host cannot begin: {error}")
                time.sleep(LOOK_S)
        self.turn()

    def _give_way(self) -> None:
        self._around.report("", "another process has begun as this host: this one ends")
        self._around.give_way()

    def _take_orders(self, now: float) -> None:
        """Find out which jobs are ours; each at its time, or when told."""
        with self._lock:
            told, self._told = self._told, set()
        if now >= self._next_orders:
            told |= set(self._around.registry.of_host(self.facts.name))
            self._next_orders = now + ORDERS_LOOK_S
        for name in sorted(told):
            try:
                self._take_order(name)
            except EdgeSocketError as error:
                self._around.report(name, f"its orders cannot be read: {error}")
                with self._lock:
                    self._told.add(name)

    def _take_order(self, name: str) -> None:
        slot = self._slots.get(name)
        if slot is None:
            store = self._around.place(name).open_store()
            order = newest_order(store)
            if order is not None and self._is_ours(order):
                self._employ(order, store)
            return
        newer = order_after(slot.store, slot.order)
        if newer is None:
            return
        if self._is_ours(newer) and slot.ended:
            self._employ(newer, slot.store)
        else:
            # Also one that is to run here again, in another form: first the old one ends.
            slot.left.set()
            if slot.ended:
                with self._lock:
                    del self._slots[name]

    def _is_ours(self, order: Order) -> bool:
        return order.wanted is Wanted.RUNNING and order.host == self.facts.name

    def _employ(self, order: Order, store: StateStore) -> None:
        slot = _Slot(order, store)
        with self._lock:
            self._slots[order.job] = slot
        self._idle_since = None
        threading.Thread(target=self._work, args=(slot,), name=f"edgesocket-{order.job}", daemon=True).start()

    def _look_after(self, slot: _Slot, now: float) -> None:
        name, job = slot.order.job, slot.job
        if slot.ended:
            if slot.left.is_set():
                with self._lock:
                    del self._slots[name]
                self.look(name)  # its newest order may be for this host again
            return
        if job is None:
            return
        if slot.left.is_set() and not slot.told_to_stop:
            slot.told_to_stop = True
            slot.state = "stopping"
            threading.Thread(target=job.stop, name="edgesocket-stop", daemon=True).start()
        if not job.fenced:
            slot.fenced_since = None
        elif slot.fenced_since is None:
            slot.fenced_since = now
        elif now - slot.fenced_since > FENCED_GRACE_S:
            self._around.report(name, "another process may own this job, and it does not end by itself")
            self._around.end_process(ExitCode.TRY_LATER)
        if job.stuck:
            self._around.report(name, "its engine hangs: this process ends, and is started again")
            self._around.end_process(ExitCode.TRY_LATER)

    def _retire_when_idle(self, now: float) -> None:
        in_doubt = bool(self._last_problem or self._told)  # a job may be ours although its orders cannot be read
        if in_doubt or any(not slot.ended for slot in self._slots.values()):
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > IDLE_S:
            self._idle_since = now
            self._around.report("", "this host has no job any more, and ends")
            try:
                self._around.retire()
            except Exception as error:  # it tries again, a while later
                self._around.report("", f"it cannot end yet: {error}")

    # ---- the thread of a job -------------------------------------------------------------------------------------

    def _work(self, slot: _Slot) -> None:
        name = slot.order.job
        try:
            while self._may_start(slot):
                outcome = self._attempt(slot)
                slot.job = None
                if not self._goes_on(slot, outcome):
                    break
        except Exception:  # a bug in one job is not the end of the others
            slot.last_error = "the host gave it up by a bug, see its log"
            self._around.report(name, f"the host gave this job up by a bug:\n{traceback.format_exc()}")
            self._say(slot.order, Wanted.FAILED, slot.last_error)
        finally:
            slot.ended = True
            self._wake.set()

    def _may_start(self, slot: _Slot) -> bool:
        """Wait until the job may be started. Returns False when it has left meanwhile."""
        attempts = Attempts(slot.store)
        while not slot.left.is_set():
            slot.state = "waiting"
            try:
                if order_after(slot.store, slot.order) is not None:
                    self.look(slot.order.job)
                    return False
                if self._around.registry.is_replaced(self.facts.name, self._number):
                    self._wake.set()  # and whoever came after us is to be seen as the last one who started it
                    return False
                pause_s = attempts.wait_s(self._around.wall_ms())
                if not pause_s:
                    attempts.note(self._this_attempt(slot.order))
                    return True
                self._around.report(slot.order.job, f"was started often lately: next try in {pause_s:.0f} s")
            except EdgeSocketError as error:
                self._around.report(slot.order.job, f"cannot be started: {error}")
                pause_s = LOOK_S
            slot.left.wait(pause_s)
        return False

    def _this_attempt(self, order: Order) -> Attempt:
        facts = self.facts
        return Attempt(
            time_ms=self._around.wall_ms(), host=facts.name, start=self._number, node=facts.node,
            address=facts.address, pid=facts.pid, order=order.n, http=facts.http,
        )  # fmt: skip

    def _attempt(self, slot: _Slot) -> Outcome:
        order = slot.order
        let_go_by = order.time_ms + LET_GO_S * 1000
        while True:
            gentle = bool(order.after) and slot.failures == 0 and self._around.wall_ms() < let_go_by
            # Whoever else runs it is a process that was lost; it is fenced by the claim. A second try is another
            # matter: it may have been somebody's wish to run the job elsewhere.
            take_over = not gentle and slot.failures == 0
            try:
                slot.state = "running"
                slot.job = self._around.make_job(
                    order, take_over, self._number, lambda event: self._around.report(order.job, event)
                )
                self.look(order.job)  # an order that came since `_may_start` counts at once
                return Outcome(code=slot.job.run())
            except NotOwnerError as error:
                slot.job = None  # nobody is to stop what has not begun
                if not gentle or slot.left.wait(LET_GO_LOOK_S):
                    return Outcome(code=error.exit_code, error=error)
            except EdgeSocketError as error:
                return Outcome(code=error.exit_code, error=error)
            except Exception as error:
                self._around.report(order.job, f"the job has ended by a bug:\n{traceback.format_exc()}")
                return Outcome(code=ExitCode.BUG, error=error)

    def _goes_on(self, slot: _Slot, outcome: Outcome) -> bool:
        """What becomes of a job that ended. Returns whether it is started again here."""
        order = slot.order
        slot.state = "ended"
        slot.last_error = "" if outcome.error is None else self._around.masked(order.job, str(outcome.error))
        if slot.left.is_set():
            return False
        slot.failures += 1
        step = next_step(outcome, slot.failures)
        if step is Next.MOVE:
            try:
                if self._around.relocate(order, slot.last_error):
                    return False
            except Exception as error:
                self._around.report(order.job, f"it cannot be moved to another worker: {error}")
            step = Next.AGAIN
        if step is Next.AGAIN:
            self._around.report(order.job, f"it is started again: {slot.last_error}")
            return True
        wanted = Wanted.STOPPED if step is Next.STOPPED else Wanted.FAILED
        self._around.report(order.job, f"{wanted}: {slot.last_error}" if slot.last_error else str(wanted))
        self._say(order, wanted, slot.last_error)
        return False

    def _say(self, order: Order, wanted: Wanted, reason: str) -> None:
        """Say in its orders how a job has ended; somebody's newer order stands."""
        facts = self.facts
        by = f"host {facts.name} (pid {facts.pid} on {facts.address})"
        store = self._around.place(order.job).open_store()
        while True:
            try:
                append_order(
                    store, order.followed_by(wanted, by=by, time_ms=self._around.wall_ms(), reason=reason[:500])
                )
                return
            except OrderRefusedError:
                return
            except EdgeSocketError as error:
                self._around.report(order.job, f"its end cannot be noted: {error}")
                time.sleep(LOOK_S)
