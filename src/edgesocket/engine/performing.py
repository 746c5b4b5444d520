"""Performs the effects of procedures: some on the thread that asks, the slow ones of the store on one of its own.

A procedure that runs beside the pump is stepped by it: each time the pump looks, `ProcedureRun.advance` goes on until
the procedure wants something of the store, hands that to the store thread, and returns. When the store is done the
pump is woken. So a slow disk never stops rows, and sinks and source are only ever called by the pump.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgesocket.checkpoint import effects
from edgesocket.checkpoint.effects import Create, Encode, List, Read, Remove, Wait
from edgesocket.components.sink import CommitRole, DecidingSink
from edgesocket.components.source import Source
from edgesocket.engine.sink_group import SinkGroup

PerformHere = Callable[[Any], Any]
"""Performs an effect at once, on the calling thread; raises what the effect raises."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What an effect still has to do before its result counts, and that a thread beside the pump may do."""

    result: Any
    work: Callable[[], None]

    def done_here(self) -> Any:
        """Do it on this thread. Returns the result; raises as the work does."""
        self.work()
        return self.result


def perform_on(effect: Any, source: Source | None, sinks: SinkGroup) -> Any:
    """Perform an effect that is for source or sinks, or asks the time. Until sinks are fenced there is no source.

    Returns: the effect's result, or `Beside`.
    """
    match effect:
        case effects.FenceDeciding(epoch):
            return _deciding(sinks).fence(epoch)
        case effects.AskDeciding():
            return _deciding(sinks).landed()
        case effects.PrepareSinks(number):
            prepared, settle = sinks.prepare(number)
            return prepared if settle is None else Beside(prepared, settle)
        case effects.CommitDeciding(number, manifests):
            sinks.commit(number, manifests, CommitRole.DECIDING)
            return None
        case effects.CommitSinks(number, manifests):
            publish = sinks.commit(number, manifests, CommitRole.RECOMMITTABLE)
            return None if publish is None else Beside(None, publish)
        case effects.WallClock():
            return unix_ms()
    assert source is not None
    match effect:
        case effects.Cut():
            cut = source.cut()
            return effects.CutResult(cut.state, cut.encode, cut.log_index)
        case effects.Complete():
            return source.complete()
        case effects.Abort():
            return source.abort()
    raise TypeError(f"nobody performs {effect!r}")


def unix_ms() -> int:
    """The time of day in milliseconds since 1970, for people and for the age of files."""
    return time.time_ns() // 1_000_000


def _deciding(sinks: SinkGroup) -> DecidingSink:
    sink = sinks.deciding
    assert sink is not None
    return sink


class ProcedureRun:
    """One procedure on its way.

    Args:
        procedure: the generator.
        here: performs everything but store effects and waits; where it answers `Beside`, the rest is done like these.
        in_store: performs store effects; called on `executor`'s thread.
        executor: one store thread.
        wake: tells the pump to look again; called on the store thread.
    """

    def __init__(
        self,
        procedure: Generator[Any, Any, Any],
        here: PerformHere,
        in_store: PerformHere,
        executor: Executor,
        wake: Callable[[], None],
    ) -> None:
        self._procedure = procedure
        self._here = here
        self._in_store = in_store
        self._executor = executor
        self._wake = wake
        self._pending: Future[Any] | None = None
        self._not_before: float | None = None
        self.done = False
        self.result: Any = None
        self.last_effect: Any = None

    def advance(self, now: float) -> bool:
        """Go as far as possible without waiting. Returns whether the procedure has ended.

        Raises: what the procedure raises.
        """
        if self.done:
            return True
        if self.last_effect is None:
            return self._run(lambda: next(self._procedure), now)
        if self._pending is not None:
            if not self._pending.done():
                return False
            future, self._pending = self._pending, None
            error = future.exception()
            if error is not None:
                return self._run(lambda: self._procedure.throw(error), now)
            return self._run(lambda: self._procedure.send(future.result()), now)
        if self._not_before is not None:
            if now < self._not_before:
                return False
            self._not_before = None
        return self._run(lambda: self._procedure.send(None), now)

    def fail(self, error: BaseException, now: float) -> Future[Any] | None:
        """Throw `error` into the procedure. Returns what the store thread is still busy with, if anything."""
        left, self._pending = self._pending, None
        self._not_before = None
        self._run(lambda: self._procedure.throw(error), now)
        return left

    def _run(self, step: Callable[[], Any], now: float) -> bool:
        while True:
            try:
                effect = self.last_effect = step()
            except StopIteration as end:
                self.done, self.result = True, end.value
                return True
            if isinstance(effect, Create | Read | List | Remove | Encode):
                self._hand_over(partial(self._slowly, effect))
                return False
            if isinstance(effect, Wait):
                self._here(effect)
                self._not_before = now + effect.seconds
                return False
            try:
                result = self._here(effect)
            except Exception as error:  # the procedure decides what an error means
                step = partial(self._procedure.throw, error)
                continue
            if isinstance(result, Beside):
                self._hand_over(result.done_here)
                return False
            step = partial(self._procedure.send, result)

    def _hand_over(self, work: Callable[[], Any]) -> None:
        """Let the store thread do something slow, and wake the pump when it is done."""
        self._pending = self._executor.submit(work)
        self._pending.add_done_callback(lambda _: self._wake())

    def _slowly(self, effect: Any) -> Any:
        return effect.encode() if isinstance(effect, Encode) else self._in_store(effect)
