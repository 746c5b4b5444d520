"""Putting a job on another worker: one order, by a person (`edgesocket move`) or by a host whose worker has its port
taken. The host that runs it lets go with a last checkpoint, the new one waits for that."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgesocket.cluster.orders import Order, OrderRefusedError, Wanted
from edgesocket.cluster.placement import Node, explain, matches

MOST_AVOIDED = 8
"""Workers that a job remembers to avoid; the oldest is forgotten first."""

_GENERATION = re.compile(r"~(\d+)$")


def moved(
    order: Order, away_from: str, nodes: Sequence[Node], *, by: str, time_ms: int, reason: str = "", force: bool = False
) -> Order:
    """The order that moves a job.

    Args:
        order: its newest one.
        away_from: id of the node that it is to leave; "" where it runs on none: then another may be the same.
        nodes: of the cluster.
        by, time_ms, reason: of the new order.
        force: also when no other worker fits now; it then waits for one.

    Raises:
        OrderRefusedError: it is not to run, or no other worker fits.
    """
    if order.wanted is not Wanted.RUNNING:
        raise OrderRefusedError(f"job {order.job} is not to run ({order.wanted} since {order.since}): submit it")
    alive = {node.node_id for node in nodes if node.alive}
    avoid = [node for node in order.avoid if node in alive and node != away_from]
    avoid = [*avoid, away_from][-MOST_AVOIDED:] if away_from else avoid
    if not force and not any(matches(order.tag_filter, node, avoid) for node in nodes):
        # Those avoided earlier may do again; only the one it leaves may not.
        avoid = [away_from] if away_from else []
        if not any(matches(order.tag_filter, node, avoid) for node in nodes):
            raise OrderRefusedError(f"no other worker fits: {explain(order.tag_filter, nodes, avoid)}")
    return order.followed_by(
        Wanted.RUNNING,
        by=by,
        time_ms=time_ms,
        reason=reason,
        host=next_host(order),
        avoid=tuple(avoid),
        after=order.host,
    )


def next_host(order: Order) -> str:
    """A host of its own for a job that moves: `job~2`, `job~3`, ... The number of the order makes it a new one."""
    found = _GENERATION.search(order.host)
    base = order.host[: found.start()] if found and order.host.startswith(order.job) else order.job
    return f"{base}~{order.n + 1}"
