"""One agent, one job, a link between them and an application that logs: all real processes, on directories of a run."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self
from uuid import uuid4

from chaos.destinations import Destination, Files, Servers, Table, Topic
from chaos.disk import SmallDisk
from chaos.postgres import Postgres
from chaos.proxy import Link
from chaos.shim import Shim
from chaos.wire import Wire, inside
from chaos.writer import Writer
from tests.support.agents import AgentProcess
from tests.support.jobs import ROOT, Job, free_port, write_job
from tests.support.kafka import KafkaBroker

DISK_BYTES = 24 << 20
LONG_DISK_BYTES = 160 << 20
"""For hours: the log of commits keeps up to 10,000 entries, and each takes a block."""
RESTART_S = 0.2
_ENV = "checkpoint.interval = 100\n job.retry.times = 100000\n job.retry.interval.seconds = 1"
_SOURCE = "deduplicate = true"
_WATCH_S = 0.05
_FIRST_S = 90.0


class Kept:
    """A process that is started again when it ends by itself, as systemd would; not while a fault holds it down.

    Attributes:
        ends: exit codes it ended with by itself.
        process: the one that runs now.
    """

    def __init__(self, launch: Callable[[], Job | AgentProcess]) -> None:
        self.ends: Counter[int] = Counter()
        self._launch = launch
        self._lock = threading.Lock()
        self._held = False
        self.process = launch()

    def kill(self) -> None:
        """kill -9, and hold it down."""
        with self._lock:
            self._held = True
            self.process.kill()

    def start(self) -> None:
        """Start it again."""
        with self._lock:
            self.process = self._launch()
            self._held = False

    def replace(self, launch: Callable[[], Job | AgentProcess]) -> Job | AgentProcess:
        """Start another one beside it, and look after that one from now on. Returns the one before."""
        with self._lock:
            before, self.process = self.process, launch()
            return before

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        with self._lock:
            if self.process.process.poll() is None:
                self.process.process.send_signal(number)

    def watch(self) -> None:
        """Start it again if it has ended by itself."""
        with self._lock:
            code = self.process.process.poll()
            if self._held or code is None:
                return
            self.ends[code] += 1
            time.sleep(RESTART_S)
            self.process = self._launch()

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM; returns the exit code."""
        with self._lock:
            self._held = True
            return self.process.stop(timeout_s)

    def end(self) -> None:
        """Whatever its state is."""
        with self._lock:
            self._held = True
            if self.process.process.poll() is None:
                self.process.process.send_signal(signal.SIGCONT)
            self.process.kill()


