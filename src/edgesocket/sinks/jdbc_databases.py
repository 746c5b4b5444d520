"""What differs between PostgreSQL, MySQL (and MariaDB) and SQLite: how to connect, types, upserts, what an error means.

`Database` is the list of differences; everything else of the Jdbc sink is the same for all of them.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from edgesocket.config.plugins.jdbc_url import JdbcUrl
from edgesocket.sinks.jdbc_statement import quoted, quoted_path
from edgesocket.sinks.jdbc_values import is_timestamp_tz

LOCK_WAIT_S = 20
"""How long a statement waits for a lock that somebody else holds."""
SHOWN_CHARACTERS = 200
"""Most of a database's message that goes into ours."""


class Fault(enum.Enum):
    """What an error of the driver means for the sink."""

    ROW = "one of the rows cannot be taken"
    BUSY = "nothing is wrong with the rows; the transaction can go on"
    UNDONE = "the server has rolled the whole transaction back"
    LOST = "the connection is gone"
    FATAL = "somebody has to change something"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to connect.

    Attributes:
        url: where.
        parameters: from the url and the properties, names in lower case.
        user, password, database: may be empty.
        timeout_s: for connecting, and for a server's silence.
        transaction_timeout_s: after how long the server ends an idle transaction; 0: as it is set up.
    """

    url: JdbcUrl
    parameters: Mapping[str, str] = field(repr=False)
    user: str
    password: str = field(repr=False)
    database: str
    timeout_s: int
    transaction_timeout_s: int = 0


class Database(ABC):
    """One kind of database. Holds no connection."""

    engine: str
    """What SQLAlchemy calls it, with its driver."""
    install: str
    """What has to be installed for it."""
    mark: str
    """Where a value goes in a statement for the driver."""
    quote = '"'
    backslash_escapes = False
    isolation: str | None = "READ COMMITTED"
    begin: str | None = None
    """What begins a transaction, where the driver does not do it."""

    file: str | None = None
    """Where the database is a file: its path."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def connect_arguments(self) -> dict[str, Any]:
        """Keywords for the driver's `connect`."""

    def opened(self, driver_connection: Any) -> None:  # noqa: B027  most have nothing to do
        """Settings of a new connection of the driver that are made outside of transactions."""

    def prepare_session(self, connection: Connection) -> None:  # noqa: B027
        """Settings of a new connection, made in a transaction of their own."""

    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """Errors that reach the sink without SQLAlchemy around them."""
        return ()

    @abstractmethod
    def fault(self, cause: BaseException) -> Fault:
        """What an error of the driver means. Anything unknown may pass by itself."""

    @abstractmethod
    def message(self, cause: BaseException) -> str:
        """What the database says, without the statement and its values."""

    @abstractmethod
    def column_type(self, column: pa.Field, *, is_key: bool) -> str:
        """The type of a column in a table that the sink creates."""

    @abstractmethod
    def values(self, column: pa.Array, column_field: pa.Field) -> list[Any]:
        """A column as values that the driver takes."""

    @abstractmethod
    def upsert(self, columns: Sequence[str], keys: Sequence[str]) -> str:
        """The end of an insert that makes it overwrite a row with the same keys. Names as in the schema."""

    def table_options(self) -> str:
        """The end of a `create table`."""
        return ""

    @abstractmethod
    def session_name(self, connection: Connection) -> str:
        """A name under which `end_session` finds this connection again, from another one. No two are the same."""

    def end_session(self, connection: Connection, name: str) -> None:  # noqa: B027
        """End a connection of the same account, so that its transaction is rolled back and its locks are free.

        Best effort, in a transaction of its own. Nothing happens where it is gone, and never to another connection.
        """

    def quoted(self, name: str) -> str:
        """A name in a statement."""
        return quoted(name, self.quote)

    def quoted_path(self, parts: Sequence[str]) -> str:
        """The name of a table in a statement."""
        return quoted_path(parts, self.quote)

    def read_fault(self, error: BaseException) -> Fault:
        """What an error means, also one that SQLAlchemy has wrapped."""
        if isinstance(error, UndoneError):
            return Fault.LOST if self.read_fault(error.first) is Fault.LOST else Fault.UNDONE
        if isinstance(error, ValueError | OverflowError | pa.ArrowException):
            return Fault.ROW  # a value has no counterpart
        return self.fault(cause_of(error))

    def explain(self, error: BaseException) -> str:
        """What is wrong, in one line, never with the password."""
        text = " ".join(self.message(cause_of(error)).split()) or type(error).__name__
        if self.settings.password:
            text = text.replace(self.settings.password, "***")
        return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


class UndoneError(Exception):
    """Rolling back to a savepoint failed: the server has undone the whole transaction, or the connection is gone.

    Attributes:
        first: the error that was to be answered with the rollback.
    """

    def __init__(self, first: BaseException) -> None:
        self.first: BaseException = first.first if isinstance(first, UndoneError) else first
        super().__init__(str(first))


def cause_of(error: BaseException) -> BaseException:
    """The driver's own error; SQLAlchemy's text would show statement and values."""
    if isinstance(error, UndoneError):
        error = error.first
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def type_name(
    column: pa.Field, names: Mapping[Callable[[pa.DataType], bool], str], decimal: str, moment: str, nested: str
) -> str:
    """The first name whose test the column's type passes.

    Args:
        column: with its metadata.
        names: a test of pyarrow.types -> SQL type.
        decimal: format for decimals with `{precision}` and `{scale}`.
        moment: for timestamp_tz.
        nested: for lists, maps and structs.
    """
    if is_timestamp_tz(column):
        return moment
    if pa.types.is_decimal(column.type):
        return decimal.format(precision=column.type.precision, scale=column.type.scale)
    for test, name in names.items():
        if test(column.type):
            return name
    return nested
