"""One connection to a database, made when it is needed and again after it was lost. Errors become ours here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import sqlalchemy
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from edgesocket.config.plugins.jdbc_url import MARIADB, MYSQL, POSTGRESQL, SQLITE
from edgesocket.errors import ComponentError
from edgesocket.sinks.jdbc_databases import Database, Fault, Settings, UndoneError
from edgesocket.sinks.jdbc_mysql import MySQL
from edgesocket.sinks.jdbc_postgresql import PostgreSQL
from edgesocket.sinks.jdbc_sqlite import SQLite

_DATABASES: dict[str, Callable[[Settings], Database]] = {
    POSTGRESQL: PostgreSQL,
    MYSQL: MySQL,
    MARIADB: MySQL,
    SQLITE: SQLite,
}


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    """Everything in the body, or nothing of it; the transaction goes on in any case.

    Raises:
        UndoneError: it does not go on, because the server has rolled all of it back (MySQL does so at a deadlock).
        Exception: what the body raised, its statements undone.
    """
    nested = connection.begin_nested()
    try:
        yield
        nested.commit()
    except BaseException as error:
        try:
            nested.rollback()
        except Exception:
            raise UndoneError(error) from error
        raise


class Session:
    """A connection and how to get the next one.

    Attributes:
        database: what is special about it.
        on_connect: called with each new connection, in a transaction of its own.
        errors: what using a connection raises: the driver's errors, and those of values without a counterpart.
        number: how many connections there have been; tells a new one from the last.

    Guarantees: one thread; at most one connection; nothing is connected before `connection` asks for it.
    """

    def __init__(self, settings: Settings) -> None:
        self.database = _DATABASES[settings.url.kind](settings)
        self.on_connect: list[Callable[[Connection], None]] = []
        self.errors: tuple[type[BaseException], ...] = (
            UndoneError,
            SQLAlchemyError,
            *self.database.driver_errors(),
            ValueError,
            OverflowError,
            pa.ArrowException,
        )
        self.number = 0
        self._settings = settings
        self._engine: Engine | None = None
        self._connection: Connection | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that has not been seen to fail."""
        return self._connection is not None

    def connection(self) -> Connection:
        """The connection, made now if there is none.

        Raises:
            ComponentError: the driver is not installed.
            Exception: an error of the driver; see `failure`.
        """
        if self._connection is not None:
            return self._connection
        if self._engine is None:
            self._engine = self._made_engine()
        connection = self._engine.connect()
        self._connection, self.number = connection, self.number + 1
        try:
            with connection.begin():
                self.database.prepare_session(connection)
                for prepare in self.on_connect:
                    prepare(connection)
        except BaseException:
            self.drop()
            raise
        return connection

    def _made_engine(self) -> Engine:
        database = self.database
        options: dict[str, Any] = {"isolation_level": database.isolation} if database.isolation else {}
        try:
            engine = sqlalchemy.create_engine(
                sqlalchemy.URL.create(database.engine, database=database.file),
                connect_args=database.connect_arguments(),
                poolclass=sqlalchemy.pool.NullPool,
                hide_parameters=True,
                **options,
            )
        except ImportError as error:
            message = f"Jdbc sink: {error.name} is not installed: pip install '{database.install}'"
            raise ComponentError(message, retryable=False) from error
        # Before anything else: the settings must not fall into a transaction that SQLAlchemy begins.
        sqlalchemy.event.listen(engine, "connect", lambda driver, _: database.opened(driver), insert=True)
        if database.begin is not None:
            begin = database.begin
            sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def drop(self) -> None:
        """Forget the connection without a word to the server: what it had begun is rolled back there."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.invalidate()
            connection.close()
        except Exception:  # noqa: S110  it may be broken in any way, and is closed in any case
            pass

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self.drop()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def failure(self, error: BaseException, what: str) -> ComponentError:
        """The error to raise for an error of the driver; see `Database.read_fault` for what else it means.

        Args:
            error: as it was caught.
            what: what was being done ("write 100 rows").
        """
        if isinstance(error, ComponentError):
            return error
        database, fault = self.database, self.database.read_fault(error)
        where = self._settings.url.shown
        retryable = fault not in (Fault.FATAL, Fault.ROW)
        return ComponentError(f"Jdbc sink, {where}: cannot {what}: {database.explain(error)}", retryable=retryable)
