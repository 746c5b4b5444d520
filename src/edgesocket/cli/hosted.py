"""What runs inside a host process of a cluster: the jobs of `edgesocket run`, made from orders.

`make_host` is named, as text, when a host's actor is made (`cluster.ray_cluster.FACTORY`), so that the cluster knows
nothing of the command line.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TextIO, cast

from edgesocket.cli.allocator import keep_memory_steady
from edgesocket.cli.binding import bound
from edgesocket.cli.job_files import JobFile
from edgesocket.cli.log import LogLines
from edgesocket.cli.plugged import InstalledPlugins
from edgesocket.cli.running import RunningJob
from edgesocket.cli.web_flags import web_options_of, web_server
from edgesocket.cluster.host import Hosted, HostFacts, JobHost, Surroundings
from edgesocket.cluster.host_link import Above
from edgesocket.cluster.job_log import JobLogFile
from edgesocket.cluster.jobs_of import Jobs, address_of
from edgesocket.cluster.moving import moved
from edgesocket.cluster.orders import Order, order_after
from edgesocket.cluster.ports import PortRange, problem_with_port, range_of_raylet
from edgesocket.cluster.ray_actor import raylet_command
from edgesocket.config.specs import JobSpec
from edgesocket.engine.rounds import Rounds
from edgesocket.errors import ConfigError, ExitCode, UsageError
from edgesocket.store.place import Place, root_of
from edgesocket.telemetry.masking import Mask

LEASE_MS = 2000
"""Of a job that names none: the successor on another worker waits for so long, and the owner has to beat within it."""

RELOCATE_RETRY_S = 2.0
"""How long after Ray did not answer it is asked again for a host elsewhere."""

_ROUNDS = Rounds()
"""Looks after all jobs of this process."""


def make_host(root: str, name: str, above: Above) -> JobHost:
    """The host `name` of the cluster whose states lie in `root`, in the process that its actor has started."""
    keep_memory_steady()
    node, address = above.node, above.address
    jobs = Jobs(root_of(root))
    logs = HostLogs(jobs)
    web = _WebHost()
    server = web_server(web_options_of(argparse.Namespace(), {}), web, partial(logs, ""), web.begins)
    url = "" if server is None else server.url
    facts = HostFacts(
        name=name, node=node, address=address, pid=os.getpid(), http=url, follows=above.follows, before=above.before
    )
    taken = range_of_raylet(raylet_command())

    def relocate(order: Order, reason: str) -> bool:
        by = f"host {name} (pid {facts.pid} on {address})"
        nodes = above.nodes()
        fresh = moved(order, node, nodes, by=by, time_ms=time.time_ns() // 1_000_000, reason=reason[:500])
        jobs.append(fresh)
        logs(order.job, f"moves away from {address}: {reason}")
        store = jobs.place(order.job).open_store()
        while order_after(store, fresh) is None:  # the order stands, so nobody else makes that host
            try:
                above.ensure_host(fresh)
                break
            except Exception as error:
                logs(order.job, f"Ray gives no host on another worker yet: {error}")
                time.sleep(RELOCATE_RETRY_S)
        return True

    def give_way() -> None:
        above.replaced()
        os._exit(ExitCode.TRY_LATER)

    host = JobHost(
        facts,
        Surroundings(
            registry=jobs.registry,
            place=jobs.place,
            make_job=partial(make_job, jobs, logs, address, taken, url),
            relocate=relocate,
            end_process=os._exit,
            give_way=give_way,
            begun=above.begun,
            retire=lambda: above.end_host(name),
            report=logs,
            masked=logs.masked,
        ),
    )
    web.host = host
    if server is not None:
        server.start()
    gc.collect()
    gc.freeze()  # nothing made so far is garbage: the collector need not look at it again
    return host


def make_job(
    jobs: Jobs,
    logs: HostLogs,
    address: str,
    taken: PortRange | None,
    url: str,
    order: Order,
    take_over: bool,
    start: int,
    report: Callable[[object], None],
) -> Hosted:
    """The job of an order, not running yet.

    Args:
        jobs: of the cluster.
        logs: of this host.
        address: of this worker.
        taken: ports that Ray takes for itself on this worker; None: not known.
        url: where this host answers about health, or "".
        order: what is wanted.
        take_over: claim it from whoever owns it.
        start: number of this start of the host.
        report: takes its log.

    Raises:
        ConfigError: it cannot run here.
    """
    spec = order.text.load(os.environ, InstalledPlugins())
    source = spec.sources[0]
    wrong = problem_with_port(source.options.port, [(address, taken)] if taken else [], source.location)
    if wrong is not None:
        raise ConfigError([wrong])
    logs.hide(order.job, Mask(spec.secrets))
    place = jobs.place(order.job)
    spec = with_endpoint(with_lease(spec, place), address)
    file = bound(JobFile(Path(order.text.file), spec, place, dict(order.tag_filter), spec.notes))
    job = RunningJob(file, report, take_over=take_over, rounds=_ROUNDS)
    job.http, job.host_start = url, start
    report(job.greeting())
    return _HostedJob(job)


def with_lease(spec: JobSpec, place: Place) -> JobSpec:
    """The job with the lease of a cluster, unless it names one, or each sign of life is a request to a bucket."""
    if spec.env.lease_ms is not None or place.apart is not None:
        return spec
    return replace(spec, env=replace(spec.env, lease_ms=LEASE_MS))


def with_endpoint(spec: JobSpec, address: str) -> JobSpec:
    """The job with an endpoint: the one it names, else where it listens on this worker."""
    source = spec.sources[0]
    if source.options.endpoint:
        return spec
    options = replace(source.options, endpoint=address_of(address, source.options.port))
    return replace(spec, sources=(replace(source, options=options),))


class _HostedJob:
    """A RunningJob as its host sees it."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job
        self._hangs_after_s = job.file.spec.env.checkpoint_failure_timeout_ms / 1000

    def run(self) -> int:
        """See Hosted."""
        return self.job.run()

    def stop(self) -> None:
        """See Hosted."""
        self.job.runner.stop()

    @property
    def fenced(self) -> bool:
        """See Hosted."""
        return self.job.runner.fenced

    @property
    def stuck(self) -> bool:
        """See Hosted. A sink that only fails goes round all the time; one that does not come back at all is given as
        long as one that fails."""
        return self.job.runner.standstill_s > self._hangs_after_s


