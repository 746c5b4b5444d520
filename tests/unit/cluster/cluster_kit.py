"""A cluster without Ray: jobs in a temporary directory, workers that only remember what they were told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgesocket.cli.plugged import InstalledPlugins
from edgesocket.cluster.job_text import JobText
from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.orders import Order
from edgesocket.cluster.placement import Node
from edgesocket.cluster.ports import PortRange
from edgesocket.cluster.registry import Registry
from edgesocket.cluster.submitting import Cluster, Submission
from edgesocket.store.place import root_of

A = Node("id-a", "10.0.0.1", {"zone": "a"})
B = Node("id-b", "10.0.0.2", {"zone": "b"})
NODES = (A, B)


def some_jobs(directory: Path) -> Jobs:
    """An empty cluster."""
    return Jobs(root_of(str(directory)))


def job_text(name: str = "edge", port: int = 9999, tag_filter: str = "") -> JobText:
    """A small job."""
    text = (
        f"env {{ job.name = {name}\n tag_filter {{ {tag_filter} }} }}\n"
        f'source {{ EdgeSocket {{ port = {port}\n token = "t0ken-t0ken" }} }}\nsink {{ Null {{ }} }}\n'
    )
    return JobText(file=f"{name}.conf", text=text)


def submission(name: str = "edge", port: int = 9999, tag_filter: str = "", **more: str) -> Submission:
    """It, ready to be submitted."""
    text = job_text(name, port, tag_filter)
    return Submission(spec=text.load({}, InstalledPlugins()), text=text, by="me", time_ms=1, **more)


CLUSTER = Cluster(NODES, ())


class FakeWorkers:
    """Workers that remember."""

    def __init__(self, nodes: Sequence[Node] = NODES) -> None:
        self._nodes = list(nodes)
        self.hosts: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.retired: list[str] = []

    def nodes(self) -> list[Node]:
        return self._nodes

    def host_names(self) -> list[str]:
        return list(self.hosts)

    def ensure_host(self, order: Order) -> None:
        if order.host not in self.hosts:
            self.hosts.append(order.host)

    def tell(self, news: Sequence[tuple[str, str]]) -> list[str]:
        self.told += news
        return self.retired

    def port_ranges(self, nodes: Sequence[Node], registry: Registry) -> list[tuple[str, PortRange]]:
        return []
