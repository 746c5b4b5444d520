"""The Jdbc sink against real databases: types, upserts, refused rows, errors."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from edgesocket.components.sink import RejectedRow
from edgesocket.errors import BadRecordError, ComponentError
from edgesocket.rows import Rows
from tests.integration.jdbc_kit import EMPTY_ROW, EVERY_TYPE, FULL_ROW, checkpoint, opened, pairs, written
from tests.support.databases import Database

TABLE = "rows_1"


@dataclass
class Place:
    """A database with no table in it yet."""

    kind: str
    options: dict[str, Any]
    ask: Callable[[str], list[tuple[Any, ...]]]


def _sqlite_place(directory: Path) -> Place:
    path = directory / "rows.db"

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(sql).fetchall()

    return Place("sqlite", {"url": f"jdbc:sqlite:{path}?busy_timeout=100"}, ask)


@pytest.fixture(params=["sqlite", "postgresql", "copy", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        made = _sqlite_place(tmp_path)
    else:
        database = request.getfixturevalue("postgresql" if request.param == "copy" else request.param)
        made = Place(database.kind, dict(database.options), database.ask)
    made.options |= {"generate_sink_sql": True, "table": TABLE}
    if request.param == "copy":
        made.options["use_copy_statement"] = True
    made.ask(f"drop table if exists {TABLE}")
    made.ask("drop table if exists edgesocket_checkpoints")
    return made


@pytest.fixture
def pg(postgresql: Database) -> Iterator[Database]:
    postgresql.ask(f"drop table if exists {TABLE}")
    postgresql.ask("drop table if exists edgesocket_checkpoints")
    yield postgresql


def test_every_type_arrives_as_it_left_in_a_table_the_sink_created(place: Place) -> None:
    batch = pa.RecordBatch.from_pylist([EMPTY_ROW, FULL_ROW], schema=EVERY_TYPE)
    with opened({**place.options, "primary_keys": ("id",)}, schema=EVERY_TYPE) as sink:
        sink.write(Rows.of_batch(batch))
        checkpoint(sink, 1)
    empty, full = place.ask(f"select * from {TABLE} order by id")
    assert empty == (1, *[None] * 17)
    got = dict(zip(EVERY_TYPE.names, full, strict=True))
    for name in ("id", "s", "yes", "i8", "i16", "i32", "f", "d", "raw", "nothing"):
        assert got[name] == FULL_ROW[name], name
    as_text = place.kind == "sqlite"
    assert got["dec"] == (str(FULL_ROW["dec"]) if as_text else FULL_ROW["dec"])
    assert got["day"] == ("2024-02-29" if as_text else FULL_ROW["day"])
    hour = {"sqlite": "23:59:58.999999", "mariadb": dt.timedelta(days=1) - dt.timedelta(seconds=1, microseconds=1)}
    assert got["hour"] == hour.get(place.kind, FULL_ROW["hour"])
    assert got["ts"] == ("2024-05-06 07:08:09.000005" if as_text else FULL_ROW["ts"])
    utc = FULL_ROW["tz"]["utc"]
    moment = {"sqlite": "2024-05-07 03:38:09.123456+05:30", "mariadb": utc.replace(tzinfo=None)}
    assert got["tz"] == moment.get(place.kind, utc)
    texts = {name: got[name] for name in ("list", "map", "nested")}
    if place.kind != "postgresql":
        texts = {name: json.loads(text, parse_float=Decimal) for name, text in texts.items()}
    assert texts["list"] == [1, None]
    assert texts["map"] == {"k": 1}
    assert float(texts["nested"]["y"]) == 1.5 and texts["nested"]["x"] == "q"


def test_rows_with_the_same_key_overwrite_each_other_in_order(place: Place) -> None:
    with opened({**place.options, "primary_keys": ("id",)}) as sink:
        sink.write(pairs((1, "a"), (2, "b"), (1, "c"), (1, "d"), (3, None)))
        checkpoint(sink, 1)
        sink.write(pairs((2, "e"), (3, "f")))
        checkpoint(sink, 2)
        sink.write(pairs((3, None)))
        checkpoint(sink, 3)
    assert place.ask(f"select id, s from {TABLE} order by id") == [(1, "d"), (2, "e"), (3, None)]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_rows_the_table_refuses_are_rejected_and_all_others_stay(place: Place, exactly_once: bool) -> None:
    place.ask(f"create table {TABLE} (id bigint primary key, s varchar(5) not null check (s <> 'bad'))")
    place.ask(f"insert into {TABLE} values (7, 'there')")
    refused = {5: "bad", 11: None, 12: "bad"}
    rejected: list[RejectedRow] = []
    options = {**place.options, "is_exactly_once": exactly_once, "batch_size": 8}
    with opened(options, rejected=rejected) as sink:
        sink.write(pairs(*((n, refused.get(n, f"s{n}")) for n in range(20)), first_id=100))
        checkpoint(sink, 1)
        sink.write(pairs((30, "last")))
        checkpoint(sink, 2)
    assert [row.batch_id for row in rejected] == [105, 107, 111, 112]
    assert all("the database refuses the row" in row.reason and len(row.reason) < 300 for row in rejected)
    assert json.loads(rejected[0].row) == {"id": 5, "s": "bad"}
    kept = [(n, f"s{n}") for n in range(20) if n not in {*refused, 7}]
    assert place.ask(f"select id, s from {TABLE} order by id") == sorted([*kept, (7, "there"), (30, "last")])


def test_a_text_that_is_too_long_is_refused_and_never_cut(place: Place) -> None:
    if place.kind == "sqlite":
        pytest.skip("SQLite knows no lengths")
    place.ask(f"create table {TABLE} (id bigint, s varchar(5))")
    rejected: list[RejectedRow] = []
    with opened(place.options, rejected=rejected) as sink:
        sink.write(pairs((1, "short"), (2, "longer"), (3, "x")))
        checkpoint(sink, 1)
    assert [row.batch_id for row in rejected] == [2]
    assert place.ask(f"select id, s from {TABLE} order by id") == [(1, "short"), (3, "x")]


def test_a_refused_row_that_fails_the_job_leaves_nothing_of_its_write(place: Place) -> None:
    place.ask(f"create table {TABLE} (id bigint, s varchar(5) not null)")
    with opened({**place.options, "batch_size": 1}) as sink:
        sink.write(pairs((1, "a")))
        with pytest.raises(BadRecordError, match="batch 3: the database refuses the row"):
            sink.write(pairs((2, "b"), (3, None), first_id=2))
        checkpoint(sink, 1)
    assert place.ask(f"select id from {TABLE}") == [(1,)]


def test_a_query_gets_its_values_in_the_order_of_the_columns(place: Place) -> None:
    place.ask(f"create table {TABLE} (s varchar(50), n bigint)")
    query = f"insert into {TABLE} (n, s) values (? + 1, concat(?, ' 100% ?'))"
    if place.kind != "mariadb":
        query = f"insert into {TABLE} (n, s) values (? + 1, ? || ' 100% ?')"
    options = {key: place.options[key] for key in ("url", "username", "password") if key in place.options}
    with opened({**options, "query": query}) as sink:
        sink.write(pairs((1, "a"), (2, "b")))
        checkpoint(sink, 1)
    assert place.ask(f"select n, s from {TABLE} order by n") == [(2, "a 100% ?"), (3, "b 100% ?")]


def test_a_query_with_another_number_of_values_is_refused_at_the_start(place: Place) -> None:
    options = {key: place.options[key] for key in ("url", "username", "password") if key in place.options}
    wrong = {**options, "query": "insert into t values (?)"}
    with (
        pytest.raises(ComponentError, match=r"query has 1 \? and the rows have 2 columns: id, s") as caught,
        opened(wrong),
    ):
        pass
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("create", "options", "message"),
    [
        ("", {"schema_save_mode": "ERROR_WHEN_SCHEMA_NOT_EXIST"}, "there is no table rows_1; create it"),
        ("id bigint", {}, "table rows_1 has no column s; it has id"),
        ("id bigint, s varchar(9)", {"primary_keys": ("id",)}, r"no primary key or unique index on exactly \(id\)"),
        ("id bigint, s varchar(9)", {"primary_keys": ("key",)}, "primary_keys names key, and the rows have id, s"),
    ],
)
def test_a_table_that_cannot_take_the_rows_is_refused_at_the_start(
    place: Place, create: str, options: dict[str, Any], message: str
) -> None:
    if create:
        place.ask(f"create table {TABLE} ({create})")
    with pytest.raises(ComponentError, match=message) as caught, opened({**place.options, **options}):
        pass
    assert not caught.value.retryable


def test_a_wrong_password_or_a_missing_database_is_no_case_for_a_retry_and_no_secret_is_told(place: Place) -> None:
    if place.kind == "sqlite":
        pytest.skip("a file has no password")
    for wrong in ({"password": "s3cret!"}, {"url": place.options["url"] + "_missing"}):
        with pytest.raises(ComponentError) as caught, opened({**place.options, **wrong}):
            pass
        assert not caught.value.retryable
        assert "s3cret!" not in str(caught.value) and place.options["password"] not in str(caught.value)
        assert "cannot get ready" in str(caught.value)


def test_a_connection_that_broke_while_nothing_was_to_do_is_made_again(place: Place, request: Any) -> None:
    if place.kind == "sqlite":
        pytest.skip("a file has no connections to lose")
    database: Database = request.getfixturevalue(place.kind)
    for options in (place.options, {**place.options, "is_exactly_once": True}):
        with opened({**options, "primary_keys": ("id",)}) as sink:
            written(sink, (1, "a"))
            checkpoint(sink, 1)
            assert database.end_sessions() >= 1
            written(sink, (2, "b"))
            checkpoint(sink, 2)
            assert place.ask(f"select id from {TABLE} order by id") == [(1,), (2,)]
        place.ask(f"delete from {TABLE}")


def test_a_lost_connection_loses_no_row_that_was_taken(place: Place, request: Any) -> None:
    if place.kind == "sqlite":
        pytest.skip("a file has no connections to lose")
    database: Database = request.getfixturevalue(place.kind)
    with opened(place.options) as sink:
        written(sink, (1, "a"))
        database.lock_out()
        try:
            with pytest.raises(ComponentError) as caught:
                sink.prepare(1)
            assert caught.value.retryable and not caught.value.reopen
        finally:
            database.let_in()
        checkpoint(sink, 1)
    assert place.ask(f"select id from {TABLE}") == [(1,)]


def test_columns_and_table_follow_field_ide(place: Place) -> None:
    with opened({**place.options, "field_ide": "UPPERCASE", "primary_keys": ("id",)}) as sink:
        written(sink, (1, "a"), (1, "b"))
        checkpoint(sink, 1)
    quote = "`" if place.kind == "mariadb" else '"'
    name = f"{quote}{TABLE.upper()}{quote}"
    assert place.ask(f"select {quote}S{quote} from {name} where {quote}ID{quote} = 1") == [("b",)]
    place.ask(f"drop table {name}")


def test_names_with_odd_characters_are_names_and_nothing_else(place: Place) -> None:
    schema = pa.schema([('a % "b" ?', pa.int64()), ("d:e %s", pa.string())])
    batch = pa.RecordBatch.from_pydict({schema.names[0]: [1, 1], schema.names[1]: ["x", "y"]}, schema=schema)
    table = 'odd % "name" ?'
    with opened({**place.options, "table": table, "primary_keys": (schema.names[0],)}, schema=schema) as sink:
        sink.write(Rows.of_batch(batch))
        checkpoint(sink, 1)
    quoted = '"odd % ""name"" ?"' if place.kind != "mariadb" else '`odd % "name" ?`'
    try:
        assert place.ask(f"select * from {quoted}") == [(1, "y")]
    finally:
        place.ask(f"drop table {quoted}")


def test_a_full_batch_is_committed_before_the_checkpoint(place: Place) -> None:
    with opened({**place.options, "batch_size": 3}) as sink:
        written(sink, (1, "a"), (2, "b"))
        assert place.ask(f"select count(*) from {TABLE}") == [(0,)]
        sink.write(pairs((3, "c"), (4, "d"), (5, "e"), (6, "f"), (7, "g")))
        assert place.ask(f"select max(id) from {TABLE}") == [(6,)]
        checkpoint(sink, 1)
        assert place.ask(f"select count(*) from {TABLE}") == [(7,)]


def test_rows_wait_no_longer_than_batch_interval_ms_while_others_arrive(place: Place) -> None:
    clock = [0.0]
    with opened({**place.options, "batch_interval_ms": 500, "now": lambda: clock[0]}) as sink:
        written(sink, (1, "a"))
        clock[0] = 0.4
        written(sink, (2, "b"))
        assert place.ask(f"select count(*) from {TABLE}") == [(0,)]
        clock[0] = 0.5
        written(sink, (3, "c"))
        assert place.ask(f"select count(*) from {TABLE}") == [(3,)]


def test_a_constraint_that_waits_for_the_commit_is_looked_at_at_once(pg: Database) -> None:
    pg.ask(f"create table {TABLE} (id bigint unique deferrable initially deferred, s text)")
    rejected: list[RejectedRow] = []
    with opened({**pg.options, "generate_sink_sql": True, "table": TABLE}, rejected=rejected) as sink:
        sink.write(pairs((1, "a"), (1, "b"), (2, "c")))
        checkpoint(sink, 1)
    assert [row.batch_id for row in rejected] == [2]
    assert pg.ask(f"select s from {TABLE} order by s") == [("a",), ("c",)]


def test_text_with_a_nul_is_a_refused_row_in_postgresql(pg: Database) -> None:
    for copies in (False, True):
        rejected: list[RejectedRow] = []
        options = {**pg.options, "generate_sink_sql": True, "table": TABLE, "use_copy_statement": copies}
        with opened(options, rejected=rejected) as sink:
            sink.write(pairs((1, "a"), (2, "b\0"), (3, "c")))
            checkpoint(sink, 1)
        assert [row.batch_id for row in rejected] == [2]
    assert pg.ask(f"select id from {TABLE} order by id") == [(1,), (1,), (3,), (3,)]


def test_copy_keeps_rows_apart_whose_key_is_null(pg: Database) -> None:
    pg.ask(f"create table {TABLE} (id bigint unique, s text)")
    options = {**pg.options, "generate_sink_sql": True, "table": TABLE, "primary_keys": ("id",)}
    with opened({**options, "use_copy_statement": True}) as sink:
        sink.write(pairs((None, "a"), (None, "b"), (1, "c"), (1, "d")))
        checkpoint(sink, 1)
    assert pg.ask(f"select s from {TABLE} order by s") == [("a",), ("b",), ("d",)]


def test_a_schema_of_the_url_or_of_the_table_is_where_rows_go(pg: Database) -> None:
    pg.ask("drop schema if exists other cascade")
    pg.ask("create schema other")
    options = {**pg.options, "generate_sink_sql": True, "is_exactly_once": True}
    for more in ({"url": f"{pg.url}?currentSchema=other", "table": TABLE}, {"table": f"other.{TABLE}"}):
        with opened({**options, **more}, epoch=1) as sink:
            written(sink, (1, "a"))
            checkpoint(sink, 1)
        assert pg.ask(f"select s from other.{TABLE}") == [("a",)]
        assert pg.ask("select checkpoint from other.edgesocket_checkpoints") == [(1,)]
        pg.ask(f"drop table other.{TABLE}, other.edgesocket_checkpoints")


def test_numbers_without_a_counterpart_are_refused_rows_in_mariadb(mariadb: Database) -> None:
    mariadb.ask(f"drop table if exists {TABLE}")
    schema = pa.schema([("d", pa.float64())])
    rejected: list[RejectedRow] = []
    options = {**mariadb.options, "generate_sink_sql": True, "table": TABLE}
    with opened(options, schema=schema, rejected=rejected) as sink:
        values = [1.5, float("nan"), float("inf"), 2.5]
        sink.write(Rows.of_batch(pa.RecordBatch.from_pydict({"d": values}, schema=schema)))
        checkpoint(sink, 1)
    assert [row.batch_id for row in rejected] == [2, 3]
    assert mariadb.ask(f"select d from {TABLE}") == [(1.5,), (2.5,)]
