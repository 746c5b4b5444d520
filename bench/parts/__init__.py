"""The parts of the benchmarks, one file each.

A new part is a module here with a `PART`, and its name in `PARTS`.
"""

from bench.parts import cluster, edge, growth, jobs, kafka, pump_pause, throughput
from bench.parts.part import Part

PARTS: dict[str, Part] = {
    part.name: part
    for part in (throughput.PART, growth.PART, jobs.PART, kafka.PART, edge.PART, pump_pause.PART, cluster.PART)
}
