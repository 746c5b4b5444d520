"""Submitting a job: see that it can run beside the others, then order it.

The check for jobs on the same port is done again after the order is there. Of two people who submit two such jobs at
the same moment at least one sees the other's order, so both cannot stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgesocket.cluster.job_text import JobText
from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.orders import Order, OrderRefusedError, Wanted
from edgesocket.cluster.placement import Node, check_tag_filter, contradict, matches, overlap
from edgesocket.cluster.ports import PortRange, problem_with_port
from edgesocket.cluster.registry import check_cluster_name
from edgesocket.config.specs import JobSpec
from edgesocket.errors import ConfigError, ConfigProblem

POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job to be submitted.

    Attributes:
        spec: the job, checked by itself.
        text: what it is made of.
        host: the host process that is to run it; "": one of its own.
        by: who submits it.
        time_ms: when, Unix time in ms.
    """

    spec: JobSpec
    text: JobText
    host: str = ""
    by: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known of the workers. `nodes`: None where Ray was not asked. `ranges`: of those that fit the job."""

    nodes: Sequence[Node] | None = None
    ranges: Sequence[tuple[str, PortRange]] = ()


def submit(jobs: Jobs, submission: Submission, cluster: Cluster) -> Order:
    """Order that a job runs. Returns the order.

    Raises:
        ConfigError: it cannot run in this cluster: labels, its port, another job.
        OrderRefusedError: it runs already, or somebody submitted at the same moment.
        StoreError: the store failed.
    """
    spec = submission.spec
    check_for_cluster(spec, cluster)
    before = jobs.order(spec.name)
    if before is not None and before.wanted is Wanted.RUNNING:
        raise OrderRefusedError(
            f"job {spec.name} is submitted already (by {before.by}, {before.since}); cancel it first, or replace it "
            "with --apply"
        )
    return replace_order(jobs, submission, cluster, before)


def replace_order(jobs: Jobs, submission: Submission, cluster: Cluster, before: Order | None) -> Order:
    """As `submit`, for a job that may run: then its host lets the old one go with a last checkpoint first."""
    spec = submission.spec
    host = submission.host or spec.name
    _check_host(jobs, host, spec)
    _check_port(jobs, spec, cluster)
    runs = before is not None and before.wanted is Wanted.RUNNING
    order = Order(
        n=1 + (0 if before is None else before.n),
        wanted=Wanted.RUNNING,
        job=spec.name,
        text=submission.text,
        port=spec.sources[0].options.port,
        tag_filter=dict(spec.env.tag_filter),
        host=host,
        after=before.host if before is not None and runs else "",
        by=submission.by,
        time_ms=submission.time_ms,
    )
    jobs.append(order)
    try:
        _check_port(jobs, spec, cluster)
    except ConfigError:
        reason = "another job got the port"
        if before is not None and runs:  # the version that ran goes on
            again = before.followed_by(
                Wanted.RUNNING, by=submission.by, time_ms=submission.time_ms, reason=reason, after=order.host
            )
            jobs.append(replace(again, n=order.n + 1))
        else:
            jobs.append(
                order.followed_by(Wanted.CANCELLED, by=submission.by, time_ms=submission.time_ms, reason=reason)
            )
        raise
    return order


def check_for_cluster(spec: JobSpec, cluster: Cluster) -> None:
    """See that a job can run on workers at all. Raises ConfigError with every problem."""
    source = spec.sources[0]
    problems: list[ConfigProblem] = []
    try:
        check_cluster_name(spec.name, "env.job.name")
        check_tag_filter(spec.env.tag_filter)
    except ConfigError as error:
        problems += error.problems
    wrong = problem_with_port(source.options.port, cluster.ranges, source.location)
    if wrong is not None:
        problems.append(wrong)
    if problems:
        raise ConfigError(problems)


def _check_port(jobs: Jobs, spec: JobSpec, cluster: Cluster) -> None:
    source = spec.sources[0]
    port = source.options.port
    for other in jobs.running_on_port(port):
        if other.job == spec.name or not overlap(spec.env.tag_filter, other.tag_filter, cluster.nodes):
            continue
        place = _shared_place(spec, other, cluster.nodes)
        message = f"job {other.job} listens on port {port} too, and {place}"
        fix = f"give each job a port of its own, or tag_filters that contradict each other; or cancel {other.job}"
        raise ConfigError([ConfigProblem(f"source.{source.plugin}.port", message, fix, source.location)])


def _shared_place(spec: JobSpec, other: Order, nodes: Sequence[Node] | None) -> str:
    if nodes is None:
        return "some worker could be given both: their tag_filters do not contradict each other"
    both = [node for node in nodes if matches(spec.env.tag_filter, node) and matches(other.tag_filter, node)]
    return f"worker {both[0].address} could be given both"


def _check_host(jobs: Jobs, host: str, spec: JobSpec) -> None:
    """A host is one process on one worker, so all its jobs ask for the same labels, and each for another port."""
    check_cluster_name(host, "--host")
    for other in jobs.running_on_host(host):
        if other.job == spec.name:
            continue
        if dict(other.tag_filter) != dict(spec.env.tag_filter):
            asked = "contradicts" if contradict(other.tag_filter, spec.env.tag_filter) else "is not"
            message = f"host {host} runs job {other.job}, whose tag_filter {asked} that of this job"
            raise ConfigError([ConfigProblem("env.tag_filter", message, "choose another --host")])


def pool_host(jobs: Jobs, spec: JobSpec, jobs_per_host: int) -> str:
    """A host with room for one more job with these labels, under `--jobs-per-host`; perhaps a new one."""
    label = "-".join(f"{name}.{value}" for name, value in sorted(spec.env.tag_filter.items())).replace("/", ".")
    prefix = f"{POOL}-{label}" if label else POOL
    number = 0
    while True:
        number += 1
        host = f"{prefix}-{number}"
        others = [order.job for order in jobs.running_on_host(host) if order.job != spec.name]
        if len(others) < jobs_per_host:
            return host
