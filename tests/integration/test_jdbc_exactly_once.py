"""The Jdbc sink with `is_exactly_once`: lost commits, owners that fell asleep, and what it refuses to promise."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from edgesocket.errors import ComponentError, FencedError
from tests.integration.jdbc_kit import PAIRS, checkpoint, opened, pairs, written
from tests.support.cutting_proxy import CuttingProxy
from tests.support.databases import Database

TABLE = "rows_2"


@pytest.fixture(params=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> Database:
    database: Database = request.getfixturevalue(request.param)
    database.ask(f"drop table if exists {TABLE}")
    database.ask("drop table if exists edgesocket_checkpoints")
    database.ask(f"create table {TABLE} (id bigint primary key, s varchar(50))")
    return database


@pytest.fixture
def options(database: Database) -> dict[str, Any]:
    return {
        **database.options,
        "generate_sink_sql": True,
        "table": TABLE,
        "primary_keys": ("id",),
        "is_exactly_once": True,
    }


@pytest.fixture
def proxy(database: Database, options: dict[str, Any]) -> Iterator[CuttingProxy]:
    with CuttingProxy(database.host, database.port) as proxy:
        options["url"] = f"jdbc:{database.kind}://127.0.0.1:{proxy.port}/{database.name}"
        yield proxy


def ids(database: Database) -> list[int]:
    return [row[0] for row in database.ask(f"select id from {TABLE} order by id")]


def test_a_commit_whose_reply_is_lost_is_found_to_have_happened(
    database: Database, options: dict[str, Any], proxy: CuttingProxy
) -> None:
    with opened(options) as sink:
        sink.fence(1)
        written(sink, (1, "a"))
        manifest = sink.prepare(1)
        proxy.word, proxy.passes_on = b"COMMIT", True
        sink.commit(1, manifest)
        assert proxy.cuts == 1
        assert sink.landed() == 1
        written(sink, (2, "b"))
        checkpoint(sink, 2)
    assert ids(database) == [1, 2]


def test_a_commit_that_is_lost_on_its_way_is_found_not_to_have_happened(
    database: Database, options: dict[str, Any], proxy: CuttingProxy
) -> None:
    with opened(options) as sink:
        sink.fence(1)
        written(sink, (1, "a"))
        manifest = sink.prepare(1)
        proxy.word, proxy.passes_on = b"COMMIT", False
        with pytest.raises(ComponentError, match="checkpoint 1 was rolled back") as caught:
            sink.commit(1, manifest)
        assert caught.value.retryable and caught.value.reopen
        with pytest.raises(ComponentError, match="opened again"):
            sink.commit(1, manifest)
        with pytest.raises(ComponentError, match="opened again"):
            sink.write(pairs((2, "b")))
    assert ids(database) == []
    with opened(options, epoch=2) as sink:
        sink.fence(2)
        assert sink.landed() == 0
        written(sink, (1, "a"))
        checkpoint(sink, 1)
    assert ids(database) == [1]


def test_while_nobody_answers_the_outcome_stays_unknown_until_the_next_run_asks(
    database: Database, options: dict[str, Any]
) -> None:
    with opened({**options, "max_commit_attempts": 3}) as sink:
        sink.fence(1)
        written(sink, (1, "a"))
        manifest = sink.prepare(1)
        database.lock_out()
        try:
            with pytest.raises(ComponentError, match="find out whether checkpoint 1 is committed") as caught:
                sink.commit(1, manifest)
            assert caught.value.retryable and caught.value.reopen
            assert len(sink._sleep.slept) == 2
        finally:
            database.let_in()
    assert ids(database) == []


def test_rows_of_an_open_transaction_that_is_lost_ask_for_a_restore(
    database: Database, options: dict[str, Any]
) -> None:
    with opened({**options, "batch_size": 1}) as sink:
        sink.fence(1)
        written(sink, (1, "a"))
        database.end_sessions()
        with pytest.raises(ComponentError) as caught:
            written(sink, (2, "b"))
        assert caught.value.retryable and caught.value.reopen
        with pytest.raises(ComponentError, match="opened again"):
            sink.prepare(1)
    assert ids(database) == []


def test_an_owner_that_sleeps_on_locked_rows_does_not_hold_up_the_next(
    database: Database, options: dict[str, Any]
) -> None:
    with opened({**options, "batch_size": 1}) as asleep, opened({**options, "batch_size": 1}, epoch=2) as sink:
        asleep.fence(1)
        written(asleep, (1, "stale"))
        manifest = asleep.prepare(1)
        began = time.monotonic()
        sink.fence(2)
        assert sink.landed() == 0
        written(sink, (1, "fresh"))
        checkpoint(sink, 1)
        assert time.monotonic() - began < 5, "it waited for the locks of the one that sleeps"
        with pytest.raises(FencedError, match="run 1 is fenced by run 2"):
            asleep.commit(1, manifest)
        with pytest.raises(ComponentError):
            written(asleep, (3, "stale"))
    assert database.ask(f"select * from {TABLE}") == [(1, "fresh")]


def test_an_owner_that_sleeps_between_its_mark_and_its_commit_does_not_either(
    database: Database, options: dict[str, Any]
) -> None:
    with opened(options) as asleep, opened(options, epoch=2) as sink:
        asleep.fence(1)
        written(asleep, (1, "stale"))
        asleep.prepare(1)
        assert asleep._row.mark(asleep._session.connection(), 1, 1)
        sink.fence(2)
        assert sink.landed() == 0
        with pytest.raises(Exception):  # noqa: B017  the driver's own
            asleep._transaction.commit()
        assert sink.landed() == 0
    assert ids(database) == []


def test_where_a_sleeping_owner_cannot_be_ended_its_commit_matches_nothing(
    database: Database, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(options) as asleep, opened(options, epoch=2) as sink:
        monkeypatch.setattr(type(sink._session.database), "end_session", lambda *_: None)
        asleep.fence(1)
        written(asleep, (1, "stale"))
        manifest = asleep.prepare(1)
        sink.fence(2)
        assert not asleep._row.mark(asleep._session.connection(), 1, 1)
        with pytest.raises(FencedError):
            asleep.commit(1, manifest)
        written(sink, (2, "fresh"))
        checkpoint(sink, 1)
    assert ids(database) == [2]


def test_a_lock_that_stays_taken_costs_time_and_no_row(
    database: Database, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        f"edgesocket.sinks.jdbc_{'mysql' if database.kind == 'mariadb' else 'postgresql'}.LOCK_WAIT_S", 1
    )
    database.ask(f"insert into {TABLE} values (2, 'there')")
    with opened({**options, "batch_size": 1}) as sink, contextlib.closing(database.connect()) as other:
        sink.fence(1)
        written(sink, (1, "a"))
        cursor = other.cursor()
        cursor.execute("begin")
        cursor.execute(f"update {TABLE} set s = 'held' where id = 2")
        with pytest.raises(ComponentError) as caught:
            written(sink, (2, "b"))
        assert caught.value.retryable and not caught.value.reopen
        cursor.execute("rollback")
        written(sink, (2, "b"))
        checkpoint(sink, 1)
    assert database.ask(f"select * from {TABLE} order by id") == [(1, "a"), (2, "b")]


def test_a_database_that_knows_more_than_the_state_directory_is_refused(
    database: Database, options: dict[str, Any]
) -> None:
    with opened(options) as sink:
        sink.fence(1)
        written(sink, (1, "a"))
        checkpoint(sink, 7)
    with opened(options) as sink:
        sink.fence(1)
        written(sink, (2, "b"))
        with pytest.raises(ComponentError, match="has committed checkpoint 7 of job job") as caught:
            sink.prepare(1)
        assert not caught.value.retryable
    with opened(options, epoch=9) as sink:
        sink.fence(9)
    with opened(options, epoch=2) as sink, pytest.raises(FencedError, match="Was the state directory replaced"):
        sink.fence(2)


def test_jobs_and_sinks_have_rows_of_their_own_also_when_they_differ_in_letter_case(
    database: Database, options: dict[str, Any]
) -> None:
    from edgesocket.components.sink import SinkContext
    from edgesocket.sinks.jdbc import JdbcSink

    for number, (job, sink_id) in enumerate([("job", "a"), ("job", "A"), ("Job", "a"), ("job ", "a")], 1):
        sink = JdbcSink(**options)
        try:
            sink.open(SinkContext(job, number, sink_id, PAIRS))
            sink.fence(number)
            assert sink.landed() == 0
            sink.write(pairs((number, job)))
            checkpoint(sink, number)
        finally:
            sink.close()
    assert len(ids(database)) == 4


def test_a_deadlock_that_undoes_the_transaction_asks_for_a_restore(mariadb: Database) -> None:
    """InnoDB rolls back all of the smaller transaction, which is the sink's."""
    mariadb.ask(f"drop table if exists {TABLE}")
    mariadb.ask("drop table if exists edgesocket_checkpoints")
    mariadb.ask(f"create table {TABLE} (id bigint primary key, s varchar(50))")
    mariadb.ask(f"insert into {TABLE} select seq, 'there' from seq_1_to_500")
    how = {"generate_sink_sql": True, "table": TABLE, "primary_keys": ("id",), "is_exactly_once": True, "batch_size": 1}
    with opened({**mariadb.options, **how}) as sink, contextlib.closing(mariadb.connect()) as other:
        sink.fence(1)
        written(sink, (1, "mine"))
        cursor = other.cursor()
        cursor.execute("begin")
        cursor.execute(f"update {TABLE} set s = 'other' where id > 1")
        waiting = threading.Thread(target=cursor.execute, args=(f"update {TABLE} set s = 'other' where id = 1",))
        waiting.start()
        try:
            with pytest.raises(ComponentError, match="Deadlock found") as caught:
                written(sink, (2, "mine"))
            assert caught.value.retryable and caught.value.reopen
        finally:
            waiting.join()
        cursor.execute("rollback")
        with pytest.raises(ComponentError, match="opened again"):
            sink.prepare(1)
    assert mariadb.ask(f"select distinct s from {TABLE}") == [("there",)]


