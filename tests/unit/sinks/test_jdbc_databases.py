"""What errors of the drivers mean, how to connect, and that no password is told. Nothing is connected here."""

from __future__ import annotations

import ssl
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy.exc import DBAPIError

from edgesocket.config.plugins.jdbc_url import parse_jdbc_url
from edgesocket.errors import ComponentError, ConfigError
from edgesocket.sinks.jdbc import JdbcSink
from edgesocket.sinks.jdbc_databases import Fault, Settings
from edgesocket.sinks.jdbc_mysql import MySQL
from edgesocket.sinks.jdbc_postgresql import PostgreSQL
from edgesocket.sinks.jdbc_session import Session
from edgesocket.sinks.jdbc_sqlite import SQLite


def settings(url: str = "jdbc:postgresql://h/d", **more: Any) -> Settings:
    address = parse_jdbc_url(url)
    given: dict[str, Any] = {"user": "u", "password": "hush", "database": address.database, "timeout_s": 30, **more}
    return Settings(url=address, parameters=address.parameters, **given)


class OperationalError(Exception):
    def __init__(self, *args: object, sqlstate: str | None = None) -> None:
        super().__init__(*args)
        self.sqlstate = sqlstate


class DataError(OperationalError): ...


class ProgrammingError(OperationalError): ...


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ("23505", Fault.ROW), ("22001", Fault.ROW), ("21000", Fault.ROW), ("P0001", Fault.ROW), ("54000", Fault.ROW),
        ("40001", Fault.BUSY), ("40P01", Fault.BUSY), ("55P03", Fault.BUSY), ("57014", Fault.BUSY),
        ("53100", Fault.BUSY),
        ("57P01", Fault.LOST), ("08006", Fault.LOST), ("25P03", Fault.LOST), ("25006", Fault.LOST),
        ("42P01", Fault.FATAL), ("42501", Fault.FATAL), ("28P01", Fault.FATAL), ("3D000", Fault.FATAL),
        ("XX000", Fault.BUSY), ("25P02", Fault.BUSY),
    ],
)  # fmt: skip
def test_what_errors_of_postgresql_mean(state: str, fault: Fault) -> None:
    database = PostgreSQL(settings())
    assert database.read_fault(OperationalError("x", sqlstate=state)) is fault
    assert database.read_fault(DBAPIError("statement", (), OperationalError("x", sqlstate=state))) is fault


def test_what_errors_of_postgresql_without_a_state_mean() -> None:
    database = PostgreSQL(settings())
    assert database.read_fault(OperationalError("connection refused")) is Fault.LOST
    assert database.read_fault(OperationalError('password authentication failed for user "u"')) is Fault.FATAL
    assert database.read_fault(DataError("text fields cannot contain NUL")) is Fault.ROW


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OperationalError(1062, "dup"), Fault.ROW), (OperationalError(1406, "long"), Fault.ROW),
        (OperationalError(4025, "check"), Fault.ROW), (DataError(9999, "new"), Fault.ROW),
        (ProgrammingError("nan can not be used with MySQL"), Fault.ROW),
        (OperationalError(1205, "lock wait"), Fault.BUSY), (OperationalError(1213, "deadlock"), Fault.UNDONE),
        (OperationalError(2013, "lost"), Fault.LOST), (OperationalError(2006, "gone"), Fault.LOST),
        (OperationalError(1045, "denied"), Fault.FATAL), (OperationalError(1146, "no table"), Fault.FATAL),
        (OperationalError(9999, "new"), Fault.BUSY),
    ],
)  # fmt: skip
def test_what_errors_of_mysql_mean(error: Exception, fault: Fault) -> None:
    assert MySQL(settings("jdbc:mysql://h/d")).read_fault(error) is fault


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (DataError("string too big"), Fault.ROW), (OperationalError("database is locked"), Fault.BUSY),
        (OperationalError("no such table: t"), Fault.FATAL), (OperationalError("disk I/O error"), Fault.BUSY),
        (OperationalError("unable to open database file"), Fault.FATAL),
        (ProgrammingError("Cannot operate on a closed database."), Fault.LOST),
        (OverflowError("too large"), Fault.ROW),
    ],
)  # fmt: skip
def test_what_errors_of_sqlite_mean(error: Exception, fault: Fault) -> None:
    assert SQLite(settings("jdbc:sqlite:x")).read_fault(error) is fault


