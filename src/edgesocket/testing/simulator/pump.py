"""What a restored process does in its turns: looks at the log, runs checkpoints, moves rows, and ends gracefully."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgesocket.checkpoint import effects
from edgesocket.checkpoint.commit_log import append, refresh
from edgesocket.checkpoint.effects import Procedure
from edgesocket.checkpoint.entries import Ended, Settle
from edgesocket.checkpoint.procedure import CheckpointEnd, CheckpointPlan, checkpoint
from edgesocket.components.sink import CommitRole
from edgesocket.engine.checkpoints import CheckpointRunner
from edgesocket.engine.performing import ProcedureRun
from edgesocket.errors import ComponentError, DamagedStateError, EdgeSocketError, FencedError
from edgesocket.rows import Rows
from edgesocket.testing.simulator.sinks import SimulatedSink
from edgesocket.testing.simulator.starting import settlement

if TYPE_CHECKING:
    from edgesocket.testing.simulator.process import IngressProcess

LOOK_S = 1.0
"""How often an owner looks at the log."""
THOROUGH_EVERY = 3
"""Every so many looks the directory is listed too."""
RETRY_S = 0.5
"""How long after a failed write it is tried again."""
GIVE_UP_S = 600.0
KEPT = 2


class Pump:
    """See the module's text."""

    def __init__(self, process: IngressProcess, first_number: int) -> None:
        settings = process.around.settings
        self._process = process
        self._loop = process.loop
        self._in_hand: list[Rows] = []
        """Taken from the queue and not in every sink yet."""
        self._waiting: dict[str, SimulatedSink] = {}
        """Sinks that the first of these has not reached."""
        self._not_before = 0.0
        self._look: ProcedureRun | None = None
        self._looks = 0
        self._next_look = self._loop.now + LOOK_S
        self._last: ProcedureRun | None = None
        self._final = False
        self.checkpoints = CheckpointRunner(
            self._make_checkpoint,
            self._here,
            process.store.perform,
            process.executor,
            process.soon,
            first_number=first_number,
            interval_s=settings.checkpoint_ms / 1000,
            timeout_s=settings.checkpoint_timeout_ms / 1000,
            give_up_s=GIVE_UP_S,
            report=lambda _: None,
        )

    def turn(self) -> None:
        """Do what can be done now. Raises what ends the incarnation."""
        process, now = self._process, self._loop.now
        if not process.still_owner():
            raise FencedError("this process could not show a sign of life for longer than its lease")
        if process.stopping:
            self._finish(now)
            return
        if self._may_begin() and not self._looking_at_log(now):
            self.checkpoints.advance(now)
        moved = self._move_rows()
        process.turn_in(0.0 if moved else self._idle_s(now))

    def _idle_s(self, now: float) -> float:
        if self._in_hand:
            return RETRY_S
        return min(LOOK_S, max(0.01, self.checkpoints.seconds_until_due(now)))

    def _may_begin(self) -> bool:
        """No checkpoint begins while rows are in the hand: they are neither queued nor in a sink."""
        return self.checkpoints.under_way or not self._in_hand

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _move_rows(self) -> bool:
        """One step of what is queued towards the sinks. Returns whether there may be another at once."""
        if self.checkpoints.under_way and self._deciding is not None:
            return False  # its transaction is open until the checkpoint is decided
        if not self._in_hand:
            self._in_hand = list(self._process.source.poll(0.0))
            self._waiting = dict(self._process.sinks)
        elif self._loop.now < self._not_before:
            return False
        while self._in_hand:
            for sink_id, sink in list(self._waiting.items()):
                try:
                    sink.write(self._in_hand[0])
                except ComponentError:
                    self._not_before = self._loop.now + RETRY_S
                    return False
                del self._waiting[sink_id]
            self._in_hand.pop(0)
            self._waiting = dict(self._process.sinks)
        return bool(self._process.source.queue.records)

    @property
    def _deciding(self) -> SimulatedSink | None:
        sinks = self._process.sinks.values()
        return next((sink for sink in sinks if sink.commit_role is CommitRole.DECIDING), None)

    # ---- the log -------------------------------------------------------------------------------------------------

    def _looking_at_log(self, now: float) -> bool:
        """Look between checkpoints what others appended. Returns whether a look is under way."""
        process = self._process
        if self._look is None:
            if self.checkpoints.under_way or now < self._next_look:
                return False
            self._looks += 1
            procedure = refresh(process.log, thorough=self._looks % THOROUGH_EVERY == 0)
            self._look = ProcedureRun(procedure, self._here, process.store.perform, process.executor, process.soon)
        try:
            if not self._look.advance(now):
                return True
            for placed in self._look.result:
                if isinstance(placed.entry, Settle):
                    process.source.settle(settlement(placed.index, placed.entry))
        except (FencedError, DamagedStateError):
            raise
        except EdgeSocketError:
            pass  # it cannot be read now
        self._look = None
        self._next_look = now + LOOK_S
        return False

    def _make_checkpoint(self, number: int, force: bool) -> Procedure[CheckpointEnd]:
        process = self._process
        has_deciding = self._deciding is not None
        return checkpoint(CheckpointPlan(number, process.epoch, has_deciding, KEPT, force), process.log)

    # ---- a graceful end ------------------------------------------------------------------------------------------

    def _finish(self, now: float) -> None:
        """Drain, take one last checkpoint, close the arrival log, say so in the log."""
        process = self._process
        process.hang_up()
        if self._last is not None:
            if self._last.advance(now):
                process.fail(None)
            return
        if self._look is not None:
            self._looking_at_log(now)
        elif self.checkpoints.under_way:
            if self.checkpoints.advance(now) and self._final:
                self._say_goodbye()
        elif self._final:
            process.fail(None)
            return
        elif not self._move_rows() and not self._in_hand and not process.source.queue.records:
            self._final = self.checkpoints.begin_final(now)
        process.turn_in(0.02)

    def _say_goodbye(self) -> None:
        process = self._process
        clean = process.source.close(clean=True)
        entry = Ended(process.epoch, process.wall_ms(), clean)
        self._last = ProcedureRun(
            append(process.log, entry), self._here, process.store.perform, process.executor, process.soon
        )

    # ---- effects -------------------------------------------------------------------------------------------------

    def _here(self, effect: object) -> object:
        return Pump.perform(self._process, effect)

    @staticmethod
    def perform(process: IngressProcess, effect: object) -> Any:
        """Do one effect that is not the store's. The process may die before it."""
        process.around.disk.call("effect")
        sinks = process.sinks
        match effect:
            case effects.Cut():
                cut = process.source.cut()
                return effects.CutResult(cut.state, cut.encode, cut.log_index)
            case effects.PrepareSinks(number):
                manifests = {sink_id: sink.prepare(number) for sink_id, sink in sinks.items()}
                return {sink_id: manifest for sink_id, manifest in manifests.items() if manifest}
            case effects.CommitDeciding(number, manifests):
                return _commit(sinks, number, manifests, CommitRole.DECIDING)
            case effects.CommitSinks(number, manifests):
                return _commit(sinks, number, manifests, CommitRole.RECOMMITTABLE)
            case effects.FenceDeciding(epoch):
                return _deciding(sinks).fence(epoch)
            case effects.AskDeciding():
                return _deciding(sinks).landed()
            case effects.Complete():
                return process.source.complete()
            case effects.Abort():
                return process.source.abort()
            case effects.WallClock():
                return process.wall_ms()
            case effects.Wait():
                return None
        raise TypeError(f"nobody performs {effect!r}")


def _commit(sinks: dict[str, SimulatedSink], number: int, manifests: dict[str, Any], role: CommitRole) -> None:
    for sink_id, manifest in manifests.items():
        if sinks[sink_id].commit_role is role:
            sinks[sink_id].commit(number, manifest)


def _deciding(sinks: dict[str, SimulatedSink]) -> SimulatedSink:
    return next(sink for sink in sinks.values() if sink.commit_role is CommitRole.DECIDING)
