"""SQLite for the Jdbc sink, through Python's own module."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlalchemy.engine import Connection

from edgesocket.sinks.jdbc_databases import LOCK_WAIT_S, Database, Fault, Settings, type_name
from edgesocket.sinks.jdbc_postgresql import on_conflict
from edgesocket.sinks.jdbc_values import sqlite_values

_TYPES = {
    pt.is_boolean: "boolean",
    pt.is_integer: "integer",
    pt.is_floating: "real",
    pt.is_binary: "blob",
}
_FATAL = ("no such table", "no such column", "has no column named", "syntax error", "readonly database", "values for",
          "unable to open", "not a database", "does not match any")  # fmt: skip
_LOST = ("closed database",)
_JOURNAL_MODES = ("delete", "truncate", "persist", "wal")


class SQLite(Database):
    """SQLite 3.24 or later: a file on this host."""

    engine = "sqlite"
    install = "edgesocket[jdbc]"
    mark = "?"
    isolation = None
    begin = "BEGIN IMMEDIATE"  # a lock that is taken at once is waited for; one that is taken later may fail

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.file = settings.url.database

    def connect_arguments(self) -> dict[str, Any]:
        wait_ms = self.settings.parameters.get("busy_timeout", "")
        return {
            "timeout": int(wait_ms) / 1000 if wait_ms.isdigit() else LOCK_WAIT_S,
            "isolation_level": None,  # transactions begin where the sink says so
            "check_same_thread": False,
        }

    def opened(self, driver_connection: Any) -> None:
        driver_connection.execute("PRAGMA synchronous = FULL")
        mode = self.settings.parameters.get("journal_mode", "").lower()
        if mode in _JOURNAL_MODES:
            driver_connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()

    def fault(self, cause: BaseException) -> Fault:
        kind, said = type(cause).__name__, str(cause)
        if kind in ("IntegrityError", "DataError"):
            return Fault.ROW
        if any(part in said for part in _FATAL):
            return Fault.FATAL
        return Fault.LOST if any(part in said for part in _LOST) else Fault.BUSY

    def message(self, cause: BaseException) -> str:
        said = str(cause)
        return f"{said} by another process" if said == "database is locked" else said

    def column_type(self, column: pa.Field, *, is_key: bool) -> str:  # noqa: ARG002  no difference here
        return type_name(column, _TYPES, "text", "text", "text")

    def values(self, column: pa.Array, column_field: pa.Field) -> list[Any]:
        return sqlite_values(column, column_field)

    def upsert(self, columns: Sequence[str], keys: Sequence[str]) -> str:
        return on_conflict(self, columns, keys)

    def session_name(self, connection: Connection) -> str:  # noqa: ARG002  nobody could end it anyway
        return uuid.uuid4().hex
