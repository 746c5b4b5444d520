"""What goes wrong, and when: a plain list, so that a shrinker can leave one fault out after the other."""

from __future__ import annotations

import enum
from random import Random
from typing import NamedTuple

from edgesocket.testing.simulator.settings import Settings


class FaultKind(enum.Enum):
    """One way for things to go wrong. `value` is milliseconds, or a count, as said."""

    CUT = "cut"
    """The collector's connection breaks, with bytes on their way."""
    HALF_OPEN = "half open"
    """Nothing arrives on it any more, and nobody says so."""
    NOT_READING = "not reading"
    """The collector reads no reply for so many ms."""
    STRANGER = "stranger"
    """Somebody else connects: with the wrong token (0), with the right one (1), or says nothing (2)."""
    COLLECTOR_DIES = "collector dies"
    """kill -9 of the collector, which comes back with its spool."""
    COLLECTOR_FORGETS = "collector forgets"
    """It comes back without its spool, and its ids go on from the time of day."""
    KILL = "kill"
    """kill -9 of the ingress."""
    KILL_AT = "kill at"
    """kill -9 of whoever makes the so many-th system call or sink effect from now."""
    POWER = "power"
    """The machine of the ingress loses power."""
    POWER_AT = "power at"
    """The same, at the so many-th system call or sink effect from now."""
    PAUSE = "pause"
    """The ingress stops for so many ms (SIGSTOP), and goes on."""
    TAKE_OVER = "take over"
    """A second ingress is started with --take-over while the first one is at work."""
    SECOND = "second"
    """A second ingress is started politely."""
    STOP = "stop"
    """The ingress is asked to end (SIGTERM)."""
    DISK_FAILS = "disk fails"
    """The next so many writes, syncs, links or renames fail."""
    DISK_FULL = "disk full"
    """Writes fail with ENOSPC for so many ms."""
    DISK_UNREADABLE = "disk unreadable"
    """The next so many reads or listings fail."""
    DISK_SLOW = "disk slow"
    """Operations of the store take up to so many ms, for a while."""
    SINK_FAILS = "sink fails"
    """The sinks take no rows for so many ms."""
    PREPARE_FAILS = "prepare fails"
    """They cannot flush for so many ms."""
    COMMIT_FAILS = "commit fails"
    """They do not commit for so many ms."""
    ANSWER_LOST = "answer lost"
    """They commit for so many ms, and say that they did not."""
    CLOCK = "clock"
    """The time of day of the ingress jumps by so many s, back or forth."""
    DAMAGED = "damaged"
    """A byte of the newest state blob changes on the disk."""
    SETTLE = "settle"
    """An operator settles the id that holds the watermark, whether or not the collector still has it."""


class Fault(NamedTuple):
    """One of them, at a time (ms of the simulation)."""

    at_ms: int
    kind: FaultKind
    value: int = 0


_VALUES: dict[FaultKind, tuple[int, ...]] = {
    FaultKind.NOT_READING: (200, 2000, 8000),
    FaultKind.STRANGER: (0, 1, 2),
    FaultKind.KILL_AT: (1, 2, 3, 5, 8, 13, 21, 34, 55, 89),
    FaultKind.POWER_AT: (1, 2, 3, 5, 8, 13, 21, 34, 55, 89),
    FaultKind.PAUSE: (500, 2000, 5000, 12_000),
    FaultKind.DISK_FAILS: (1, 2, 5, 20),
    FaultKind.DISK_FULL: (300, 3000, 8000),
    FaultKind.DISK_UNREADABLE: (1, 2, 5),
    FaultKind.DISK_SLOW: (50, 500, 2000),
    FaultKind.SINK_FAILS: (300, 3000),
    FaultKind.PREPARE_FAILS: (300, 3000),
    FaultKind.COMMIT_FAILS: (300, 3000),
    FaultKind.ANSWER_LOST: (300, 3000),
    FaultKind.CLOCK: (-90_000, -10, 10, 90_000),
}


_OFTEN = (
    FaultKind.KILL,
    FaultKind.KILL_AT,
    FaultKind.POWER,
    FaultKind.POWER_AT,
    FaultKind.COLLECTOR_FORGETS,
    FaultKind.COLLECTOR_DIES,
    FaultKind.CUT,
    FaultKind.DISK_FAILS,
    FaultKind.TAKE_OVER,
    FaultKind.PAUSE,
)
"""Every seed has some of these: what is lost is lost when somebody dies."""


def draw_faults(random: Random, settings: Settings, only: tuple[FaultKind, ...] = ()) -> tuple[Fault, ...]:
    """The faults of one seed: a few kinds, some of them often. `only`: these kinds, and many of them."""
    kinds = [kind for kind in FaultKind if kind is not FaultKind.COLLECTOR_FORGETS or settings.ids == "time"]
    often = [kind for kind in _OFTEN if kind in kinds]
    chosen = random.sample(kinds, random.choice((0, 1, 2, 5))) + random.choices(often, k=random.choice((1, 2, 3)))
    count = random.choice((0, 2, 5, 10, 20))
    if only:
        chosen, count = list(only), random.choice((5, 10, 20))
    # While batches come up: what goes wrong with nothing on its way teaches little.
    producing_ms = settings.batches * settings.produced_every_ms // settings.produced_at_once
    duration_ms = max(1000, int(producing_ms * random.choice((0.5, 0.9, 1.2))))
    # Often misfortunes come together: half of the seeds have them around a few moments.
    moments = [random.randrange(duration_ms) for _ in range(random.choice((1, 2, 4)))]
    together = random.random() < 0.5
    faults = []
    for _ in range(count):
        kind = random.choice(chosen)
        at_ms = (
            random.choice(moments) + random.randrange(3000 if duration_ms > 5000 else 600)
            if together
            else random.randrange(duration_ms)
        )
        faults.append(Fault(at_ms, kind, random.choice(_VALUES.get(kind, (0,)))))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))
