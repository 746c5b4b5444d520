"""A deterministic simulator: the real core of EdgeSocket under any schedule of faults that a seed draws.

::

    python -m edgesocket.testing.simulator --seeds 1000 --first 1

See docs/simulation.md for what is simulated, what must hold, and how to go on from a seed that fails.
"""

from edgesocket.testing.simulator.faults import Fault, FaultKind
from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.running import Outcome, Scenario, draw_scenario, run, run_seed
from edgesocket.testing.simulator.settings import Settings

__all__ = ["Fault", "FaultKind", "Outcome", "Scenario", "Settings", "Violation", "draw_scenario", "run", "run_seed"]
