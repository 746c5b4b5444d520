"""The jobs of a cluster, as the store tells: orders, who runs them, how they fare. Works with Ray down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgesocket.cluster.attempts import Attempt, Attempts
from edgesocket.cluster.orders import Order, Wanted, append_order, newest_order
from edgesocket.cluster.placement import Node, explain
from edgesocket.cluster.registry import REGISTRY, Registry
from edgesocket.components.state import StateStore
from edgesocket.store.ownership import Beat
from edgesocket.store.place import Place, Root

FRESH_S = 5.0
"""A status older than this is not of a process that lives."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One job, as the store tells.

    Attributes:
        name: of the job.
        order: what is wanted, None where it was never submitted.
        attempt: its last start on a host.
        beat: the last sign of life.
        status: what it last said of itself.
        age_s: how old that is; None without one.
    """

    name: str
    order: Order | None
    attempt: Attempt | None
    beat: Beat | None
    status: dict[str, Any] | None
    age_s: float | None

    @property
    def lives(self) -> bool:
        """Whether a process shows signs of life."""
        return self.age_s is not None and self.age_s < FRESH_S and self.beat is not None and not self.beat.closed

    @property
    def carried_out(self) -> bool:
        """Whether a host has begun to carry out the newest order."""
        return self.order is not None and self.attempt is not None and self.attempt.order == self.order.n

    @property
    def state(self) -> str:
        """In one word: RUNNING; STARTING; STOPPING; PENDING, no host has begun yet; LOST, no sign of life; else what
        is wanted."""
        if self.order is None or self.order.wanted is not Wanted.RUNNING:
            wanted = "UNKNOWN" if self.order is None else str(self.order.wanted)
            return "STOPPING" if self.lives and self.order is not None else wanted
        if not self.carried_out:
            return "PENDING"
        if not self.lives:
            return "LOST" if self.status is not None and self.beat is not None and not self.beat.closed else "STARTING"
        return "RUNNING" if self._says_running else "STARTING"

    @property
    def _says_running(self) -> bool:
        """Whether the process of the newest start says so; the one before it may still speak."""
        if self.status is None or self.attempt is None:
            return False
        # Processes of two pods may have the same pid, and two starts of a host never the same number.
        if (self.status.get("pid"), self.status.get("host_start")) != (self.attempt.pid, self.attempt.start):
            return False
        return bool(self.status.get("state") == "running")

    @property
    def address(self) -> str:
        """`IP:port` that is bound, or was last by a job that is to run; "" for one that is not."""
        if self.attempt is None or self.order is None or (self.order.wanted is not Wanted.RUNNING and not self.lives):
            return ""
        return address_of(self.attempt.address, self.order.port)

    @property
    def endpoint(self) -> str:
        """Where collectors dial: what the job says, else where it is bound; "" where it has not run."""
        told = (self.status or {}).get("endpoint")
        return str(told) if told else self.address

    @property
    def epoch(self) -> int:
        """Number of the incarnation that spoke last; 0 without one."""
        return int((self.status or {}).get("epoch") or 0)


class Jobs:
    """The jobs below one root. Everything raises StoreError when the store fails.

    Args:
        root: where their states lie.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.registry = Registry(root.place(REGISTRY).open_store())
        self._stores: dict[str, StateStore] = {}

    def place(self, name: str) -> Place:
        """Where a job's state lies."""
        return self.root.place(name)

    def store(self, name: str) -> StateStore:
        """The store of a job, opened once."""
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = self.place(name).open_store()
        return store

    def order(self, name: str) -> Order | None:
        """What is wanted of a job; None: it was never submitted."""
        return newest_order(self.store(name))

    def append(self, order: Order) -> None:
        """Give an order, and see first that it will be found."""
        if order.wanted is Wanted.RUNNING:
            self.registry.note(order.job, order.port, order.host)
        append_order(self.store(order.job), order)

    def view(self, name: str, now: float) -> JobView:
        """One job. `now`: Unix seconds."""
        place = self.place(name)
        store = self.store(name)
        status = place.read_status()
        age_s = None if status is None else now - float(status["time"])
        return JobView(name, newest_order(store), Attempts(store).newest(), place.read_beat(), status, age_s)

    def views(self, now: float) -> Iterator[JobView]:
        """Every job that was ever submitted, by name."""
        for name in self.registry.jobs():
            yield self.view(name, now)

    def running_on_port(self, port: int) -> Iterator[Order]:
        """The newest orders of jobs that are to run with this port."""
        for name in self.registry.on_port(port):
            order = self.order(name)
            if order is not None and order.wanted is Wanted.RUNNING and order.port == port:
                yield order

    def running_on_host(self, host: str) -> Iterator[Order]:
        """The newest orders of jobs that this host is to run."""
        for name in self.registry.of_host(host):
            order = self.order(name)
            if order is not None and order.wanted is Wanted.RUNNING and order.host == host:
                yield order


def address_of(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def why_pending(order: Order, nodes: Sequence[Node] | None) -> str:
    """Why nobody carries out an order yet, for people."""
    if nodes is None:
        return "Ray was not asked, or does not answer (--address, RAY_ADDRESS)"
    return explain(order.tag_filter, nodes, order.avoid)
