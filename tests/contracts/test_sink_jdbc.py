"""The Jdbc sink passes the suite of its commit role on every database, with every way of loading."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgesocket.components.sink import CommitRole, Sink
from edgesocket.sinks.jdbc import JdbcSink
from edgesocket.testing.sink_contract import AWKWARD_PAYLOADS, AnySink, BreakableSink, DecidingSinkRules
from edgesocket.testing.sink_story import SinkHarness, Story
from tests.support.databases import Database

TABLE = "edge_rows"


class JdbcHarness:
    """A table that numbers its rows. A sink that a story forgets is an owner that sleeps: its connection stays."""

    create = ""

    def __init__(self, **options: Any) -> None:
        self.options = {"generate_sink_sql": True, "table": TABLE, "sleep": lambda _: None, **options}
        self.sinks: list[JdbcSink] = []
        self.ask(f"drop table if exists {TABLE}")
        self.ask("drop table if exists edgesocket_checkpoints")
        self.ask(self.create)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def sink(self) -> Sink:
        self.sinks.append(JdbcSink(**self.options))
        return self.sinks[-1]

    def read(self) -> list[bytes]:
        return [row[0].encode() for row in self.ask(f"select value from {TABLE} order by n")]

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


class SqliteHarness(JdbcHarness):
    """A file has one writer, so here a sink that a story forgets is dead."""

    create = f"create table {TABLE} (n integer primary key autoincrement, value text)"

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        super().__init__(url=f"jdbc:sqlite:{path}?busy_timeout=20", **options)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(sql).fetchall()

    def sink(self) -> Sink:
        for sink in self.sinks:
            if (connection := sink._session._connection) is not None:
                connection.connection.driver_connection.close()
        return super().sink()

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("begin exclusive")
            yield


class ServerHarness(JdbcHarness):
    def __init__(self, database: Database, **options: Any) -> None:
        self.database = database
        super().__init__(**database.options, **options)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.database.ask(sql)

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        self.database.lock_out()
        try:
            yield
        finally:
            self.database.let_in()


class PostgresqlHarness(ServerHarness):
    create = f"create table {TABLE} (n bigserial primary key, value text)"


class MariadbHarness(ServerHarness):
    create = f"create table {TABLE} (n bigint auto_increment primary key, value longtext)"


class WithoutNul(AnySink):
    """PostgreSQL's text has no NUL; a payload with one is a row that it refuses."""

    def test_rows_come_out_whole_and_in_order(self, harness: SinkHarness) -> None:
        story = Story(harness)
        assert story.sink.commit_role is self.role
        payloads = [payload for payload in AWKWARD_PAYLOADS if b"\0" not in payload]
        story.write(*payloads)
        story.write(*reversed(payloads))
        story.checkpoint(1)
        assert story.read() == [*payloads, *reversed(payloads)]


@pytest.mark.parametrize("harness", [1000, 3], indirect=True)
class TestSqlite(AnySink, BreakableSink):
    @pytest.fixture
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SqliteHarness]:
        with contextlib.closing(SqliteHarness(tmp_path / "rows.db", batch_size=request.param)) as harness:
            yield harness


class TestSqliteExactlyOnce(DecidingSinkRules, BreakableSink):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[SqliteHarness]:
        with contextlib.closing(SqliteHarness(tmp_path / "rows.db", is_exactly_once=True)) as harness:
            yield harness


@pytest.mark.parametrize(
    "harness",
    [{}, {"batch_size": 3}, {"use_copy_statement": True}],
    ids=["inserts", "batches of 3", "copy"],
    indirect=True,
)
class TestPostgresql(WithoutNul, BreakableSink):
    @pytest.fixture
    def harness(self, postgresql: Database, request: pytest.FixtureRequest) -> Iterator[PostgresqlHarness]:
        with contextlib.closing(PostgresqlHarness(postgresql, **request.param)) as harness:
            yield harness


@pytest.mark.parametrize("harness", [{}, {"use_copy_statement": True}], ids=["inserts", "copy"], indirect=True)
class TestPostgresqlExactlyOnce(WithoutNul, DecidingSinkRules, BreakableSink):
    role = CommitRole.DECIDING

    @pytest.fixture
    def harness(self, postgresql: Database, request: pytest.FixtureRequest) -> Iterator[PostgresqlHarness]:
        with contextlib.closing(PostgresqlHarness(postgresql, is_exactly_once=True, **request.param)) as harness:
            yield harness


class TestMariadb(AnySink, BreakableSink):
    @pytest.fixture
    def harness(self, mariadb: Database) -> Iterator[MariadbHarness]:
        with contextlib.closing(MariadbHarness(mariadb)) as harness:
            yield harness


class TestMariadbExactlyOnce(DecidingSinkRules, BreakableSink):
    @pytest.fixture
    def harness(self, mariadb: Database) -> Iterator[MariadbHarness]:
        with contextlib.closing(MariadbHarness(mariadb, is_exactly_once=True)) as harness:
            yield harness
