"""Ports that Ray takes for itself. Pure.

The processes of a Ray node listen on ports of a range that the node was started with. A job's port inside it would work
until one of them is faster; so it is refused, with the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgesocket.errors import ConfigProblem

FIX = "another port, or start the nodes with --min-worker-port=20000 --max-worker-port=29999, as deploy/ray does"


@dataclass(frozen=True, slots=True)
class PortRange:
    """Ports, first and last included. `extra`: single ones beside them."""

    first: int
    last: int
    extra: tuple[int, ...] = ()

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last or port in self.extra

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if not self.extra else f"{self.first}-{self.last} and {len(self.extra)} more"


RAY_DEFAULT = PortRange(10002, 19999)
"""What `ray start` uses when nothing is said."""


def range_of_raylet(command: Sequence[str]) -> PortRange | None:
    """The range in the command line of a raylet, which is the process that starts all others of a node.

    Returns None where the line is not one of a raylet.
    """
    options = {
        name.replace("-", "_"): value
        for name, equals, value in (part.removeprefix("--").partition("=") for part in command)
        if equals
    }
    first, last = _number(options.get("min_worker_port")), _number(options.get("max_worker_port"))
    listed = tuple(filter(None, map(_number, options.get("worker_port_list", "").split(","))))
    if first is None and last is None and not listed:
        return None
    if listed:
        return PortRange(0, 0, listed)
    return PortRange(first or 0, last or 0) if first else PortRange(0, 0)


def problem_with_port(port: int, ranges: Sequence[tuple[str, PortRange]], location: str) -> ConfigProblem | None:
    """What is wrong with a job's port, or None.

    Args:
        port: of the job.
        ranges: address of each worker that may run it, and its range.
        location: of the option in the job file.
    """
    for address, taken in ranges:
        if port in taken:
            message = f"{port} is one of the ports {taken} that Ray takes for its own processes on worker {address}"
            return ConfigProblem("source.EdgeSocket.port", message, FIX, location)
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
