"""How rows get into the table: one statement with many values, or COPY.

Whatever fails here fails as a whole; finding the row that is at fault is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import text
from sqlalchemy.engine import Connection

from edgesocket.rows import Rows
from edgesocket.sinks.jdbc_databases import Database
from edgesocket.sinks.jdbc_statement import insert_text
from edgesocket.sinks.jdbc_table import Table, run
from edgesocket.sinks.jdbc_values import csv_text

COPY_ROWS = 50_000
"""Most rows in one COPY: it costs the same whether many or few, so there is no need for more."""

_PIECE_ROWS = 4096
"""Rows made into text at a time: the server reads one piece while the next is made, and the text stays small."""


class Loader(Protocol):
    """Puts rows into the table.

    Attributes:
        most_rows: in one call.
    """

    most_rows: int

    def connected(self, connection: Connection) -> None:
        """Get a new connection ready, in a transaction of its own."""

    def load(self, connection: Connection, rows: Rows) -> None:
        """Put the rows into the table, in the transaction that is open, in their order."""


class StatementLoader:
    """Runs a statement for each row, in as few messages as the driver can."""

    def __init__(self, database: Database, statement: str, most_rows: int) -> None:
        self.most_rows = most_rows
        self._database = database
        self._statement = statement

    def connected(self, connection: Connection) -> None:
        """Nothing to do."""

    def load(self, connection: Connection, rows: Rows) -> None:
        """One execution a row."""
        batch = rows.batch
        columns = [self._database.values(batch.column(n), field) for n, field in enumerate(rows.schema)]
        connection.exec_driver_sql(self._statement, list(zip(*columns, strict=True)))


def insert_loader(database: Database, table: Table, most_rows: int) -> StatementLoader:
    """The loader with a generated insert."""
    columns = [database.quoted(name) for name in table.columns]
    statement = insert_text(database.quoted_path(table.path), columns, database.mark)
    if table.upsert:
        end = database.upsert(table.columns, table.keys)
        statement += end.replace("%", "%%") if database.mark == "%s" else end
    return StatementLoader(database, statement, most_rows)


class CopyLoader:
    """PostgreSQL's COPY. Rows that may be there already go through a temporary table that holds one COPY at a time."""

    _STAGE = "edgesocket_rows"
    _NUMBER = "edgesocket_row"

    def __init__(self, database: Database, table: Table, batch_size: int) -> None:
        self.most_rows = max(COPY_ROWS, batch_size)
        self._upserts = table.upsert
        names = ", ".join(database.quoted(name) for name in table.columns)
        target = database.quoted_path(table.path)
        into = f"pg_temp.{self._STAGE}" if table.upsert else target
        self._copy = f"COPY {into} ({names}) FROM STDIN (FORMAT csv)"
        # No constraint of the target: they are looked at when the rows go there.
        self._make_stage = (
            f"CREATE TEMPORARY TABLE {self._STAGE} ON COMMIT DELETE ROWS AS SELECT {names} FROM {target} WHERE false",  # noqa: S608  names are in quotes
            f"ALTER TABLE pg_temp.{self._STAGE} ADD COLUMN {self._NUMBER} bigint GENERATED ALWAYS AS IDENTITY",
        )
        # One statement may write a row once: the last of those with the same keys wins, as if they came one by one.
        # NULL is no key: such rows are all different.
        quoted = [database.quoted(key) for key in table.keys]
        some_null = " OR ".join(f"{key} IS NULL" for key in quoted)
        keys = ", ".join([*quoted, f"CASE WHEN {some_null} THEN {self._NUMBER} END"])
        newest = f"SELECT DISTINCT ON ({keys}) * FROM pg_temp.{self._STAGE} ORDER BY {keys}, {self._NUMBER} DESC"  # noqa: S608
        merge = f"INSERT INTO {target} ({names}) SELECT {names} FROM ({newest}) AS newest ORDER BY {self._NUMBER}"  # noqa: S608
        self._merge = merge + database.upsert(table.columns, table.keys)

    def connected(self, connection: Connection) -> None:
        """Make the temporary table."""
        if self._upserts:
            for statement in self._make_stage:
                run(connection, statement)

    def load(self, connection: Connection, rows: Rows) -> None:
        """One COPY."""
        if self._upserts:
            run(connection, f"TRUNCATE pg_temp.{self._STAGE}")
        driver = connection.connection.driver_connection
        assert driver is not None
        with driver.cursor() as cursor, cursor.copy(self._copy) as copy:
            for start in range(0, rows.count, _PIECE_ROWS):
                copy.write(csv_text(rows.part(start, min(start + _PIECE_ROWS, rows.count))))
        if self._upserts:
            run(connection, self._merge)


def immediate_constraints(connection: Connection) -> None:
    """PostgreSQL: constraints that would be looked at when the transaction commits are looked at now.

    A row at fault is then found while it can still be told from the others, and a commit does not fail over a row.
    """
    connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))


def names_in_case(names: Sequence[str], field_ide: str) -> tuple[str, ...]:
    """Names as `field_ide` wants them."""
    if field_ide == "UPPERCASE":
        return tuple(name.upper() for name in names)
    if field_ide == "LOWERCASE":
        return tuple(name.lower() for name in names)
    return tuple(names)
