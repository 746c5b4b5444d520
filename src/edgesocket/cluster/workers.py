"""What submitting, moving and reconciling need of whoever starts host processes: Ray, or a stand-in of a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgesocket.cluster.orders import Order
from edgesocket.cluster.placement import Node
from edgesocket.cluster.ports import PortRange
from edgesocket.cluster.registry import Registry


class Workers(Protocol):
    """See `ray_cluster.RayCluster`, which is one."""

    def nodes(self) -> list[Node]:
        """The nodes, dead ones included."""

    def host_names(self) -> list[str]:
        """Hosts that live, start, or wait for a worker."""

    def ensure_host(self, order: Order) -> None:
        """See that the host of an order exists."""

    def tell(self, news: Sequence[tuple[str, str]]) -> list[str]:
        """Tell hosts of new orders: host and job of each. Returns those that are no more."""

    def port_ranges(self, nodes: Sequence[Node], registry: Registry) -> list[tuple[str, PortRange]]:
        """The ports that are taken on these nodes."""
