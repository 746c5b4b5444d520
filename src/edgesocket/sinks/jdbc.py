"""The sink that writes rows into a table of PostgreSQL, MySQL, MariaDB or SQLite: at least once, or exactly once.

*At least once* (`is_exactly_once = false`). Rows are committed batch by batch, the last at the checkpoint, and an ACK
says that the database has committed them. After a crash the rows of the unfinished checkpoint come again: with
`primary_keys` they overwrite themselves, so the table shows each once, without them there are duplicates.

*Exactly once* (`is_exactly_once = true`). The rows since the last checkpoint lie in one open transaction, which
carries the checkpoint's number and commits with it: `jdbc_checkpoints` says why an owner that lost the job cannot
commit. The rows wait in the server, not here, so their number is bounded by its disk; here waits at most one batch.
Readers of the table see a checkpoint's rows at once or not at all.

A row that the table refuses for good (a constraint, a value that does not fit) is found by halving the batch between
savepoints, and rejected; all others stay. Nothing is ever cut to fit: the sink asks MySQL for its strict mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from sqlalchemy.engine import Connection, RootTransaction

from edgesocket.components.sink import CommitRole, Manifest, RejectedRow, SinkContext
from edgesocket.config.convert import Refused
from edgesocket.config.plugins.jdbc_url import MARIADB, MYSQL, POSTGRESQL, parse_jdbc_url
from edgesocket.errors import ComponentError, ConfigError, ConfigProblem, FencedError
from edgesocket.rows import Rows
from edgesocket.sinks import jdbc_table
from edgesocket.sinks.jdbc_checkpoints import CheckpointRow
from edgesocket.sinks.jdbc_databases import Fault, Settings
from edgesocket.sinks.jdbc_loaders import (
    CopyLoader,
    Loader,
    StatementLoader,
    immediate_constraints,
    insert_loader,
    names_in_case,
)
from edgesocket.sinks.jdbc_session import Session, savepoint
from edgesocket.sinks.jdbc_statement import target_of, with_driver_marks
from edgesocket.sinks.jdbc_table import Table
from edgesocket.sinks.jdbc_values import bytes_of, joined, row_text

MAX_WAITING_BYTES = 16 << 20
"""Rows that wait for a full batch are sent when they are larger than this."""
RETRY_PAUSE_S = 1.0
"""Between two attempts at a batch, or at finding out about a commit."""


class JdbcSink:
    """Writes rows into a table of a database.

    Guarantees: at least once, and the table shows each row once where primary keys are overwritten; exactly once
    (deciding) with `is_exactly_once`. One thread. A `write` that raises has taken nothing; with `reopen` the open
    transaction is lost, and what it held comes again after a restore.
    """

    def __init__(
        self,
        *,
        url: str,
        driver: str = "",  # noqa: ARG002  checked with the job file
        username: str = "",
        password: str = "",
        properties: Mapping[str, str] | None = None,
        connection_check_timeout_sec: int = 30,
        query: str = "",
        generate_sink_sql: bool = False,
        database: str = "",
        table: str = "",
        primary_keys: Sequence[str] = (),
        enable_upsert: bool = True,
        field_ide: str = "ORIGINAL",
        use_copy_statement: bool = False,
        schema_save_mode: str = jdbc_table.CREATE,
        data_save_mode: str = "APPEND_DATA",  # noqa: ARG002  there is no other
        create_index: bool = True,
        batch_size: int = 1000,
        batch_interval_ms: int = 0,
        max_retries: int = 0,
        is_exactly_once: bool = False,
        max_commit_attempts: int = 3,
        transaction_timeout_sec: int = -1,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the options, which a job file has had checked; nothing is connected before `open`.

        Args:
            url: address of the database, as JDBC writes it.
            sleep: waits so many seconds.
            now: a steady clock in seconds.

        The others are the options of the job file.

        Raises:
            ConfigError: the url is none, or it is not said what to run for a row.
        """
        try:
            address = parse_jdbc_url(url)
        except Refused as refused:
            raise ConfigError([ConfigProblem("url", refused.message, refused.fix)]) from None
        if bool(query) == (generate_sink_sql and bool(table)):
            raise ConfigError([ConfigProblem("query", "needs either query, or generate_sink_sql with table")])
        parameters = {**address.parameters, **{name.lower(): value for name, value in (properties or {}).items()}}
        self._settings = Settings(
            url=address,
            parameters=parameters,
            user=username or parameters.get("user", ""),
            password=password or parameters.get("password", ""),
            database=address.database or database,
            timeout_s=connection_check_timeout_sec,
            transaction_timeout_s=max(transaction_timeout_sec, 0) if is_exactly_once else 0,
        )
        self.commit_role = CommitRole.DECIDING if is_exactly_once else CommitRole.NONE
        self._query = query
        self._database_name = database
        self._table_name = table
        self._primary_keys = tuple(primary_keys)
        self._upserts = enable_upsert and bool(primary_keys)
        self._field_ide = field_ide
        self._copies = use_copy_statement
        self._schema_save_mode = schema_save_mode
        self._create_index = create_index
        self._batch_size = batch_size
        self._interval_s = batch_interval_ms / 1000
        self._max_retries = max_retries
        self._commit_attempts = max_commit_attempts
        self._sleep = sleep
        self._now = now

        self._context = SinkContext("", 0, "")
        self._session = Session(self._settings)
        self._loader: Loader = StatementLoader(self._session.database, "", batch_size)
        self._row: CheckpointRow | None = None  # exactly once: this sink's row of checkpoints
        self._transaction: RootTransaction | None = None  # exactly once: holds what was written since the last commit
        self._held = 0  # rows in it
        self._prepared = 0  # the checkpoint that covers all of it, 0 for none
        self._lost = ""  # why rows of an unfinished checkpoint are gone
        self._waiting: list[Rows] = []  # taken, not sent
        self._waiting_rows = self._waiting_bytes = 0
        self._waiting_since = 0.0

    # ---- opening -------------------------------------------------------------------------------------------------

    def open(self, context: SinkContext) -> None:
        """Connect, and see that the table can take the rows.

        Raises:
            ComponentError: the database cannot be reached; or, not to be retried, something has to be changed first.
        """
        self._context = context
        session = self._session
        try:
            connection = session.connection()
            table = self._look_at_table(connection, context.schema)
            with connection.begin():
                self._loader.connected(connection)
            session.on_connect.append(self._loader.connected)
            if self.commit_role is CommitRole.DECIDING:
                if self._settings.url.kind in (MYSQL, MARIADB):
                    with connection.begin():
                        jdbc_table.refuse_without_transactions(
                            connection, table.path if table else target_of(self._query)
                        )
                schema = table.schema if table else None
                self._row = CheckpointRow(session, context.job, context.sink_id, schema)
                self._row.make_ready()
        except self._session.errors as error:
            failure = session.failure(error, "get ready")
            session.drop()
            raise failure from error

    def _look_at_table(self, connection: Connection, schema: pa.Schema) -> Table | None:
        """Make the loader. Returns the table, None where a query names it."""
        database = self._session.database
        if self._query:
            statement, count = with_driver_marks(
                self._query, database.mark, backslash_escapes=database.backslash_escapes
            )
            if count != len(schema):
                message = f"query has {count} ? and the rows have {len(schema)} columns: {', '.join(schema.names)}"
                raise ComponentError(f"Jdbc sink: {message}", retryable=False)
            self._loader = StatementLoader(database, statement, self._batch_size)
            return None
        path = names_in_case(self._table_name.split("."), self._field_ide)
        if self._settings.url.kind in (MYSQL, MARIADB) and len(path) == 1 and self._database_name:
            path = (self._database_name, *path)
        columns = names_in_case(schema.names, self._field_ide)
        keys = names_in_case(self._primary_keys, self._field_ide)
        table = Table(path, columns, keys, self._upserts)
        with connection.begin():
            jdbc_table.make_ready(connection, database, table, schema, self._schema_save_mode, self._create_index)
        self._loader = (
            CopyLoader(database, table, self._batch_size)
            if self._copies
            else insert_loader(database, table, self._batch_size)
        )
        return table

    # ---- rows ----------------------------------------------------------------------------------------------------

    def write(self, rows: Rows) -> None:
        """Take the rows; send those that fill batches.

        Between `prepare` and `commit` of an exactly-once sink they wait here, up to MAX_WAITING_BYTES, for what is sent
        then would be committed with the checkpoint; more of them mean that it was aborted.

        Raises:
            ComponentError: the database does not take them; none of these rows is kept, those taken before are.
            BadRecordError: it refuses one for good, and the job is to fail then; the same.
        """
        self._check_not_lost()
        before = self._waiting_rows, self._waiting_bytes, self._waiting_since
        if not self._waiting:
            self._waiting_since = self._now()
        self._waiting.append(rows)
        self._waiting_rows += rows.count
        self._waiting_bytes += bytes_of(rows)
        try:
            is_covered = bool(self._prepared and self._held)
            if self._waiting_bytes > MAX_WAITING_BYTES or (self._is_interval_over() and not is_covered):
                self._send(self._waiting_rows)
            elif self._waiting_rows >= self._batch_size and not is_covered:
                self._send(self._waiting_rows - self._waiting_rows % self._batch_size)
        except BaseException:
            self._waiting.pop()
            self._waiting_rows, self._waiting_bytes, self._waiting_since = before
            raise

    def prepare(self, checkpoint: int) -> Manifest:
        """Send everything taken so far. Then it is committed, or with exactly once in the open transaction.

        Returns:
            `{"rows": count}` where the transaction holds rows to commit, else nothing.

        Raises:
            ComponentError: the database does not take them; they stay for the next `prepare`, unless it says reopen.
            BadRecordError: it refuses one for good, and the job is to fail then.
        """
        self._check_not_lost()
        self._send(self._waiting_rows)
        if self._row is None:
            return {}
        self._row.check_is_new(checkpoint)
        self._prepared = checkpoint
        return {"rows": self._held} if self._held else {}

    def flush(self) -> None:
        """Send and commit what waits for a full batch. With exactly once it waits on: nobody could see it anyway.

        Raises: as `write`; what the database does not take waits on.
        """
        self._check_not_lost()
        if self._row is None:
            self._send(self._waiting_rows)

    def _is_interval_over(self) -> bool:
        return self._interval_s > 0 and self._now() - self._waiting_since >= self._interval_s

    def _send(self, count: int) -> None:
        """Send the first `count` of the rows that wait; on an error all still wait."""
        if not count:
            return
        whole = joined(self._waiting)
        self._load(whole.part(0, count))
        rest = [whole.part(count, whole.count)] if count < whole.count else []
        self._waiting, self._waiting_rows = rest, whole.count - count
        self._waiting_bytes = sum(map(bytes_of, rest))
        self._waiting_since = self._now()

    def _load(self, rows: Rows) -> None:
        """All of the rows or none, with as many attempts as are allowed."""
        attempts = 1 + self._max_retries
        # A connection that broke while nothing was to do is no failure yet.
        attempts += self._session.is_connected and not self._held
        for attempt in range(1, attempts + 1):
            try:
                if self._row is None:
                    self._load_and_commit(rows)
                else:
                    self._load_and_hold(self._row, rows)
                return
            except self._session.errors as error:
                fault, failure = self._failed(error, f"write {rows.count} rows")
                again = fault is Fault.LOST or attempt <= self._max_retries
                if attempt == attempts or not again or not failure.retryable or failure.reopen:
                    raise failure from error
                if fault is not Fault.LOST or attempt > 1:
                    self._sleep(RETRY_PAUSE_S)

    def _load_and_commit(self, rows: Rows) -> None:
        connection = self._session.connection()
        with connection.begin():
            self._insert(connection, rows)

    def _load_and_hold(self, row: CheckpointRow, rows: Rows) -> None:
        connection = self._begin(row)
        with savepoint(connection):  # an error takes back these rows, not those of earlier writes
            self._insert(connection, rows)
        self._held += rows.count
        self._prepared = 0

    def _begin(self, row: CheckpointRow) -> Connection:
        """The connection, with the transaction of the next checkpoint open."""
        connection = self._session.connection()
        if self._transaction is None:
            row.claim(self._context.epoch)
            self._transaction = connection.begin()
        return connection

    def _insert(self, connection: Connection, rows: Rows) -> None:
        """Put rows into the table; those it refuses are rejected once the others are there."""
        if self._settings.url.kind == POSTGRESQL:
            immediate_constraints(connection)
        rejected: list[RejectedRow] = []
        for start in range(0, rows.count, self._loader.most_rows):
            self._insert_part(connection, rows.part(start, min(start + self._loader.most_rows, rows.count)), rejected)
        for one in rejected:
            self._context.reject(one)

    def _insert_part(self, connection: Connection, rows: Rows, rejected: list[RejectedRow]) -> None:
        """Halve the rows until the one at fault is alone. A fault costs about log2(rows) more statements."""
        database = self._session.database
        try:
            with savepoint(connection):
                self._loader.load(connection, rows)
            return
        except self._session.errors as error:
            if database.read_fault(error) is not Fault.ROW:
                raise
            reason = database.explain(error)
        if rows.count == 1:
            rejected.append(RejectedRow(rows.id_at(0), f"the database refuses the row: {reason}", row_text(rows)))
            return
        middle = rows.count // 2
        self._insert_part(connection, rows.part(0, middle), rejected)
        self._insert_part(connection, rows.part(middle, rows.count), rejected)

    def _failed(self, error: BaseException, what: str) -> tuple[Fault, ComponentError]:
        """What an error means for the open transaction, and what to raise."""
        failure = self._session.failure(error, what)
        if isinstance(error, ComponentError):
            return Fault.FATAL, failure
        fault = self._session.database.read_fault(error)
        if fault in (Fault.LOST, Fault.UNDONE):
            if self._held:
                self._lost = str(failure)
                failure.reopen = True
            self._roll_back()
        if fault is Fault.LOST:
            self._session.drop()
        return fault, failure

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def commit(self, checkpoint: int, manifest: Manifest) -> None:  # noqa: ARG002  the transaction knows
        """Exactly once: mark the transaction with the checkpoint and commit it. Does nothing where that is done.

        Raises:
            FencedError: a higher epoch has claimed the job; the transaction is rolled back.
            ComponentError: it is known not to be committed, or not known at all; the sink must be opened again.
        """
        row = self._row
        if row is None or checkpoint <= row.landed:
            return
        self._check_not_lost()
        if self._prepared != checkpoint:
            raise ComponentError(f"Jdbc sink: checkpoint {checkpoint} is not prepared in this run", reopen=True)
        try:
            connection = self._begin(row)
            assert self._transaction is not None
            if row.mark(connection, self._context.epoch, checkpoint):
                self._transaction.commit()
                row.landed = checkpoint
            else:
                self._lost = "another run or connection has claimed this sink's row of checkpoints"
        except self._session.errors as error:
            self._lost = str(self._session.failure(error, f"commit checkpoint {checkpoint}"))
        if self._lost:
            self._find_out(row, checkpoint)
        self._transaction, self._held, self._prepared = None, 0, 0

    def _find_out(self, row: CheckpointRow, checkpoint: int) -> None:
        """After a commit that failed: connect again, make sure that nothing is in flight, and look."""
        lost = self._lost
        self._roll_back()
        self._session.drop()
        for attempt in range(self._commit_attempts):
            if attempt:
                self._sleep(RETRY_PAUSE_S)
            try:
                row.claim(self._context.epoch)
            except FencedError:
                self._session.drop()
                raise
            except self._session.errors as error:
                lost = str(self._session.failure(error, f"find out whether checkpoint {checkpoint} is committed"))
                self._session.drop()
                continue
            if row.landed >= checkpoint:
                self._lost = ""
                return
            raise ComponentError(f"Jdbc sink: checkpoint {checkpoint} was rolled back: {lost}", reopen=True)
        raise ComponentError(lost, reopen=True)

    def fence(self, epoch: int) -> None:
        """Exactly once: make sure that no lower epoch can commit, in a transaction of its own.

        Raises:
            FencedError: a higher epoch was here before.
            ComponentError: the database cannot be reached.
        """
        row = self._row
        assert row is not None, "only an open sink with is_exactly_once is fenced"
        self._roll_back()
        was_connected = self._session.is_connected
        try:
            row.claim(epoch)
            row.check_not_fenced(epoch)
        except self._session.errors as error:
            fault, failure = self._failed(error, "fence earlier runs")
            self._session.drop()
            if fault is not Fault.LOST or not was_connected:
                raise failure from error
            self.fence(epoch)  # on a new connection

    def landed(self) -> int:
        """Exactly once: the highest checkpoint committed for this job and sink, 0 for none."""
        assert self._row is not None
        return self._row.landed

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back."""
        self._transaction, self._waiting, self._waiting_rows = None, [], 0
        self._session.close()

    def _roll_back(self) -> None:
        transaction, self._transaction, self._held, self._prepared = self._transaction, None, 0, 0
        if transaction is not None:
            try:
                transaction.rollback()
            except Exception:  # the connection is broken, and the server rolls back by itself
                self._session.drop()

    def _check_not_lost(self) -> None:
        if self._lost:
            raise ComponentError(f"Jdbc sink must be opened again: {self._lost}", reopen=True)
