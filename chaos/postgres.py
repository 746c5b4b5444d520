"""A private PostgreSQL server that can be killed, stopped, filled up and started again."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from chaos.disk import SmallDisk
from tests.support.jobs import free_port

START_S = 60.0
USER = "chaos"
_ACCOUNT = "postgres"
"""PostgreSQL does not run as root."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1", "fsync": "off", "full_page_writes": "off", "max_connections": "30",
    "max_wal_size": "16MB", "min_wal_size": "2MB", "shared_buffers": "16MB",
}  # fmt: skip


class PostgresMissingError(Exception):
    """There can be no server here; says why."""


class Postgres:
    """A running server, with data in a temporary directory.

    Args:
        disk_bytes: size of a disk of its own for the data; 0: none.

    Raises:
        PostgresMissingError: it is not installed.
    """

    def __init__(self, disk_bytes: int = 0) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        if not found:
            raise PostgresMissingError("there is no PostgreSQL: apt-get install postgresql")
        self._bin = found[0]
        self.port = free_port()
        self.password = secrets.token_hex(8)
        self._directory = Path(tempfile.mkdtemp(prefix="edgesocket-chaos-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        data = self._data = self._directory / "data"
        data.mkdir(mode=0o700)
        self.disk = SmallDisk(data, disk_bytes) if disk_bytes else None
        if self.disk is not None:
            self._data = data / "cluster"
            self._data.mkdir(mode=0o700)
        secret = self._directory / "password"
        secret.write_text(self.password)
        if os.getuid() == 0:
            for path in (self._directory, data, self._data, secret):
                shutil.chown(path, _ACCOUNT)
        init = [
            self._bin / "initdb", "-D", self._data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}",
            "-E", "UTF8", "-N", "--locale=C", "--wal-segsize=1",
        ]  # fmt: skip
        subprocess.run(self._as_account(init), check=True, capture_output=True, cwd=self._directory)
        self.start()

    def start(self) -> None:
        """Start it, if it does not run. Returns when it answers."""
        deadline = time.monotonic() + START_S
        while True:
            if self._process is None or self._process.poll() is not None:
                self._launch()
            with contextlib.suppress(Exception):
                self.ask("select 1")
                return
            if time.monotonic() > deadline:
                log = (self._directory / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"PostgreSQL does not answer:\n{log}")
            time.sleep(0.1)

    def kill(self) -> None:
        """SIGKILL to the server and all its processes. `start` brings it back."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)

    def pause(self) -> None:
        """SIGSTOP to all of it: connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def connect(self) -> Any:
        """A connection in autocommit mode."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname="postgres", user=USER, password=self.password, autocommit=True,
            connect_timeout=5,
        )  # fmt: skip

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows."""
        with contextlib.closing(self.connect()) as connection, contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def close(self) -> None:
        """End it and take its data away."""
        self._signal(signal.SIGCONT)
        self.kill()
        if self.disk is not None:
            self.disk.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(self) -> None:
        settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._directory)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._as_account([self._bin / "postgres", "-D", self._data, *options]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._directory,
            )  # fmt: skip
        time.sleep(0.2)

    def _as_account(self, command: list[Any]) -> list[str]:
        prefix = ["setpriv", f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--clear-groups"]
        return [*(prefix if os.getuid() == 0 else []), *map(str, command)]

    def _signal(self, number: signal.Signals) -> None:
        """To the server first, so that it starts no others, then to its processes."""
        if self._process is None or self._process.poll() is not None:
            return
        children = _children(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found