class World:
    """What the faults of a row strike at. A context manager: everything is ended and unmounted at the end.

    Args:
        directory: empty; for everything.
        sink: `files`, `kafka` or `postgresql`.
        servers: broker and database.
        dice: all that is random.
        rate: lines a second.
        small: which directory is a small disk of its own: `state`, `spool` or `out`; `database` for PostgreSQL's.
        shims: of what the processes see another disk or clock: `agent:spool`, `ingress:state`, `ingress:out`.
        apart: agent and ingress stand in network namespaces of their own, with a `wire` between them.
        far: the database is reached over a link of its own.
        mutation: a deliberate fault in the product, one of tests/simulation/mutations.py; start-up takes longer then.
        long: rows are counted and forgotten, and so are the log files: for hours instead of seconds.
    """

    def __init__(
        self,
        directory: Path,
        *,
        sink: str,
        servers: Servers,
        dice: random.Random,
        rate: Callable[[float], float],
        small: str = "",
        shims: str = "",
        apart: bool = False,
        far: bool = False,
        long: bool = False,
        mutation: str = "",
    ) -> None:
        self.directory, self.dice = directory, dice
        self._ends = contextlib.ExitStack()
        self._servers = servers
        self._env = _mutated(mutation) if mutation else {}
        for name in ("logs", "state", "spool", "out"):
            (directory / name).mkdir()
        self._stop_watching = threading.Event()
        try:
            self._make_disks(small, shims, LONG_DISK_BYTES if long else DISK_BYTES)
            self.wire = self._ends.enter_context(Wire()) if apart else None
            self._make_destination(sink, far=far, small=small == "database", long=long)
            self._make_processes(long, rate)
        except BaseException:
            self._ends.close()
            raise

    def _make_disks(self, small: str, shims: str, size: int) -> None:
        self.disk: SmallDisk | None = None
        if small in ("state", "spool", "out"):
            self.disk = SmallDisk(self.directory / small, size)
            self._ends.callback(self.disk.close)
        self.shim: Shim | None = None
        self._shim_of, _, below = shims.partition(":")
        if shims:
            self.shim = Shim(self.directory / "shim", self.directory / below)
            self._ends.callback(self.shim.close)

    def _make_destination(self, sink: str, *, far: bool, small: bool, long: bool) -> None:
        self.broker: KafkaBroker | None = None
        self.database: Postgres | None = None
        self.sink_link: Link | None = None
        self.destination: Destination
        if sink == "kafka":
            self.broker = self._servers.kafka
            self.destination = Topic(self.broker)
        elif sink == "postgresql":
            self.database = self._servers.postgres(small=small)
            if small:
                self.disk = self.database.disk
            port = self.database.port
            if far:
                self.sink_link = self._ends.enter_context(Link(("127.0.0.1", port), self.dice, reads_along=False))
                port = self.sink_link.port
            self.destination = Table(self.database, port)
        else:
            self.destination = Files(self.directory / "out", forget=long)

    def _make_processes(self, long: bool, rate: Callable[[float], float]) -> None:
        self._jobs = 0
        # A name of its own: what a database or broker knows of a job outlives the run.
        self._job_env = f"job.name = chaos-{uuid4().hex[:12]}\n {_ENV}"
        self.fenced: Counter[int] = Counter()
        port = self._write_job()
        self._host = self.wire.ingress_host if self.wire else "127.0.0.1"
        with inside(self.wire, "agent"):
            self.link = self._ends.enter_context(Link((self._host, port), self.dice))
        self.writer = Writer(
            self.directory / "logs", rate, self.dice, confirmed=(lambda: self.link.promises.count) if long else None
        )
        self._ends.callback(self.writer.end)
        self.ingress = Kept(self._launch_ingress)
        self._ends.callback(self.ingress.end)
        self.agent = Kept(self._launch_agent)
        self._ends.callback(self.agent.end)
        watch = threading.Thread(target=self._watch, name="watch")
        watch.start()
        self._ends.callback(watch.join)
        self._ends.callback(self._stop_watching.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def begin(self) -> None:
        """Begin to write; returns when the first lines are confirmed. Raises AssertionError when none ever are."""
        self.writer.start()
        deadline = time.monotonic() + _FIRST_S
        while not self.link.promises.count:
            assert time.monotonic() < deadline, f"nothing is confirmed, see {self.directory}"
            time.sleep(0.02)

    def wait_for_progress(self, timeout_s: float) -> None:
        """Return when more lines are confirmed than now, or after that time."""
        before, deadline = self.link.promises.count, time.monotonic() + timeout_s
        while self.link.promises.count == before and time.monotonic() < deadline:
            time.sleep(0.02)

    def ends(self) -> dict[str, int]:
        """How often each process ended by itself, by exit code; `fenced` are those that lost their job."""
        kept = {"agent": self.agent.ends, "ingress": self.ingress.ends, "fenced": self.fenced}
        return {f"{name}:{code}": count for name, ends in kept.items() for code, count in ends.items()}

    def take_over(self) -> Job | AgentProcess:
        """Start the job again, with a port of its own as on another host, though it runs. Returns its first process.

        The link leads to the new one from then on.
        """
        port = self._write_job()
        before = self.ingress.replace(lambda: self._launch_ingress("--take-over"))
        self._ends.callback(before.kill)
        self.link.lead_to((self._host, port))
        return before

    def pause(self, least_s: float, most_s: float) -> None:
        """Let time pass."""
        time.sleep(self.dice.uniform(least_s, most_s))

    def _shim_env(self, name: str) -> dict[str, str]:
        return {**self._env, **(self.shim.env if self.shim is not None and self._shim_of == name else {})}

    def _write_job(self) -> int:
        self._jobs += 1
        port, name = free_port(), f"job-{self._jobs}"
        self._conf = write_job(
            self.directory, port, env=self._job_env, source=_SOURCE, sink=self.destination.block(), name=name
        )  # fmt: skip
        return port

    def _launch_ingress(self, *options: str) -> Job:
        with inside(self.wire, "ingress"):
            env = {"EDGESOCKET_HTTP": "off", **self._shim_env("ingress")}
            return Job(self._conf, "--state-dir", str(self.directory / "state" / "job"), *options, env=env)

    def _launch_agent(self) -> AgentProcess:
        with inside(self.wire, "agent"):
            return AgentProcess(
                "--file", str(self.directory / "logs" / "app.log*"), "--from-beginning",
                "--to", f"127.0.0.1:{self.link.port}", "--spool", self.directory / "spool" / "agent",
                log=self.directory / "agent.log", env=self._shim_env("agent"),
            )  # fmt: skip

    def _watch(self) -> None:
        while not self._stop_watching.wait(_WATCH_S):
            self.agent.watch()
            self.ingress.watch()


def _mutated(name: str) -> dict[str, str]:
    """Let every Python that is started with this have that fault in it."""
    paths = [str(Path(__file__).parent / "mutated"), str(ROOT)]
    return {"CHAOS_MUTATION": name, "PYTHONPATH": os.pathsep.join(paths)}


@contextlib.contextmanager
def held(undo: Callable[[], object]) -> Iterator[None]:
    """Undo a fault, whatever happens in between."""
    try:
        yield
    finally:
        undo()
