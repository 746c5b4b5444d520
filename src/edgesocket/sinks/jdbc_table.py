"""The table rows go to: looked at when the sink is opened, created where it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.engine import Connection, Inspector

from edgesocket.config.plugins.jdbc_url import MARIADB, MYSQL
from edgesocket.errors import ComponentError
from edgesocket.sinks.jdbc_databases import Database

CREATE = "CREATE_SCHEMA_WHEN_NOT_EXIST"
IGNORE = "IGNORE"


@dataclass(frozen=True, slots=True)
class Table:
    """A table and what is written into it.

    Attributes:
        path: `(table,)`, `(schema, table)` or `(database, table)`, as the database spells them.
        columns: names of the columns, in the order of the rows.
        keys: those that tell rows apart, may be empty.
        upsert: whether a row with the same keys is overwritten.
    """

    path: tuple[str, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    upsert: bool

    @property
    def shown(self) -> str:
        """For messages."""
        return ".".join(self.path)

    @property
    def schema(self) -> str | None:
        """Where the table is, None for the connection's own."""
        return self.path[0] if len(self.path) > 1 else None


def make_ready(
    connection: Connection, database: Database, table: Table, schema: pa.Schema, mode: str, create_index: bool
) -> None:
    """See that the table can take the rows; create it if `mode` says so. In a transaction.

    Raises:
        ComponentError: it cannot, and no retry would help; the message says what to change.
    """
    unknown = [key for key in table.keys if key not in table.columns]
    if unknown:
        _refuse(f"primary_keys names {', '.join(unknown)}, and the rows have {', '.join(table.columns)}")
    if mode == IGNORE:
        return
    inspector = sqlalchemy.inspect(connection)
    if not inspector.has_table(table.path[-1], schema=table.schema):
        if mode != CREATE:
            _refuse(f"there is no table {table.shown}; create it, or set schema_save_mode = {CREATE}")
        keys = table.keys if create_index else ()
        run(connection, create_statement(database, table, schema, keys))
        inspector = sqlalchemy.inspect(connection)
    known = {column["name"] for column in inspector.get_columns(table.path[-1], schema=table.schema)}
    if database.settings.url.kind in (MYSQL, MARIADB):
        missing = [name for name in table.columns if name.lower() not in {one.lower() for one in known}]
    else:
        missing = [name for name in table.columns if name not in known]
    if missing:
        _refuse(
            f"table {table.shown} has no column {', '.join(missing)}; it has {', '.join(sorted(known))} "
            "(add columns, rename the fields, or set field_ide)"
        )
    if table.upsert and not _is_unique(inspector, table):
        keys_text = ", ".join(table.keys)
        _refuse(
            f"table {table.shown} has no primary key or unique index on exactly ({keys_text}), so nothing would be "
            "overwritten; make one, correct primary_keys, or set enable_upsert = false"
        )


def create_statement(database: Database, table: Table, schema: pa.Schema, keys: Sequence[str]) -> str:
    """`create table` for rows of a schema; columns outside of `keys` may be NULL."""
    lines = []
    for name, column in zip(table.columns, schema, strict=True):
        type_ = database.column_type(column, is_key=name in keys)
        lines.append(f"{database.quoted(name)} {type_}{' NOT NULL' if name in keys else ''}")
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(database.quoted(key) for key in keys)})")
    name = database.quoted_path(table.path)
    return f"CREATE TABLE {name} ({', '.join(lines)}){database.table_options()}"


def run(connection: Connection, statement: str) -> None:
    """Run a statement without values; nothing in it is taken for a mark."""
    connection.execute(text(statement.replace(":", r"\:")))


def _is_unique(inspector: Inspector, table: Table) -> bool:
    name, schema = table.path[-1], table.schema
    keys = {key.lower() for key in table.keys}
    candidates = [inspector.get_pk_constraint(name, schema=schema)["constrained_columns"]]
    candidates += [one["column_names"] for one in inspector.get_unique_constraints(name, schema=schema)]
    candidates += [
        [column or "" for column in one["column_names"]]
        for one in inspector.get_indexes(name, schema=schema)
        if one["unique"]
    ]
    return any({column.lower() for column in columns} == keys for columns in candidates)


def refuse_without_transactions(connection: Connection, path: Sequence[str]) -> None:
    """MySQL: an engine that cannot roll back cannot take rows exactly once.

    Args:
        path: the table, may be empty where a statement does not say.

    Raises:
        ComponentError: the table's engine has no transactions.
    """
    if not path:
        return
    row = connection.execute(
        text(
            "SELECT t.engine, e.transactions FROM information_schema.tables t"
            " JOIN information_schema.engines e ON e.engine = t.engine"
            " WHERE t.table_name = :name AND t.table_schema = COALESCE(:schema, DATABASE())"
        ),
        {"name": path[-1], "schema": path[-2] if len(path) > 1 else None},
    ).first()
    if row is not None and row[1] != "YES":
        _refuse(
            f"table {'.'.join(path)} is stored by {row[0]}, which has no transactions, so is_exactly_once cannot be; "
            "ALTER TABLE ... ENGINE = InnoDB, or set is_exactly_once = false"
        )


def _refuse(message: str) -> None:
    raise ComponentError(f"Jdbc sink: {message}", retryable=False)