class _WebHost:
    """This process as its HTTP server sees it: one that answers, and is told what to do by orders alone."""

    why_no_submit = "jobs of a cluster are submitted with edgesocket submit"

    def __init__(self) -> None:
        self.host: JobHost | None = None

    def jobs(self) -> list[RunningJob]:
        """See web.hosted.Host."""
        return [] if self.host is None else [one.job for one in self.host.jobs() if isinstance(one, _HostedJob)]

    def submit(self, text: str, file_format: Literal["json", "hocon"], name: str | None, *, restored: bool) -> str:
        """See web.hosted.Host."""
        del text, file_format, name, restored
        raise UsageError(self.why_no_submit)

    def begins(self) -> bool:
        """Whether jobs run: what the server has to load is not to make them wait."""
        return self.host is not None and all(job.published is not None for job in self.jobs())


class HostLogs:
    """Log lines of jobs into their files, and of the host itself to standard error."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._own = LogLines(sys.stderr)
        self._of: dict[str, LogLines] = {}
        self._masks: dict[str, Callable[[str], str]] = {}

    def hide(self, job: str, mask: Callable[[str], str]) -> None:
        """Take the secrets of a job out of its lines from here on."""
        self._masks[job] = mask

    def __call__(self, job: str, event: object) -> None:
        if not job:
            self._own(event)
            return
        lines = self._of.get(job)
        if lines is None:
            stream = cast("TextIO", JobLogFile(self._jobs.place(job).scratch))
            lines = self._of[job] = LogLines(stream, job=job, mask=partial(self.masked, job))
        lines(event)

    def masked(self, job: str, text: str) -> str:
        mask = self._masks.get(job)
        return text if mask is None else mask(text)