def test_an_error_shows_neither_password_nor_statement_nor_much_of_a_value() -> None:
    database = PostgreSQL(settings())
    error = DBAPIError("INSERT secret", {"a": "value"}, OperationalError("cannot connect with hush\nand " + "x" * 999))
    said = database.explain(error)
    assert said.startswith("cannot connect with *** and xxx")
    assert len(said) < 210
    assert "INSERT" not in said
    assert "hush" not in repr(settings("jdbc:mysql://u:hush@h/d?password=hush"))


def test_only_what_can_heal_may_be_tried_again() -> None:
    session = Session(settings())
    for state, retryable in (("40001", True), ("57P01", True), ("42P01", False), ("23505", False)):
        assert session.failure(OperationalError("x", sqlstate=state), "write").retryable is retryable


def test_a_connection_to_postgresql_is_made_as_the_url_says() -> None:
    made = PostgreSQL(settings("jdbc:postgresql://h:1/d?sslmode=require&ApplicationName=mine")).connect_arguments()
    assert (made["host"], made["port"], made["dbname"], made["user"], made["password"]) == ("h", 1, "d", "u", "hush")
    assert (made["sslmode"], made["application_name"], made["client_encoding"]) == ("require", "mine", "utf8")
    assert PostgreSQL(settings("jdbc:postgresql://h/d?ssl=true")).connect_arguments()["sslmode"] == "verify-full"
    assert "sslmode" not in PostgreSQL(settings("jdbc:postgresql://h/d")).connect_arguments()


@pytest.mark.parametrize(
    ("parameters", "mode", "checks_name"),
    [
        ("useSSL=true", ssl.CERT_NONE, False), ("sslMode=REQUIRED", ssl.CERT_NONE, False),
        ("sslMode=trust", ssl.CERT_NONE, False), ("sslMode=VERIFY_CA", ssl.CERT_REQUIRED, False),
        ("sslMode=VERIFY_IDENTITY", ssl.CERT_REQUIRED, True), ("sslMode=verify-full", ssl.CERT_REQUIRED, True),
        ("sslMode=anything", ssl.CERT_REQUIRED, True),
    ],
)  # fmt: skip
def test_encryption_is_never_weaker_than_the_url_asks_for(
    parameters: str, mode: ssl.VerifyMode, checks_name: bool
) -> None:
    context = MySQL(settings(f"jdbc:mysql://h/d?{parameters}")).connect_arguments()["ssl"]
    assert (context.verify_mode, context.check_hostname) == (mode, checks_name)


@pytest.mark.parametrize("parameters", ["", "useSSL=false", "sslMode=DISABLED", "sslMode=PREFERRED"])
def test_without_a_word_about_it_mysql_is_not_encrypted(parameters: str) -> None:
    assert "ssl" not in MySQL(settings(f"jdbc:mysql://h/d?{parameters}")).connect_arguments()


def test_upserts_overwrite_all_columns_that_are_no_key() -> None:
    postgresql, mysql = PostgreSQL(settings()), MySQL(settings("jdbc:mysql://h/d"))
    assert postgresql.upsert(["a", "b"], ["a"]) == ' ON CONFLICT ("a") DO UPDATE SET "b" = excluded."b"'
    assert postgresql.upsert(["a"], ["a"]) == ' ON CONFLICT ("a") DO NOTHING'
    assert mysql.upsert(["a", "b"], ["a"]) == " ON DUPLICATE KEY UPDATE `b` = VALUES(`b`)"
    assert mysql.upsert(["a"], ["a"]) == " ON DUPLICATE KEY UPDATE `a` = `a`"


def test_a_text_key_of_mysql_has_a_length() -> None:
    database = MySQL(settings("jdbc:mysql://h/d"))
    assert database.column_type(pa.field("a", pa.string()), is_key=True) == "varchar(255)"
    assert database.column_type(pa.field("a", pa.string()), is_key=False) == "longtext"


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError(name="psycopg")

    monkeypatch.setattr("sqlalchemy.create_engine", missing)
    with pytest.raises(
        ComponentError, match=r"psycopg is not installed: pip install 'edgesocket\[postgresql\]'"
    ) as caught:
        Session(settings()).connection()
    assert not caught.value.retryable


@pytest.mark.parametrize("wrong", [{"url": "x:hush"}, {}, {"query": "insert", "generate_sink_sql": True, "table": "t"}])
def test_a_sink_that_does_not_know_what_to_do_is_not_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        JdbcSink(**{"url": "jdbc:postgresql://h/d", **wrong})
    assert "hush" not in str(caught.value)
