"""`edgesocket collect` in processes, for the integration and end-to-end tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.jobs import ROOT, TOKEN, wait_until


class AgentProcess:
    """One `edgesocket collect` process. Ended at the end of the `with` statement.

    Args:
        arguments: after `collect`.
        log: where its standard error goes; appended to.
        stdin: of the process.
        env: further environment variables. The token of `tests.support.jobs` is in EDGESOCKET_TOKEN unless told
            otherwise.
    """

    def __init__(
        self,
        *arguments: str | Path,
        log: Path,
        stdin: Any = subprocess.DEVNULL,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
        cwd: Path = ROOT,
    ) -> None:
        self.log = log
        self._log_from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                [python, "-m", "edgesocket", "collect", *map(str, arguments)],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                cwd=cwd,
                env={**os.environ, "EDGESOCKET_TOKEN": TOKEN, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def log_text(self) -> str:
        """What this process has logged."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_from)
            return stream.read().decode()

    def wait_for_log(self, text: str, timeout_s: float = 30.0) -> None:
        """Return when the log holds that text."""

        def found() -> bool:
            assert self.process.poll() is None or text in self.log_text(), self.log_text()
            return text in self.log_text()

        wait_until(found, timeout_s, f"{text!r} in the log")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 30.0) -> int:
        """The exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the agent did not end within {timeout_s:g} s:\n{self.log_text()}") from None

    def stop(self, timeout_s: float = 30.0) -> int:
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, if it still lives."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def rss_bytes(self) -> int:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def ask(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of a GET on this host."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def status(port: int) -> dict[str, Any]:
    """What `/status` says."""
    found: dict[str, Any] = json.loads(ask(port, "/status")[1])
    return found


def write_config(path: Path, port: int, spool: Path, *inputs: dict[str, Any], **more: Any) -> Path:
    """An agent's file (JSON) that delivers to a port of this host."""
    values = {"to": f"127.0.0.1:{port}", "spool": {"directory": str(spool)}, "inputs": list(inputs), **more}
    path.write_text(json.dumps(values, indent=1))
    return path