def test_two_sinks_that_make_the_table_of_checkpoints_at_once_both_get_it(
    database: Database, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = sqlalchemy.Table.create
    with opened(options):
        # This one has looked before the other made it.
        monkeypatch.setattr(sqlalchemy.Table, "create", lambda table, bind, checkfirst: create(table, bind, False))
        with opened(options, epoch=2) as sink:
            sink.fence(2)
            written(sink, (1, "a"))
            checkpoint(sink, 1)
    assert ids(database) == [1]


@pytest.mark.parametrize("by_query", [False, True])
def test_a_table_without_transactions_is_refused(mariadb: Database, by_query: bool) -> None:
    mariadb.ask(f"drop table if exists {TABLE}")
    mariadb.ask(f"create table {TABLE} (id bigint, s text) engine = MyISAM")
    how = {"query": f"INSERT INTO `{TABLE}` VALUES (?, ?)"} if by_query else {"generate_sink_sql": True, "table": TABLE}
    with (
        pytest.raises(ComponentError, match="stored by MyISAM, which has no transactions") as caught,
        opened({**mariadb.options, **how, "is_exactly_once": True}),
    ):
        pass
    assert not caught.value.retryable
    with opened({**mariadb.options, **how}) as sink:
        written(sink, (1, "a"))
        checkpoint(sink, 1)
    assert ids(mariadb) == [1]


def test_a_server_that_ends_idle_transactions_asks_for_a_restore(postgresql: Database) -> None:
    postgresql.ask(f"drop table if exists {TABLE}, edgesocket_checkpoints")
    options = {
        **postgresql.options,
        "generate_sink_sql": True,
        "table": TABLE,
        "is_exactly_once": True,
        "batch_size": 1,
    }
    with opened({**options, "transaction_timeout_sec": 1}) as sink:
        sink.fence(1)
        written(sink, (1, "a"))
        until = time.monotonic() + 20
        while postgresql.admin("select 1 from pg_stat_activity where usename = %s", postgresql.user):
            assert time.monotonic() < until
            time.sleep(0.1)
        with pytest.raises(ComponentError) as caught:
            written(sink, (2, "b"))
        assert caught.value.reopen


def test_a_file_that_another_process_writes_to_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    options = {"url": f"jdbc:sqlite:{path}?busy_timeout=20&journal_mode=WAL", "generate_sink_sql": True, "table": TABLE}
    with opened({**options, "is_exactly_once": True, "batch_size": 1}) as sink:
        sink.fence(1)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(ComponentError, match="database is locked by another process") as caught:
                written(sink, (1, "a"))
            assert caught.value.retryable and not caught.value.reopen
            other.execute("rollback")
            written(sink, (1, "a"))
            assert other.execute(f"select count(*) from {TABLE}").fetchone() == (0,)
            checkpoint(sink, 1)
            assert other.execute(f"select count(*) from {TABLE}").fetchone() == (1,)
            assert other.execute("pragma journal_mode").fetchone() == ("wal",)
