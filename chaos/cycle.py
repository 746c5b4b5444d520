"""An hour of a load that comes and goes, with faults that the processes live through: nothing grows or is lost."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from chaos import faults
from chaos.counting import Tape
from chaos.destinations import Servers
from chaos.sampling import Sampler
from chaos.world import World

PERIOD_S = 120.0
QUIET, STEADY, BUSY, BURST = 0.0, 300.0, 1500.0, 6000.0
STEPS = ((30.0, STEADY), (45.0, BUSY), (48.0, BURST), (90.0, STEADY), (100.0, QUIET), (PERIOD_S, BUSY))
"""Until which second of a period, how many lines a second."""
FAULTS = (faults.cut, faults.half_open, faults.slow, faults.stop_agent, faults.nap_ingress, faults.full_disk)
FAULT_EVERY_S = (5.0, 25.0)
PATIENCE_S = 300.0
_COUNT_EVERY_S = 1.0


def rate(seconds: float) -> float:
    """Lines a second at that time."""
    at = seconds % PERIOD_S
    return next(lines for until, lines in STEPS if at < until)


class Counter:
    """Counts the rows of the sink while they come, on a thread of its own, and removes what it has counted."""

    def __init__(self, world: World) -> None:
        self.tape = Tape()
        self._world = world
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="counter")
        self._thread.start()

    def look(self) -> None:
        """Count what is there."""
        for number in self._world.destination.numbers():
            self.tape.count(number)

    def end(self) -> None:
        """The last look."""
        self._stop.set()
        self._thread.join()
        self.look()

    def _work(self) -> None:
        while not self._stop.wait(_COUNT_EVERY_S):
            self.look()


def run_cycle(seconds: float, seed: int, note: Path | None, warm_up_s: float) -> dict[str, Any]:
    """Run it. Returns the figures."""
    with tempfile.TemporaryDirectory(prefix="edgesocket-soak-") as directory:
        world = World(
            Path(directory), sink="files", servers=Servers(), dice=random.Random(f"soak/{seed}"), rate=rate,
            small="state", long=True,
        )  # fmt: skip
        with world:
            return _run(world, seconds, note, warm_up_s)


def _run(world: World, seconds: float, note: Path | None, warm_up_s: float) -> dict[str, Any]:
    struck, recovered_s = 0, None
    counter = Counter(world)
    pids = {"agent": world.agent.process.pid, "ingress": world.ingress.process.pid}
    try:
        world.begin()
        began = time.monotonic()
        with Sampler(pids, note=note) as sampler:
            while time.monotonic() - began < seconds:
                world.pause(*FAULT_EVERY_S)
                world.dice.choice(FAULTS)(world)
                struck += 1
            world.writer.end()
            healed = time.monotonic()
            while world.link.promises.count < world.writer.lines and time.monotonic() < healed + PATIENCE_S:
                time.sleep(0.1)
            if world.link.promises.count >= world.writer.lines:
                recovered_s = round(time.monotonic() - healed, 1)
        ends = world.ends()
        stopped = (world.agent.stop(), world.ingress.stop())
    finally:
        counter.end()
    tape, written = counter.tape, world.writer.lines
    return {
        "seconds": round(seconds), "warm_up_s": round(warm_up_s), "faults": struck, "written": written,
        "lost": tape.lost(written), "doubled": tape.doubled, "strange": tape.strange, "recovered_s": recovered_s,
        "ended_by_itself": ends, "stopped": stopped, "processes": sampler.figures(warm_up_s),
    }  # fmt: skip
