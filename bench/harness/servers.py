"""Servers under test: any command that listens on a port and speaks the protocol.

The product is one of them. The others are what it is compared with.
"""

from __future__ import annotations

import importlib.util
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.build import BENCH, Toolbox
from bench.harness.machine import Pins, cpu_seconds, settler

TOKEN = "bench"
READY_S = 60.0
STOP_S = 30.0

_JOB = """\
env {{
  job.name = "bench"
  job.mode = "STREAMING"
  checkpoint.interval = 1000
}}
source {{
  EdgeSocket {{
    port = {port}
    token = "{token}"
    local_queue_capacity = {queue}
    SOURCE
  }}
}}
sink {{
  SINK
}}
"""


def job_text(source: str = "", sink: str = "Null {{}}") -> str:
    """A job of the product; `{port}`, `{token}`, `{queue}` and `{dir}` are filled in when it is started.

    Args:
        source: further options of its source.
        sink: the sink block.
    """
    return _JOB.replace("SOURCE", source).replace("SINK", sink)


class ServerFailedError(Exception):
    """A server did not start, or ended before it was told to. Holds the end of what it printed."""


@dataclass(frozen=True)
class ServerSpec:
    """How to start one server.

    Attributes:
        key: the short name for options and ratios (`blind`).
        title: the name in tables.
        command: the command line; `{port}`, `{token}`, `{queue}`, `{dir}` and `{job}` are filled in.
        queue: capacity of its queue, or None for a server without one.
        replies: False for a server that never answers.
        job: the text of its job file, with the same names to fill in.
    """

    key: str
    title: str
    command: tuple[str, ...]
    queue: int | None = None
    replies: bool = True
    job: str = job_text()


@dataclass
class Server:
    """A running server. `next_id` is the lowest id that a generator may use on it."""

    spec: ServerSpec
    process: subprocess.Popen[bytes]
    port: int
    log: Path
    next_id: int = field(default_factory=lambda: int(time.time()) * 1_000_000)

    def check(self) -> None:
        """Raise if it has ended."""
        if (code := self.process.poll()) is not None:
            raise ServerFailedError(f"{self.spec.title} ended with exit code {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def cpu_seconds(self) -> float | None:
        """CPU time so far."""
        return cpu_seconds(self.process.pid)

    def wait_ready(self) -> None:
        """Wait until the port takes connections."""
        deadline = time.monotonic() + READY_S
        while True:
            self.check()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise ServerFailedError(f"{self.spec.title} does not listen:\n{self.last_words()}") from None
                time.sleep(0.02)

    def stop(self) -> None:
        """End it: politely, then not."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def start(spec: ServerSpec, pins: Pins, directory: Path) -> Server:
    """Start a server with a directory of its own; it may not be ready yet."""
    place = directory / spec.title.replace(" ", "-").replace(",", "").replace("/", "-")
    place.mkdir(parents=True)
    port, log, job = free_port(), place / "output.log", place / "job.conf"
    values = {"port": port, "token": TOKEN, "queue": spec.queue or 65536, "dir": place, "job": job}
    job.write_text(spec.job.format(**values))
    job.chmod(0o600)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [word.format(**values) for word in spec.command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=settler(pins.server, pins.nice),
        )
    return Server(spec, process, port, log)


@contextmanager
def running(specs: Sequence[ServerSpec], pins: Pins, directory: Path) -> Iterator[list[Server]]:
    """Start all, wait until all are ready, stop all at the end."""
    servers: list[Server] = []
    try:
        for spec in specs:  # one by one: those that were started must be stopped if a later one fails
            servers.append(start(spec, pins, directory))  # noqa: PERF401
        for server in servers:
            server.wait_ready()
        yield servers
    finally:
        for server in servers:
            server.stop()


def comparison_servers(tools: Toolbox) -> dict[str, ServerSpec]:
    """What the product is compared with, by key."""
    python = (sys.executable, str(BENCH / "servers" / "line_server.py"))
    raw = (sys.executable, str(BENCH / "servers" / "raw_sink.py"), "{port}")
    label = "" if tools.blind_sink.language == "C" else " in PYTHON"
    specs = [
        ServerSpec("raw", "raw recv_into", raw, replies=False),
        ServerSpec("blind", f"blind answers{label}", (*tools.blind_sink.command, "{port}")),
        ServerSpec("list", "line server, list a chunk", (*python, "list", "{port}")),
        ServerSpec("stream", "line server, file lines", (*python, "stream", "{port}")),
        ServerSpec("asyncio", "line server, asyncio", (*python, "asyncio", "{port}")),
    ]
    return {spec.key: spec for spec in specs}


def product_command(asked: str) -> tuple[str, ...] | None:
    """The command of the server under test, or None when edgesocket is not installed."""
    if asked:
        return tuple(shlex.split(asked))
    if importlib.util.find_spec("edgesocket") is None:
        return None
    return (sys.executable, "-m", "edgesocket", "run", "{job}", "--state-dir", "{dir}/state")


def product(command: tuple[str, ...], queue: int) -> ServerSpec:
    """The server under test with a queue of this capacity."""
    return ServerSpec("product", f"EdgeSocket, queue {queue:,}", command, queue=queue)
