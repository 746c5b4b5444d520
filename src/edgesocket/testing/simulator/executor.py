"""The store thread of a simulated process: does one thing after the other, each some time after it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from edgesocket.testing.simulator.loop import Actor, Loop


class SimulatedExecutor(Executor):
    """One worker on the loop's time.

    A job happens somewhere between the question and the answer, so a process can die with it done and not known.

    Args:
        loop: the event loop.
        process: whose thread it is.
        longest_s: most that a job takes now.
    """

    def __init__(self, loop: Loop, process: Actor, longest_s: Callable[[], float]) -> None:
        self._loop = loop
        self._process = process
        self._longest_s = longest_s
        self._free_at = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do `fn` later."""
        future: Future[Any] = Future()
        random = self._loop.random
        start = max(self._loop.now, self._free_at)
        done_at = start + random.random() * self._longest_s()
        end = done_at + random.choice((0.0, 0.0, random.random() * self._longest_s()))
        self._free_at = end

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except Exception as error:
                caught = error
                self._loop.at(end, lambda: self._answer(future, lambda: future.set_exception(caught)), self._process)
            else:
                self._loop.at(end, lambda: self._answer(future, lambda: future.set_result(result)), self._process)

        self._loop.at(done_at, work, self._process)
        return future

    @staticmethod
    def _answer(future: Future[Any], give: Callable[[], None]) -> None:
        if not future.cancelled():
            give()
