"""Real jobs in processes, and a collector that trusts every ACK, for the integration tests."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.template_process import ForkedRun, fork_run

ROOT = Path(__file__).parents[2]
TOKEN = "integration-token"
START_TIMEOUT_S = 30.0


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_job(
    directory: Path, port: int, *, env: str = "", source: str = "", sink: str = "", name: str = "job"
) -> Path:
    """A job file: EdgeSocket to a LocalFile of text lines in `directory`/out, unless `sink` says otherwise."""
    sink = sink or f'LocalFile {{ path = "{directory / "out"}", file_format_type = text }}'
    path = directory / f"{name}.conf"
    path.write_text(
        f"env {{ job.mode = STREAMING\n checkpoint.interval = 50\n {env} }}\n"
        f'source {{ EdgeSocket {{ port = {port}\n token = "{TOKEN}"\n {source} }} }}\n'
        f"sink {{ {sink} }}\n"
    )
    return path


def rows(directory: Path) -> list[str]:
    """The rows in the published files of `directory`, file by file."""
    found: list[str] = []
    for path in sorted(directory.glob("part-*")):
        found += path.read_text(encoding="utf-8").split("\n")[:-1]
    return found


def wait_until(condition: Callable[[], Any], timeout_s: float = 30.0, what: str = "it") -> Any:
    """Poll `condition` until it is true; returns what it returned."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.01)
    return found


