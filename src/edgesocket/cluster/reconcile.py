"""Make the hosts that the orders ask for: after the head of the Ray cluster was lost, after an upgrade, or to be sure.

Does no harm at any time, and several may do it at once: a host that is there is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.orders import Order, Wanted
from edgesocket.cluster.workers import Workers
from edgesocket.errors import EdgeSocketError


@dataclass(slots=True)
class Reconciled:
    """What was done.

    Attributes:
        jobs: newest orders of jobs that are to run.
        made: hosts that were missing.
        unreadable: jobs whose orders cannot be read, and why.
    """

    jobs: list[Order] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def reconcile(jobs: Jobs, workers: Workers, names: Iterable[str] | None = None) -> Reconciled:
    """See that each job that is to run has its host, and that the host knows.

    Args:
        jobs: of the cluster.
        workers: where hosts live.
        names: only these jobs.

    Raises:
        StoreError: the store failed.
    """
    result = Reconciled()
    for name in jobs.registry.jobs() if names is None else names:
        try:
            order = jobs.order(name)
        except EdgeSocketError as error:
            result.unreadable.append((name, str(error)))
            continue
        if order is not None and order.wanted is Wanted.RUNNING:
            result.jobs.append(order)
    before = set(workers.host_names())
    there = set(before)
    for order in result.jobs:
        if order.host not in there:
            workers.ensure_host(order)
            there.add(order.host)
            result.made.append(order.host)
    if names is not None:
        # A host that was made just now reads its orders by itself; one that was there may have retired meanwhile.
        gone = set(workers.tell([(order.host, order.job) for order in result.jobs if order.host in before]))
        for order in result.jobs:
            if order.host in gone:
                gone.remove(order.host)
                workers.ensure_host(order)
    return result
