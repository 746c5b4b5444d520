"""An operator who looks at what holds the watermark, and settles what no collector can send any more."""

from __future__ import annotations

from edgesocket.checkpoint.commit_log import append, read_log
from edgesocket.checkpoint.effects import Procedure
from edgesocket.checkpoint.entries import Settle
from edgesocket.engine.performing import ProcedureRun
from edgesocket.errors import EdgeSocketError
from edgesocket.ids import IdRange, IdRanges
from edgesocket.ingress.batch_states import BatchState, GapRule
from edgesocket.ingress.ledger import Ledger
from edgesocket.store.local import LocalStore
from edgesocket.testing.simulator.executor import SimulatedExecutor
from edgesocket.testing.simulator.loop import Actor
from edgesocket.testing.simulator.surroundings import EPOCH_MS, STATE, Surroundings
from edgesocket.testing.simulator.system_calls import DiskPath

_IN_THE_WAY = {BatchState.HELD, BatchState.LOST}


class Settlement(Actor):
    """One `edgesocket settle`: a process beside the job, with its own view of the log.

    Args:
        ids: first and last id; empty: nothing is missing after the unclean end.
    """

    def __init__(self, around: Surroundings, ids: tuple[IdRange, ...]) -> None:
        super().__init__("operator")
        self._around = around
        self._ids = ids
        self._loop = around.loop
        self._loop.after(0.0, self._begin, self)

    def _begin(self) -> None:
        try:
            store = LocalStore(DiskPath(self._around.disk, STATE))  # type: ignore[arg-type]
        except EdgeSocketError:
            self.alive = False
            return
        executor = SimulatedExecutor(self._loop, self, lambda: self._around.settings.store_ms / 1000)
        self._run = ProcedureRun(self._settle(), lambda _: None, store.perform, executor, self._turn)
        self._turn()

    def _settle(self) -> Procedure[None]:
        log = yield from read_log()
        for first, last in self._ids:
            # From the moment it may be in the log, the ids are given up.
            self._around.facts.settle(first, last)
        time_ms = EPOCH_MS + int(self._loop.now * 1000)
        yield from append(log, Settle(0, time_ms, self._ids, "simulated", "operator"))

    def _turn(self) -> None:
        try:
            if self._run.advance(self._loop.now):
                self.alive = False
        except EdgeSocketError:
            self.alive = False  # he sees the error and tries again later

    def crashed(self) -> None:
        """It dies like any other process."""
        self._around.disk.dying = False
        self.alive = False


class Operator:
    """Decides what to settle. He knows which batches a collector still has, as a real one would ask."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._seen: IdRange | None = None
        self._since = 0.0

    def look(self, ledger: Ledger, kept: dict[int, bytes], patience_s: float) -> None:
        """Settle what has been in the way for long and is with no collector."""
        in_the_way = _IN_THE_WAY | ({BatchState.GAP} if ledger.gap_rule is GapRule.HOLD else set())
        holder = ledger.holder()
        if holder is None or holder[1] not in in_the_way or holder[0] in kept:
            self._seen = None
            return
        first = holder[0]
        if self._seen is None or self._seen[0] != first:
            self._seen, self._since = (first, first), self._around.loop.now
        if self._around.loop.now - self._since < patience_s:
            return
        self._seen = None
        ids = IdRanges()
        for state, low, high in ledger.segments(first, max(first, ledger.highest_known)):
            if state in in_the_way:
                ids.add(low, high)
        for id_ in kept:
            ids.remove(id_, id_)
        Settlement(self._around, tuple(ids))
