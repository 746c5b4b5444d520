"""Real jobs in real `edgesocket run --http` processes, for the tests of the dashboard."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from pathlib import Path

from tests.support.jobs import TOKEN, Job, Wire, free_port, wait_until

HTTP_TOKEN = "browser-test-token"
_URL = re.compile(r"status page, API and metrics at (http://\S+)")


class Process:
    """One process that runs the jobs of a directory, with its page.

    Args:
        directory: where job files, state and logs are.
        http: `ADDR:PORT` of the page.
        options: further arguments of `run`.
    """

    def __init__(self, directory: Path, *options: str, http: str = "127.0.0.1:0") -> None:
        token = directory / "http-token"
        token.write_text(HTTP_TOKEN)
        arguments = ["--http", http, "--http-token-file", str(token), "--state-dir", str(directory / "state")]
        self.directory = directory
        self.job = Job(directory / "jobs", *arguments, *options, log=directory / "log")

    def __enter__(self) -> Process:
        try:
            found = wait_until(lambda: _URL.search(self.job.log_text()) or self.job.process.poll() is not None)
            assert not isinstance(found, bool), self.job.log_text()
        except BaseException:
            self.job.kill()
            raise
        self.url = f"{found[1]}/"
        return self

    def __exit__(self, *_: object) -> None:
        self.job.kill()

    def page(self, job: str, tab: str = "log") -> str:
        """The address of a job."""
        return f"{self.url}#/jobs/{job}/{tab}"

    def state(self, job: str) -> Path:
        """The state directory of a job."""
        return self.directory / "state" / job


def free_ports(many: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(many)]
        return [int(probe.getsockname()[1]) for probe in probes]


def write_job(
    directory: Path, name: str, port: int = 0, *, env: str = "", source: str = "", sink: str = "", more: str = ""
) -> int:
    """Write a job file; it sends lines to a LocalFile unless `sink` says otherwise. Returns its port."""
    port = port or free_port()
    jobs = directory / "jobs"
    jobs.mkdir(exist_ok=True)
    sink = sink or f'LocalFile {{ path = "{directory / name}", file_format_type = text }}'
    (jobs / f"{name}.conf").write_text(
        f"env {{ job.mode = STREAMING\n checkpoint.interval = 300\n {env} }}\n"
        f'source {{ EdgeSocket {{ port = {port}\n token = "{TOKEN}"\n {source} }} }}\n'
        f"sink {{ {sink} }}\n{more}\n"
    )
    return port


class Feeder:
    """A collector that sends batch after batch, with the next ids, until it is stopped."""

    def __init__(self, port: int, first: int = 1, pause_s: float = 0.02) -> None:
        self._port, self._next, self._pause_s = port, first, pause_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        wire = wait_until(lambda: connected(self._port))
        while not self._end.wait(self._pause_s):
            wire.ask(f"__BATCH__:{self._next}:payload {self._next}")
            self._next += 1
        wire.ask(f"__COMMIT__:{self._next - 1}")
        wire.close()


def connected(port: int) -> Wire | None:
    """A collector's connection, or None while there is no listener yet."""
    try:
        wire = Wire(port)
    except OSError:
        return None
    if wire.authenticated == "ACK":
        return wire
    wire.close()
    return None
