"""The one event loop of a simulation: a clock that jumps from event to event, and the seed's random numbers.

Nothing else in a simulation knows the time or makes a choice, so a seed and a list of faults decide everything.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from edgesocket.testing.memory_store import SimulatedCrash

Action = Callable[[], None]


class Actor:
    """Somebody whose events stop when he is dead and wait while he is stopped (SIGSTOP).

    Attributes:
        alive: False after a crash: none of his events happens any more.
        paused: events wait for `resume`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self._waiting: list[Action] = []

    def hold_back(self, action: Action) -> None:
        """Keep an event for `resume`."""
        self._waiting.append(action)

    def resume(self, loop: Loop) -> None:
        """Go on: what has waited happens now, in order."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            loop.after(0.0, action, self)

    def crashed(self) -> None:
        """A crash that was laid for this actor has happened."""
        self.alive = False


class Loop:
    """Events in the order of their times.

    Attributes:
        now: seconds since the simulation began, a steady clock.
        random: the only source of choices.
        running: whose event happens now.
        last: whose event happened last.
        steps: how many events have happened.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)  # noqa: S311 - it has to be repeatable
        self.running: Actor | None = None
        self.last: Actor | None = None
        self.steps = 0
        self._events: list[tuple[float, int, Action, Actor | None]] = []
        self._count = 0

    def after(self, delay_s: float, action: Action, actor: Actor | None = None) -> None:
        """Let `action` happen `delay_s` from now, in `actor`'s name."""
        self.at(self.now + delay_s, action, actor)

    def at(self, when: float, action: Action, actor: Actor | None = None) -> None:
        """Let `action` happen at a time, not before now."""
        self._count += 1
        heappush(self._events, (max(when, self.now), self._count, action, actor))

    def pass_time(self, seconds: float) -> None:
        """What happens now takes some time: whatever was due meanwhile comes late."""
        self.now += seconds

    def step(self) -> bool:
        """Let the next event happen. False where there is none."""
        if not self._events:
            return False
        when, _, action, actor = heappop(self._events)
        self.now = max(self.now, when)
        if actor is not None:
            if not actor.alive:
                return True
            if actor.paused:
                actor.hold_back(action)
                return True
        self.steps += 1
        self.running = self.last = actor
        try:
            action()
        except SimulatedCrash:
            assert actor is not None, "only an actor crashes"
            actor.crashed()
        finally:
            self.running = None
        return True
