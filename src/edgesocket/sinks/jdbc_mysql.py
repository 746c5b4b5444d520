"""MySQL and MariaDB for the Jdbc sink, through PyMySQL."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlalchemy import text
from sqlalchemy.engine import Connection

from edgesocket.sinks.jdbc_databases import LOCK_WAIT_S, Database, Fault, type_name
from edgesocket.sinks.jdbc_values import naive_utc_values

_TYPES = {
    pt.is_boolean: "boolean",
    pt.is_int8: "tinyint",
    pt.is_int16: "smallint",
    pt.is_int32: "int",
    pt.is_int64: "bigint",
    pt.is_float32: "float",
    pt.is_float64: "double",
    pt.is_date: "date",
    pt.is_time: "time(6)",
    pt.is_timestamp: "datetime(6)",
    pt.is_binary: "longblob",
    pt.is_string: "longtext",
    pt.is_null: "longtext",
}
_KEY_TYPES = {**_TYPES, pt.is_string: "varchar(255)", pt.is_binary: "varbinary(255)"}

_FAULTS = {
    Fault.LOST: (1053, 1317, 1290, 1836, 1927, 2002, 2003, 2006, 2013, 2055, 4031),
    Fault.FATAL: (1044, 1045, 1046, 1049, 1054, 1064, 1103, 1136, 1142, 1143, 1146, 1227, 1364, 1698, 2059),
    Fault.UNDONE: (1213,),  # a deadlock rolls everything back, a lock that is not free only the statement
    Fault.ROW: (
        1048, 1062, 1118, 1138, 1153, 1216, 1217, 1242, 1264, 1265, 1292, 1366, 1406, 1411, 1416, 1441, 1451, 1452,
        1644, 1690, 1748, 3140, 3819, 4025,
    ),
}  # fmt: skip
_FAULT_OF = {number: fault for fault, numbers in _FAULTS.items() for number in numbers}

_WITHOUT_TLS = ("disable", "disabled", "")
_TRUSTING = ("required", "require", "trust")
_WITHOUT_NAME = ("verify_ca", "verify-ca")

_LOCK_ROOM_S = 10
"""An answer is waited for so much longer than a lock."""


class MySQL(Database):
    """MySQL 5.7 or MariaDB 10.3, or later."""

    engine = "mysql+pymysql"
    install = "edgesocket[mysql]"
    mark = "%s"
    quote = "`"
    backslash_escapes = True

    def connect_arguments(self) -> dict[str, Any]:
        settings = self.settings
        silence = max(settings.timeout_s, LOCK_WAIT_S + _LOCK_ROOM_S)
        arguments: dict[str, Any] = {
            "host": settings.url.host,
            "port": settings.url.port,
            "user": settings.user,
            "password": settings.password,
            "database": settings.database,
            "ssl": self._tls(),
        }
        return {name: value for name, value in arguments.items() if value} | {
            "charset": "utf8mb4",
            "connect_timeout": settings.timeout_s,
            "read_timeout": silence,
            "write_timeout": silence,
        }

    def _tls(self) -> ssl.SSLContext | None:
        """As `sslMode` says; the old `useSSL = true` stands for encryption without looking at the certificate."""
        parameters = self.settings.parameters
        old = "true" in (parameters.get("usessl"), parameters.get("requiressl"))
        mode = parameters.get("sslmode", "required" if old else "").lower()
        if mode in (*_WITHOUT_TLS, "preferred"):
            return None
        context = ssl.create_default_context()
        if mode in _TRUSTING:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif mode in _WITHOUT_NAME:
            context.check_hostname = False
        return context

    def prepare_session(self, connection: Connection) -> None:
        statements = [
            # Without it a text that is too long is cut, and nobody hears of it.
            "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
            "SET SESSION time_zone = '+00:00'",
            f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_S}",
        ]
        if self.settings.transaction_timeout_s:
            statements.append(f"SET SESSION wait_timeout = {self.settings.transaction_timeout_s}")
        for statement in statements:
            connection.execute(text(statement))

    def fault(self, cause: BaseException) -> Fault:
        number = cause.args[0] if cause.args else None
        if isinstance(number, int) and number in _FAULT_OF:
            return _FAULT_OF[number]
        kind = type(cause).__name__
        if kind in ("DataError", "IntegrityError"):
            return Fault.ROW
        if kind == "ProgrammingError" and not isinstance(number, int):  # the driver: no text for nan and inf
            return Fault.ROW
        return Fault.LOST if kind == "InterfaceError" or number == 0 else Fault.BUSY

    def message(self, cause: BaseException) -> str:
        return str(cause.args[-1]) if cause.args else str(cause)

    def column_type(self, column: pa.Field, *, is_key: bool) -> str:
        types = _KEY_TYPES if is_key else _TYPES
        return type_name(column, types, "decimal({precision},{scale})", "datetime(6)", "json")

    def values(self, column: pa.Array, column_field: pa.Field) -> list[Any]:
        return naive_utc_values(column, column_field)

    def upsert(self, columns: Sequence[str], keys: Sequence[str]) -> str:
        names = [self.quoted(name) for name in columns if name not in keys]
        if not names:
            key = self.quoted(keys[0])
            return f" ON DUPLICATE KEY UPDATE {key} = {key}"
        return " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in names)

    def table_options(self) -> str:
        return " ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

    def session_name(self, connection: Connection) -> str:
        """A lock that ends with the connection; the server knows who holds it."""
        name = f"edgesocket {uuid.uuid4().hex}"
        connection.execute(text("SELECT GET_LOCK(:name, 0)"), {"name": name})
        return name

    def end_session(self, connection: Connection, name: str) -> None:
        holder = connection.execute(text("SELECT IS_USED_LOCK(:name)"), {"name": name}).scalar()
        if holder is not None:
            connection.execute(text(f"KILL {int(holder)}"))
