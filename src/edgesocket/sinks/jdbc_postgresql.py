"""PostgreSQL for the Jdbc sink, through psycopg 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlalchemy import text
from sqlalchemy.engine import Connection

from edgesocket.sinks.jdbc_databases import LOCK_WAIT_S, Database, Fault, type_name
from edgesocket.sinks.jdbc_values import plain_values

_TYPES = {
    pt.is_boolean: "boolean",
    pt.is_int8: "smallint",
    pt.is_int16: "smallint",
    pt.is_int32: "integer",
    pt.is_int64: "bigint",
    pt.is_float32: "real",
    pt.is_float64: "double precision",
    pt.is_date: "date",
    pt.is_time: "time",
    pt.is_timestamp: "timestamp",
    pt.is_binary: "bytea",
    pt.is_string: "text",
    pt.is_null: "text",
}

_FAULTS = {
    "08": Fault.LOST,
    "0A": Fault.FATAL,  # feature not supported
    "21": Fault.ROW,  # the same key twice in one statement: apart, the rows are fine
    "22": Fault.ROW,
    "23": Fault.ROW,
    "25P03": Fault.LOST,  # it was idle for too long
    "25006": Fault.LOST,  # read only: it is a standby now
    "28": Fault.FATAL,
    "3D": Fault.FATAL,  # no such database
    "3F": Fault.FATAL,  # no such schema
    "40": Fault.BUSY,
    "42": Fault.FATAL,  # no such table, no privilege, wrong type
    "44": Fault.ROW,  # a view's check option
    "53": Fault.BUSY,
    "54": Fault.ROW,  # too large for the database
    "57P": Fault.LOST,  # shut down, or our session was ended
    "P0001": Fault.ROW,  # a trigger raised it
}
"""By beginnings of SQLSTATE."""

_REFUSED_LOGIN = ("password authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied")
"""Errors of connecting have no SQLSTATE, only a text."""


class PostgreSQL(Database):
    """PostgreSQL 12 or later."""

    engine = "postgresql+psycopg"
    install = "edgesocket[postgresql]"
    mark = "%s"

    def connect_arguments(self) -> dict[str, Any]:
        settings, parameters = self.settings, self.settings.parameters
        arguments: dict[str, Any] = {
            "host": settings.url.host,
            "port": settings.url.port,
            "dbname": settings.database,
            "user": settings.user,
            "password": settings.password,
            "sslmode": parameters.get("sslmode") or ("verify-full" if parameters.get("ssl") == "true" else ""),
            "sslrootcert": parameters.get("sslrootcert"),
        }
        return {name: value for name, value in arguments.items() if value} | {
            "application_name": parameters.get("applicationname", "edgesocket"),
            "client_encoding": "utf8",
            "connect_timeout": max(settings.timeout_s, 2),
            # A server that vanished is noticed though nothing is sent.
            "keepalives_idle": settings.timeout_s,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": settings.timeout_s * 1000,
        }

    def prepare_session(self, connection: Connection) -> None:
        wanted = {"TimeZone": "UTC", "lock_timeout": f"{LOCK_WAIT_S}s"}
        if schema := self.settings.parameters.get("currentschema"):
            wanted["search_path"] = schema
        if self.settings.transaction_timeout_s:
            wanted["idle_in_transaction_session_timeout"] = f"{self.settings.transaction_timeout_s}s"
        for name, value in wanted.items():
            connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value})
        # A commit that a crash of the server takes back would be a lost row.
        connection.execute(
            text(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
        )

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Of COPY."""
        try:
            import psycopg
        except ImportError:  # connecting says so
            return ()
        return (psycopg.Error,)

    def fault(self, cause: BaseException) -> Fault:
        state = getattr(cause, "sqlstate", None)
        if state:
            for length in (5, 3, 2):
                if state[:length] in _FAULTS:
                    return _FAULTS[state[:length]]
            return Fault.BUSY
        kind = type(cause).__name__
        if kind == "DataError":  # the driver itself refused a value
            return Fault.ROW
        if kind == "OperationalError" and any(part in str(cause) for part in _REFUSED_LOGIN):
            return Fault.FATAL
        return Fault.LOST if kind in ("OperationalError", "InterfaceError", "ConnectionTimeout") else Fault.BUSY

    def message(self, cause: BaseException) -> str:
        diagnosis = getattr(cause, "diag", None)
        primary = getattr(diagnosis, "message_primary", None)
        if not primary:
            return str(cause)
        parts = [primary, getattr(diagnosis, "message_detail", None), getattr(diagnosis, "message_hint", None)]
        return "; ".join(part for part in parts if part)

    def column_type(self, column: pa.Field, *, is_key: bool) -> str:  # noqa: ARG002  no difference here
        return type_name(column, _TYPES, "numeric({precision},{scale})", "timestamptz", "json")

    def values(self, column: pa.Array, column_field: pa.Field) -> list[Any]:
        return plain_values(column, column_field)

    def upsert(self, columns: Sequence[str], keys: Sequence[str]) -> str:
        return on_conflict(self, columns, keys)

    def session_name(self, connection: Connection) -> str:
        """Process id and start: a process id comes again, both together do not."""
        row = connection.execute(
            text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        ).one()
        return f"{row[0]} {row[1].isoformat()}"

    def end_session(self, connection: Connection, name: str) -> None:
        pid, _, start = name.partition(" ")
        if pid.isdigit() and start:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid = :pid AND backend_start = CAST(:start AS timestamptz) AND pid <> pg_backend_pid()"
                ),
                {"pid": int(pid), "start": start},
            )


def on_conflict(database: Database, columns: Sequence[str], keys: Sequence[str]) -> str:
    """The upsert of PostgreSQL and SQLite."""
    target = ", ".join(database.quoted(key) for key in keys)
    others = [database.quoted(name) for name in columns if name not in keys]
    if not others:
        return f" ON CONFLICT ({target}) DO NOTHING"
    # Names are in quotes.
    return f" ON CONFLICT ({target}) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in others)  # nosec
