"""Many jobs on one worker of a Ray cluster: what an idle one costs in memory and processor time, and when all run.

A Ray node is started with the scripts of `deploy/ray`; the jobs are submitted to it, once with a host process for all
of them, and a few with one each. Memory is PSS: what the processes share is counted once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.harness.build import BENCH
from bench.harness.report import PartResult, Table, Verdict, figure
from bench.harness.servers import ServerFailedError
from bench.parts.part import Context, Part

DEPLOY = BENCH.parent / "deploy" / "ray"
MEMORY_MB = 20.0
CPU_PERCENT = 0.1
START_S = 60.0
SETTLE_S = 15.0
"""Until a job is idle: its first checkpoint, 10 s after it began, is written, those after it have nothing to say."""

JOB = """\
env {{
  job.mode = STREAMING
  job.name = {name}
}}
source {{
  EdgeSocket {{
    port = {port}
    token = "bench-token"
  }}
}}
sink {{
  LocalFile {{
    path = "{out}"
    file_format_type = text
  }}
}}
"""


def free_ports(count: int) -> list[int]:
    """TCP ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@contextlib.contextmanager
def ray_node(scratch: Path) -> Iterator[dict[str, str]]:
    """A Ray cluster of one node. Gives the environment of commands that use it."""
    port = free_ports(1)[0]
    environ = {
        **os.environ,
        "RAY": str(Path(sys.executable).parent / "ray"),
        "RAY_ADDRESS": f"127.0.0.1:{port}",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "EDGESOCKET_RAY_PORT": str(port),
        "EDGESOCKET_CLUSTER": str(scratch / "states"),
        "EDGESOCKET_HTTP": "off",
    }
    with (scratch / "ray.log").open("wb") as log:
        command = [str(DEPLOY / "start-head"), "127.0.0.1", "--num-cpus=2", "--include-dashboard=false"]
        node = subprocess.Popen(
            [*command, f"--temp-dir={scratch / 'ray'}"], env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while not _answers(port):
            if node.poll() is not None or time.monotonic() > deadline:
                raise ServerFailedError(f"Ray does not start: {(scratch / 'ray.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield environ
    finally:
        node.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def submit(
    scratch: Path, environ: dict[str, str], prefix: str, count: int, options: Sequence[str]
) -> tuple[float, list[int]]:
    """Submit jobs and wait until all run. Returns the seconds that took, and their processes and actors."""
    directory = scratch / prefix
    directory.mkdir()
    for number, port in enumerate(free_ports(count)):
        job = JOB.format(name=f"{prefix}{number}", port=port, out=scratch / "out" / f"{prefix}{number}")
        (directory / f"{prefix}{number}.conf").write_text(job)
    began = time.monotonic()
    command = [sys.executable, "-m", "edgesocket", "submit", str(directory), "--wait", "120", *options]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
    seconds = time.monotonic() - began
    if done.returncode:
        raise ServerFailedError(f"submit failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    below = {int(_attempt(scratch, f"{prefix}{number}")["pid"]) for number in range(count)}
    return seconds, sorted(below | {_parent(pid) for pid in below})


def _attempt(scratch: Path, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(max((scratch / "states" / job / "attempts").glob("*.json")).read_bytes())
    return found


def _parent(pid: int) -> int:
    """The actor that started the process of jobs `pid`."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def memory_mb(pids: Sequence[int]) -> float:
    """PSS of processes together."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total * 1024 / 1e6


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time of processes together."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(
    scratch: Path, environ: dict[str, str], prefix: str, count: int, options: Sequence[str], window_s: float
) -> dict[str, Any]:
    """Submit, let them settle, and look at them while nothing happens."""
    seconds, pids = submit(scratch, environ, prefix, count, options)
    time.sleep(SETTLE_S)
    before, began = cpu_seconds(pids), time.monotonic()
    time.sleep(window_s)
    used = (cpu_seconds(pids) - before) / (time.monotonic() - began)
    return {
        "jobs": count,
        "processes": len(pids),
        "start_s": seconds,
        "memory_mb": memory_mb(pids) / count,
        "cpu_percent": used * 100 / count,
    }


def run(context: Context) -> PartResult:
    """Measure both ways of hosting."""
    options = context.options
    if importlib.util.find_spec("ray") is None or not sys.platform.startswith("linux"):
        return PartResult(notes=["The cluster was not measured: it needs Linux and Ray (the extra `ray`)."])
    if options.quick:
        return PartResult(notes=["The cluster was not measured: Ray and a hundred jobs are nothing quick."])
    result, found = PartResult(), []
    with tempfile.TemporaryDirectory(prefix="es-bench-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        with ray_node(scratch) as environ:
            ways = (
                ("apart", options.cluster_apart, (), "a process each"),
                ("shared", options.cluster_jobs, ("--jobs-per-host", str(options.cluster_jobs)), "one process"),
            )
            for prefix, count, more, title in ways:
                figures = measure(scratch, environ, prefix, count, more, options.cluster_seconds)
                found.append((title, figures))
                context.echo(
                    f"{count} jobs, {title}: {figures['memory_mb']:.1f} MB and {figures['cpu_percent']:.3f} % of a "
                    f"core each, all running after {figures['start_s']:.1f} s"
                )
                result.raw.append({"hosting": title, **figures})
    rows = [
        [title, str(one["jobs"]), figure(one["start_s"]), figure(one["memory_mb"]), f"{one['cpu_percent']:.3f}"]
        for title, one in found
    ]
    head = ["jobs in", "jobs", "s until all run", "MB/job (PSS)", "% of a core/job, idle"]
    result.tables.append(Table("Cluster: idle jobs on one worker", head, rows))
    shared = found[-1][1]
    result.verdicts.append(
        Verdict("memory of an idle job in a shared process, MB", shared["memory_mb"], MEMORY_MB, False)
    )
    result.verdicts.append(
        Verdict("an idle job in a shared process, % of a core", shared["cpu_percent"], CPU_PERCENT, False)
    )
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--cluster-jobs", type=int, default=100, help="jobs in one host process (default 100)")
    parser.add_argument("--cluster-apart", type=int, default=8, help="jobs with a process each (default 8)")
    parser.add_argument("--cluster-seconds", type=float, default=20.0, help="how long idle jobs are watched (20)")


PART = Part("cluster", "many idle jobs on one worker of a Ray cluster", run, add_options)
