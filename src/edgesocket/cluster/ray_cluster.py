"""The Ray cluster: its nodes, and the host actors on them. The only place that talks to Ray.

Ray keeps nothing that matters: what is here can be done again at any time from the orders (`reconcile`).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from edgesocket.cluster.orders import Order
from edgesocket.cluster.placement import Node, selector
from edgesocket.cluster.ports import RAY_DEFAULT, PortRange, range_of_raylet
from edgesocket.cluster.registry import Registry
from edgesocket.errors import EdgeSocketError, ExitCode

FACTORY = "edgesocket.cli.hosted:make_host"
"""Makes the host inside an actor."""

HOST_CPUS = 0.001
"""What a host claims of a worker's CPUs: enough to keep it off nodes that take no jobs."""

TELL_S = 2.0
PROBE_S = 15.0
KNOCK_S = 2.0


class RayUnavailableError(EdgeSocketError):
    """Ray cannot be reached, or is not installed."""

    exit_code = ExitCode.UNAVAILABLE


class RayCluster:
    """A connection to Ray. One a process.

    Args:
        root: where the states lie, as text; it also names the namespace, so that several clusters of jobs fit on one
            Ray.
        address: as `ray.init` takes it; "" inside a process that Ray started.

    Raises:
        RayUnavailableError: there is no Ray there.
        ModuleNotFoundError: Ray is not installed.
    """

    def __init__(self, root: str, address: str = "auto") -> None:
        _check_reachable(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
            os.environ.setdefault("RAY_AUTH_MODE", "token")  # who has a token means to show it
        import ray

        self._ray: Any = ray
        self.root = root
        self.namespace = namespace_of(root)
        if ray.is_initialized():
            return
        try:
            ray.init(
                address=address or "auto", namespace=self.namespace, log_to_driver=False, logging_level=logging.ERROR
            )
        except Exception as error:  # Ray raises whatever its layers raise
            raise RayUnavailableError(f"Ray at {address} cannot be reached: {_first_line(error)}") from error

    def nodes(self) -> list[Node]:
        """The nodes that Ray knows, dead ones included."""
        return [_node(one) for one in self._ray.nodes()]

    def own_node(self) -> tuple[str, str]:
        """Id and IP address of the node that this process is on."""
        context = self._ray.get_runtime_context()
        return context.get_node_id(), self._ray.util.get_node_ip_address()

    def host_names(self) -> list[str]:
        """Hosts that live, start, or wait for a worker."""
        return [str(name) for name in self._ray.util.list_named_actors()]

    def ensure_host(self, order: Order) -> None:
        """See that the host of an order exists; where it does, nothing happens. Does not wait for a worker."""
        from edgesocket.cluster.ray_actor import HostActor

        actor = self._ray.remote(HostActor).options(
            name=order.host,
            namespace=self.namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=HOST_CPUS,
            label_selector=selector(order.tag_filter, order.avoid) or None,
            scheduling_strategy="SPREAD",
        )
        actor.remote(self.root, order.host, FACTORY)

    def tell(self, news: Sequence[tuple[str, str]]) -> list[str]:
        """Tell hosts of new orders: host and job of each. Returns those that are no more.

        One that does not hear in time finds out by itself.
        """
        asked: dict[Any, str] = {}
        gone = []
        for host, job in news:
            try:
                asked[self._handle(host).look.remote(job)] = host
            except ValueError:
                gone.append(host)
        if asked:
            heard, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=TELL_S)
            for answer in heard:
                try:
                    self._ray.get(answer, timeout=TELL_S)
                except Exception:  # it ended, or is about to
                    gone.append(asked[answer])
                    self._wait_until_gone(asked[answer])
        return gone

    def _wait_until_gone(self, host: str) -> None:
        """Its name is free for another one then. A host that was only killed comes back under it."""
        deadline = time.monotonic() + TELL_S
        while host in self.host_names() and time.monotonic() < deadline:
            time.sleep(0.05)

    def states(self, host: str, timeout_s: float = TELL_S) -> dict[str, Any] | None:
        """What a host says of itself, or None where it does not answer."""
        try:
            states: dict[str, Any] = self._ray.get(self._handle(host).states.remote(), timeout=timeout_s)
        except Exception:
            return None
        return states

    def end_host(self, host: str) -> None:
        """End a host for good, at once; it may be this process."""
        try:
            self._ray.kill(self._handle(host), no_restart=True)
        except ValueError:
            return  # there is none

    def port_ranges(self, nodes: Sequence[Node], registry: Registry) -> list[tuple[str, PortRange]]:
        """The ports that Ray takes for itself on these nodes: address and range.

        Each node is asked once in its life, by a task on it; a node that does not answer counts as started with
        Ray's defaults.
        """
        asked: list[tuple[Node, Any]] = []
        found: dict[str, PortRange] = {}
        for node in nodes:
            facts = registry.recall("nodes", node.node_id)
            if facts is not None:
                found[node.node_id] = _range(facts)
            else:
                asked.append((node, self._ask_raylet(node)))
        if asked:
            done, _ = self._ray.wait([ref for _, ref in asked], num_returns=len(asked), timeout=PROBE_S)
            for node, ref in asked:
                taken = self._answer(ref) if ref in done else None
                if taken is not None:
                    facts = {"first": taken.first, "last": taken.last, "extra": list(taken.extra)}
                    registry.remember("nodes", node.node_id, facts)
                found[node.node_id] = taken or RAY_DEFAULT
        return [(node.address, found[node.node_id]) for node in nodes]

    def _ask_raylet(self, node: Node) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from edgesocket.cluster.ray_actor import raylet_command

        on_node = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": on_node}
        return self._ray.remote(raylet_command).options(**options).remote()

    def _answer(self, ref: Any) -> PortRange | None:
        try:
            return range_of_raylet(self._ray.get(ref, timeout=TELL_S))
        except Exception:
            return None

    def _handle(self, host: str) -> Any:
        return self._ray.get_actor(host, namespace=self.namespace)


def _check_reachable(address: str) -> None:
    """Knock at the head's port: Ray itself would try for minutes. Raises RayUnavailableError."""
    host, _, port = address.partition("://")[2].rpartition(":") if "://" in address else address.rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except OSError as error:
        raise RayUnavailableError(f"Ray at {address} cannot be reached: {error.strerror or error}") from error


def namespace_of(root: str) -> str:
    """Ray's namespace for the jobs whose states lie in `root`."""
    return f"edgesocket-{crc32(root.encode()):08x}"


def _node(entry: dict[str, Any]) -> Node:
    resources = entry.get("Resources") or {}
    return Node(
        node_id=entry["NodeID"],
        address=entry.get("NodeManagerAddress", ""),
        labels=dict(entry.get("Labels") or {}),
        alive=bool(entry.get("Alive")),
        takes_jobs=resources.get("CPU", 0) > 0,
    )


def _range(facts: dict[str, Any]) -> PortRange:
    return PortRange(int(facts["first"]), int(facts["last"]), tuple(facts["extra"]))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
