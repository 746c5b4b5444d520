"""One run of one row: faults under load, then quiet, then the count."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.counting import tally
from chaos.destinations import Servers
from chaos.rows import Row
from chaos.world import World

STEADY, BURST = 400.0, 6000.0
"""Lines a second."""
BURST_S = 0.1
"""So long in each second more lines come than go through at once: queues are not empty when a fault strikes."""
PATIENCE_S = 120.0
"""So long after the last fault everything must be confirmed."""
WORKS_AGAIN_SHARE = 0.7
"""So often a fault meets a world that works again after the last one; else one that may be still on its way there."""
WORKS_AGAIN_S = 15.0
_BUGS = (":1", ":70")
"""How a process ends by itself that met what it did not expect."""


@dataclass
class Result:
    """How a run went; a line of chaos/results.

    Attributes:
        row, sink, seed: which run.
        written: lines.
        lost: of them, not in the sink at the end.
        broken: lines that the agent was told are safe, and that a reader of the sink did not find then.
        doubled: lines that are in the sink more than once; strange: rows that nobody wrote.
        strikes: faults.
        recover_s: from the end of the last fault until every line was confirmed; None: it did not happen.
        ends: how often each process ended by itself, by exit code.
        stopped: exit codes of agent and ingress at the end.
        seconds: it all took.
        failure: of the harness itself: what it did not expect.
    """

    row: str
    sink: str
    seed: int
    written: int = 0
    lost: int = 0
    broken: int = 0
    doubled: int = 0
    strange: int = 0
    strikes: int = 0
    recover_s: float | None = None
    ends: dict[str, int] = field(default_factory=dict)
    stopped: tuple[int, ...] = ()
    seconds: float = 0.0
    failure: str = ""

    @property
    def is_good(self) -> bool:
        """Whether all that is promised was kept."""
        wrong = self.lost or self.broken or self.doubled or self.strange or any(self.stopped)
        bugs = [end for end in self.ends if end.endswith(_BUGS)]
        return not wrong and not bugs and self.recover_s is not None

    def to_json(self) -> dict[str, Any]:
        """For the file of results."""
        return {**asdict(self), "good": self.is_good}


def run_row(
    row: Row, seed: int, servers: Servers, *, strikes: int | None = None, keep: bool = False, mutation: str = ""
) -> Result:
    """Run it. What a run leaves is removed when it was good, and named when it was not.

    Args:
        strikes: instead of what the row says.
        keep: remove nothing.
        mutation: a deliberate fault in the product: then the run should not be good.
    """
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix=f"edgesocket-chaos-{row.name}-"))
    result = Result(row.name, row.sink, seed)
    world = World(
        directory, sink=row.sink, servers=servers, dice=random.Random(f"{row.name}/{seed}"), rate=load,
        small=row.small, shims=row.shims, apart=row.apart, far=row.far, mutation=mutation,
    )  # fmt: skip
    with world:
        try:
            _strike(world, row, result, strikes or row.strikes)
        except Exception:  # the run is bad, and the next one goes on
            result.recover_s, result.failure = None, traceback.format_exc()
            print(result.failure)
        result.seconds = round(time.monotonic() - began, 1)
        if (keep or not result.is_good) and world.disk is not None:
            _rescue(world)
    if result.is_good and not keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"{row.name} seed {seed}: see {directory}")
    return result


def load(seconds: float) -> float:
    """Lines a second at that time."""
    return BURST if seconds % 1.0 < BURST_S else STEADY


def _strike(world: World, row: Row, result: Result, strikes: int) -> None:
    broken: set[int] = set()
    world.begin()
    for _ in range(strikes):
        if world.dice.random() < WORKS_AGAIN_SHARE:
            world.wait_for_progress(WORKS_AGAIN_S)
        world.pause(0.2, 1.0)
        row.strike(world)
        result.strikes += 1
        broken |= _broken_promises(world)
    healed = time.monotonic()
    world.pause(0.1, 0.3)
    world.writer.end()
    while world.link.promises.count < world.writer.lines and time.monotonic() < healed + PATIENCE_S:
        time.sleep(0.01)
    if world.link.promises.count >= world.writer.lines:
        result.recover_s = round(time.monotonic() - healed, 2)
    broken |= _broken_promises(world)
    result.broken = len(broken)
    result.ends = world.ends()
    result.stopped = (world.agent.stop(), world.ingress.stop())
    end = tally(world.writer.lines, world.destination.numbers())
    result.written, result.lost = end.written, len(end.lost)
    result.doubled, result.strange = len(end.doubled), end.strange
    if not end.is_clean:
        print(f"{row.name}: lost {end.lost[:10]}, doubled {end.doubled[:10]}, strange {end.strange}")


def _broken_promises(world: World) -> set[int]:
    """Lines that are promised to be safe, and are not in the sink: asked in this order."""
    promised = world.link.promises.confirmed()
    return set(promised) - set(world.destination.numbers())


def _rescue(world: World) -> None:
    """A small disk goes with the run: keep what was on it."""
    assert world.disk is not None
    if world.disk.path.is_relative_to(world.directory):
        copy = world.disk.path.with_name(f"{world.disk.path.name}-copy")
        shutil.copytree(world.disk.path, copy, ignore=shutil.ignore_patterns("filler"))