def edgesocket(*arguments: str | Path, timeout_s: float = 60.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. `options` go to `subprocess.run`."""
    command = [sys.executable, "-m", "edgesocket", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, **{"check": False, "cwd": ROOT, **options}
    )


class Job:
    """One `edgesocket run` process.

    Args:
        conf: the job file.
        options: further arguments of `run`.
        kill_at: a fault point and which time, see `killable_run`.
        signal_at_point: what the process does to itself there; None: the thread hangs.
        log: where its standard error goes, if not beside the job file.
        stdout: where its standard output goes.
        env: further environment variables.
        forked: fork it off a process that has its imports done already (with `kill_at`; see `template_process`).
    """

    def __init__(
        self,
        conf: Path,
        *options: str,
        kill_at: tuple[str, int] | None = None,
        signal_at_point: signal.Signals | None = signal.SIGKILL,
        log: Path | None = None,
        stdout: int = subprocess.DEVNULL,
        env: dict[str, str] | None = None,
        forked: bool = False,
    ) -> None:
        command = [sys.executable, "-m", "edgesocket"]
        if kill_at is not None:
            point, nth = kill_at
            name = "HANG" if signal_at_point is None else signal_at_point.name
            command = [sys.executable, "-m", "tests.support.killable_run", name, point, str(nth)]
        self.log = log or conf.parent / f"{conf.stem}.log"
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        self.process: subprocess.Popen[bytes] | ForkedRun
        if forked and kill_at is not None:
            run = fork_run((name, point, nth), ["run", str(conf), *options], self.log)
            if run is not None:
                self.log.touch()
                self.process = run
                return
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen(
                [*command, "run", str(conf), *options],
                stderr=stream,
                stdout=stdout,
                cwd=ROOT,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def wait_for_state(self, state: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when the kernel shows the process in this state (`T`: stopped)."""
        path = Path(f"/proc/{self.pid}/stat")
        wait_until(lambda: path.read_text().rpartition(")")[2].split()[0] == state, timeout_s, f"state {state}")

    def wait(self, timeout_s: float = 30.0) -> int:
        """The exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {timeout_s:g} s:\n{self.log_text()}") from None

    def log_text(self) -> str:
        """What this process has logged."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_from)
            return stream.read().decode()

    def wait_until_listening(self) -> bool:
        """True once the port is open, False if the process ended first."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if "listener opened" in self.log_text():
                return True
            if self.process.poll() is not None:
                return "listener opened" in self.log_text()
            time.sleep(0.01)
        raise AssertionError(f"the job did not open its port:\n{self.log_text()}")

    def stop(self, timeout_s: float = 30.0) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, if it still lives."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
        self.kill()


class Wire:
    """One authenticated connection, line by line."""

    def __init__(self, port: int, token: str = TOKEN) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")
        try:
            self.authenticated = self.ask(f"__AUTH__:{token}")
        except BaseException:
            self.close()
            raise

    def send(self, *lines: str | bytes) -> None:
        """Send request lines."""
        self.socket.sendall(b"".join((x.encode() if isinstance(x, str) else x) + b"\n" for x in lines))

    def read(self) -> str:
        """One reply line, without its end; "" at the end of the connection."""
        return self._file.readline().decode().removesuffix("\n")

    def ask(self, *lines: str | bytes) -> str:
        """Send request lines, return the replies joined by blanks."""
        self.send(*lines)
        return " ".join(self.read() for _ in lines)

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for_ack(wire: Wire, batch_id: int, timeout_s: float = 20.0) -> str:
    """Poll until the reply is no longer PENDING; returns it."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        reply = wire.ask(f"__COMMIT__:{batch_id}")
        if reply != "PENDING":
            return reply
        time.sleep(0.01)
    raise AssertionError(f"batch {batch_id} is still PENDING")


def payload_of(batch_id: int) -> str:
    """`p<n>`: what `EagerCollector` sends unless it is told otherwise."""
    return f"p{batch_id}"


@dataclass
class EagerCollector:
    """Sends ids 1, 2, 3, ...; deletes at every ACK; knows nothing but what the protocol tells it.

    Batch n has the payload `payload(n)`. `unconfirmed` holds what it has not deleted yet.
    """

    next_id: int = 1
    acked: int = 0
    unconfirmed: dict[int, str] = field(default_factory=dict)
    received: set[int] = field(default_factory=set)
    answers_after_restart: dict[str, int] = field(default_factory=dict)
    payload: Callable[[int], str] = payload_of

    def run(self, port: int, until_id: int, pause_s: float = 0.0) -> bool:
        """Converse until `until_id` is acknowledged (True) or the connection breaks (False)."""
        try:
            wire = Wire(port)
        except OSError:
            return False
        try:
            if wire.authenticated != "ACK":
                return False
            self._catch_up(wire)
            while self.acked < until_id:
                while self.next_id <= until_id and len(self.unconfirmed) < 40:
                    self.unconfirmed[self.next_id] = self.payload(self.next_id)
                    self.next_id += 1
                    self._offer(wire, self.next_id - 1)
                    time.sleep(pause_s)
                self._poll(wire, max(self.unconfirmed))
            return True
        except (OSError, EOFError):
            return False
        finally:
            wire.close()

    def _catch_up(self, wire: Wire) -> None:
        """What was received before must not be forgotten: every such id is acknowledged, pending, or to be resent."""
        for id_ in sorted(self.unconfirmed):
            reply = self._ask(wire, f"__COMMIT__:{id_}")
            kind = re.sub(r":\d+", "", reply)
            self.answers_after_restart[kind] = self.answers_after_restart.get(kind, 0) + 1
            if id_ in self.received:
                assert kind in ("ACK", "PENDING", "RESEND"), f"batch {id_} was RECEIVED, and now {reply}"
            self._take(reply)
        for id_ in sorted(self.unconfirmed):
            self._offer(wire, id_)

    def _offer(self, wire: Wire, id_: int) -> None:
        while True:
            reply = self._ask(wire, f"__BATCH__:{id_}:{self.unconfirmed[id_]}")
            if reply == "RECEIVED":
                self.received.add(id_)
                return
            assert reply.startswith("QUEUE_FULL:"), reply
            time.sleep(0.005)

    def _poll(self, wire: Wire, id_: int) -> None:
        reply = self._ask(wire, f"__COMMIT__:{id_}")
        if reply == "RESEND":
            self._offer(wire, id_)
        self._take(reply)
        if reply == "PENDING":
            time.sleep(0.005)

    def _take(self, reply: str) -> None:
        if reply.startswith("ACK:"):
            watermark = int(reply.removeprefix("ACK:"))
            assert watermark >= self.acked, f"the watermark fell from {self.acked} to {watermark}"
            self.acked = watermark
            for id_ in [id_ for id_ in self.unconfirmed if id_ <= watermark]:
                del self.unconfirmed[id_]

    @staticmethod
    def _ask(wire: Wire, line: str) -> str:
        reply = wire.ask(line)
        if not reply:
            raise EOFError
        return reply
