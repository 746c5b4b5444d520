"""What every process of a simulation finds where it starts: a machine, the disk, the loop, and whom to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesocket.protocol.chunks import BufferPool
from edgesocket.testing.simulator.disk import Disk
from edgesocket.testing.simulator.invariants import Facts
from edgesocket.testing.simulator.loop import Loop
from edgesocket.testing.simulator.ownership import OwnershipFiles
from edgesocket.testing.simulator.settings import Settings
from edgesocket.testing.simulator.sinks import SimulatedSink

if TYPE_CHECKING:
    from edgesocket.testing.simulator.process import IngressProcess

STATE = "/state"
"""The state directory on the simulated disk."""

EPOCH_MS = 1_700_000_000_000
"""Time of day at the beginning of a simulation."""


@dataclass(slots=True)
class Host:
    """A machine: `boot` changes when it loses power, `wall_ms` is what its clock is off."""

    name: str
    boot: str
    wall_ms: int = 0
    up: bool = True


@dataclass(slots=True)
class Surroundings:
    """What a process finds where it starts."""

    loop: Loop
    settings: Settings
    disk: Disk
    files: OwnershipFiles
    facts: Facts
    pool: BufferPool
    make_sinks: Callable[[], dict[str, SimulatedSink]]
    ended: Callable[[IngressProcess], None]
