"""Private database servers for tests: a PostgreSQL and a MariaDB on loopback ports, with data in temporary directories.

`tests/conftest.py` makes them the fixtures `postgresql` and `mariadb`. Both are started once a session, without fsync,
and stopped by process id. Where the program is missing, tests that ask for it are skipped and say what to install:
`apt-get install postgresql mariadb-server`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs import free_port

START_S = 60.0
"""Most time a server may take to answer."""
INITIALIZE_TRIES = 3
PASSWORD = "pass word:@/%?"
"""Of the account the tests use: made of the characters that are easily lost in an address."""
_BINARIES = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/bin"), Path("/usr/sbin"))


@dataclass(frozen=True)
class Database:
    """A running server.

    Attributes:
        kind: `postgresql` or `mariadb`.
        host, port: where it listens.
        name: the database the tests use.
        user, password: an account that owns the database and is no administrator.
        pid: of the server.
        options: the part of a job file's Jdbc block that says how to connect.
    """

    kind: str
    host: str
    port: int
    name: str
    user: str
    password: str
    pid: int

    @property
    def url(self) -> str:
        """As a job file writes it."""
        return f"jdbc:{self.kind}://{self.host}:{self.port}/{self.name}"

    @property
    def options(self) -> dict[str, str]:
        """How to connect, as options of the Jdbc sink."""
        return {"url": self.url, "username": self.user, "password": self.password}

    def connect(self) -> Any:
        """A connection of the driver, in autocommit mode."""
        if self.kind == "postgresql":
            import psycopg

            return psycopg.connect(
                host=self.host,
                port=self.port,
                dbname=self.name,
                user=self.user,
                password=self.password,
                autocommit=True,
            )
        import pymysql

        return pymysql.connect(
            host=self.host, port=self.port, database=self.name, user=self.user, password=self.password,
            autocommit=True, charset="utf8mb4",
        )  # fmt: skip

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement in a connection of its own. Returns its rows, none for a statement without rows."""
        with contextlib.closing(self.connect()) as connection, contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def admin(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement as the administrator."""
        with contextlib.closing(self._connect_admin()) as connection, contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql, values or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def lock_out(self) -> None:
        """End all sessions of the account, and let it make no new ones."""
        if self.kind == "postgresql":
            self.admin(f"alter role {self.user} nologin")
        else:
            self.admin(f"alter user {self.user}@'%' account lock")
        self.end_sessions()

    def let_in(self) -> None:
        """Undo `lock_out`."""
        if self.kind == "postgresql":
            self.admin(f"alter role {self.user} login")
        else:
            self.admin(f"alter user {self.user}@'%' account unlock")

    def end_sessions(self) -> int:
        """End all sessions of the account. Returns how many there were."""
        if self.kind == "postgresql":
            # Waits until each is gone, for at most 10 s.
            ended = self.admin(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = %s", self.user
            )
            return len(ended)
        ids = [row[0] for row in self.admin("select id from information_schema.processlist where user = %s", self.user)]
        for id_ in ids:
            with contextlib.suppress(Exception):  # it has ended by itself
                self.admin(f"kill {id_}")
        return len(ids)

    def _connect_admin(self) -> Any:
        if self.kind == "postgresql":
            import psycopg

            return psycopg.connect(
                host=self.host, port=self.port, dbname="postgres", user="admin", password="admin", autocommit=True
            )
        import pymysql

        return pymysql.connect(host=self.host, port=self.port, user="root", autocommit=True)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Database]:
    """A PostgreSQL server."""
    with started_postgresql() as database:
        yield database


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Database]:
    """A MariaDB server."""
    with started_mariadb() as database:
        yield database


@contextlib.contextmanager
def started_postgresql() -> Iterator[Database]:
    """A PostgreSQL server as long as the body runs."""
    initdb, server = _program("initdb", "postgresql"), _program("postgres", "postgresql")
    user = "postgres" if os.getuid() == 0 else None
    with _data_directory("edgesocket-postgresql-", user) as directory:
        data, port = directory / "data", free_port()
        secret = directory / "password"
        secret.write_text("admin\n")
        _give(secret, user)
        init = [initdb, "-D", data, "-U", "admin", "--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "-N",
                "--locale=C"]  # fmt: skip
        _initialize([*_as_user(user), *map(str, init)], directory, data)
        settings = {
            "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": directory, "fsync": "off",
            "full_page_writes": "off", "max_connections": 50,
        }  # fmt: skip
        command = [
            server,
            "-D",
            str(data),
            *(part for item in settings.items() for part in ("-c", "=".join(map(str, item)))),
        ]
        with _running([*_as_user(user), *command], directory, port, signal.SIGINT) as process:
            _make_postgresql_database(port)
            yield Database("postgresql", "127.0.0.1", port, "edge", "edge", PASSWORD, process.pid)


def _make_postgresql_database(port: int) -> None:
    import psycopg

    until = time.monotonic() + START_S
    while True:  # the port is open a moment before the server takes sessions
        try:
            admin = psycopg.connect(host="127.0.0.1", port=port, dbname="postgres", user="admin", password="admin")
            break
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
    with contextlib.closing(admin):
        admin.autocommit = True
        admin.execute(f"create role edge login password '{PASSWORD}'")
        admin.execute("create database edge owner edge")


@contextlib.contextmanager
def started_mariadb() -> Iterator[Database]:
    """A MariaDB server as long as the body runs."""
    install, server = _program("mariadb-install-db", "mariadb-server"), _program("mariadbd", "mariadb-server")
    import pymysql

    user = "mysql" if os.getuid() == 0 else None
    with _data_directory("edgesocket-mariadb-", user) as directory:
        data, port = directory / "data", free_port()
        # Kernel queues for asynchronous input are few, and every server of the machine takes from the same ones.
        account = ["--innodb-use-native-aio=0", *([f"--user={user}"] if user else [])]
        init = [
            install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
            "--skip-test-db", *account,
        ]  # fmt: skip
        _initialize(init, directory, data)
        command = [
            server, "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
            f"--socket={directory / 'socket'}", f"--pid-file={directory / 'pid'}", "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M", "--skip-log-bin", *account,
        ]  # fmt: skip
        with _running(command, directory, port, signal.SIGTERM) as process:
            admin = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
            with contextlib.closing(admin), contextlib.closing(admin.cursor()) as cursor:
                cursor.execute("create database edge character set utf8mb4")
                cursor.execute("create user edge@'%%' identified by %s", (PASSWORD,))
                cursor.execute("grant all on edge.* to edge@'%'")
            yield Database("mariadb", "127.0.0.1", port, "edge", "edge", PASSWORD, process.pid)


def _initialize(command: Sequence[str], directory: Path, data: Path) -> None:
    """Make the files of an empty server. A second try is for a machine that was short of something for a moment."""
    for left in reversed(range(INITIALIZE_TRIES)):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=directory)
        if done.returncode == 0:
            return
        if not left:
            output = done.stdout.decode(errors="replace")[-2000:]
            raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{output}")
        shutil.rmtree(data, ignore_errors=True)
        time.sleep(1)


def _program(name: str, package: str) -> str:
    for directory in _BINARIES:
        if os.access(directory / name, os.X_OK):
            return str(directory / name)
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: apt-get install {package}")
    return found


def _as_user(user: str | None) -> Sequence[str]:
    """PostgreSQL does not run as root."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []


def _give(path: Path, user: str | None) -> None:
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(path, account.pw_uid, account.pw_gid)


@contextlib.contextmanager
def _data_directory(prefix: str, user: str | None) -> Iterator[Path]:
    # pytest's own directories are closed to other users, so this one is outside of them.
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        _give(directory, user)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _running(
    command: Sequence[str], directory: Path, port: int, stop: signal.Signals
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers on the port; stopped and waited for at the end."""
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory)
    try:
        until = time.monotonic() + START_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} does not answer:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
