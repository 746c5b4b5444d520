"""The row (job, sink) that makes a database transaction decide a checkpoint, and why no fenced owner gets past it.

Table `edgesocket_checkpoints`, one row for each job and sink::

    job, sink       who
    epoch           the highest run that has claimed the row
    session         the connection that claimed it last; also how to end it
    checkpoint      the highest checkpoint that was committed, 0 for none

A *claim* is a transaction of its own that writes epoch and session, where the epoch in the row is not higher. Every
new connection claims before it takes rows. A *mark* is the last statement of a checkpoint's transaction::

    UPDATE ... SET checkpoint = n WHERE job = .. AND sink = .. AND epoch = .. AND session = ..

and the transaction is committed only if that has matched one row.

Why this fences. Take an owner A that is paused anywhere, and a claim of B that has returned. The row is not locked
while rows are written, so B never waits for a sleeping A, unless A sleeps between its mark and its commit; then B ends
A's connection, the server rolls A back, and B's update gets the lock. If A marks after B's claim, the update finds
other values and matches nothing: under READ COMMITTED (PostgreSQL, InnoDB; the sink asks for it) an update looks at
the newest committed row, and InnoDB does so at every level. Were the level higher on PostgreSQL, the update would
fail instead. If A marked before B's claim, A held the row's lock until its commit or rollback, and B's update waited
for that: what B reads after its claim is final. So at every moment either A's commit is visible to B, or it can never
happen. `session` does the same between two connections of one owner, where the first was lost with its commit in
flight: once the second has claimed, the answer to "did it land" will not change.

Rows that A wrote stay locked until A's connection ends, which a claim sees to where the server lets it. A statement
of B that meets such a lock gives up after a while with an error and is tried again; that costs time, never a row.
"""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import BigInteger, Column, MetaData, String, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from edgesocket.config.plugins.jdbc_url import MARIADB, MYSQL, SQLITE
from edgesocket.errors import ComponentError, FencedError
from edgesocket.sinks.jdbc_session import Session
from edgesocket.sinks.jdbc_table import refuse_without_transactions

TABLE = "edgesocket_checkpoints"
MAX_NAME = 255
"""Most characters of a job's and of a sink's name."""


class CheckpointRow:
    """This sink's row.

    Args:
        session: the connection.
        job, sink: whose row.
        schema: where the table is; None for the connection's own.

    Attributes:
        landed: the highest checkpoint known to be committed.

    Guarantees: see the module's text. One thread.
    """

    def __init__(self, session: Session, job: str, sink: str, schema: str | None = None) -> None:
        if max(len(_stored(job)), len(_stored(sink))) > MAX_NAME:
            message = f"Jdbc sink: is_exactly_once needs names of jobs and sinks of at most {MAX_NAME} characters"
            raise ComponentError(message, retryable=False)
        self.landed = 0
        self._session = session
        self._job, self._sink = job, sink
        self._schema = schema
        self._claimed = 0  # number of the connection that has claimed
        self._name = ""  # of that connection
        is_mysql = session.database.settings.url.kind in (MYSQL, MARIADB)
        text = String(MAX_NAME, collation="utf8mb4_bin") if is_mysql else String(MAX_NAME)
        self._table = sqlalchemy.Table(
            TABLE,
            MetaData(),
            Column("job", text, primary_key=True),
            Column("sink", text, primary_key=True),
            Column("epoch", BigInteger, nullable=False),
            Column("checkpoint", BigInteger, nullable=False),
            Column("session", String(MAX_NAME), nullable=False),
            schema=schema,
            mysql_engine="InnoDB",
            mysql_charset="utf8mb4",
            mariadb_engine="InnoDB",
            mariadb_charset="utf8mb4",
        )
        self._key = {"job": _stored(job), "sink": _stored(sink)}
        self._mine = (self._table.c.job == self._key["job"]) & (self._table.c.sink == self._key["sink"])

    def make_ready(self) -> None:
        """Create the table and the row where they are missing, in transactions of their own."""
        connection = self._session.connection()
        try:
            with connection.begin():
                self._table.create(connection, checkfirst=True)
        except DBAPIError:
            # Another job may have been faster. Then it is there, and else this says what is wrong.
            connection = self._session.connection()
            with connection.begin():
                connection.execute(select(self._table).where(self._mine)).first()
        with connection.begin():
            if self._session.database.settings.url.kind in (MYSQL, MARIADB):
                refuse_without_transactions(connection, (self._schema, TABLE) if self._schema else (TABLE,))
            if connection.execute(select(self._table.c.epoch).where(self._mine)).first() is None:
                values = {**self._key, "epoch": 0, "checkpoint": 0, "session": ""}
                connection.execute(insert(self._table).values(values))

    def claim(self, epoch: int) -> None:
        """Make sure that no lower epoch, and no earlier connection of this one, can ever mark again.

        Afterwards `landed` is final until this sink itself commits. Does nothing where this connection has claimed.
        No transaction may be open.

        Raises:
            FencedError: a higher epoch was here before.
        """
        connection = self._session.connection()
        if self._claimed == self._session.number:
            return
        with connection.begin():
            known, other = self._read(connection)
            self._check(known, epoch)
            name = self._session.database.session_name(connection)
        if other:
            self._end(connection, other)
        with connection.begin():
            changed = connection.execute(
                update(self._table).where(self._mine, self._table.c.epoch <= epoch).values(epoch=epoch, session=name)
            )
            if changed.rowcount != 1:
                self._check(self._read(connection)[0], epoch)
                raise ComponentError(f"Jdbc sink: its row in {TABLE} has vanished", reopen=True)
            self.landed = connection.execute(select(self._table.c.checkpoint).where(self._mine)).scalar_one()
        self._claimed, self._name = self._session.number, name

    def check_is_new(self, checkpoint: int) -> None:
        """A checkpoint that this run prepares must not be committed already: then nothing would ever be committed.

        Raises:
            ComponentError: it is.
        """
        if checkpoint <= self.landed:
            raise ComponentError(
                f"Jdbc sink: the database has committed checkpoint {self.landed} of job {self._job} (table {TABLE}, "
                f"sink {self._sink}), and the state directory knows nothing of it. If it was replaced on purpose, "
                "delete that row and begin again",
                retryable=False,
            )

    def mark(self, connection: Connection, epoch: int, checkpoint: int) -> bool:
        """The last statement of a checkpoint's transaction. False: it must be rolled back, somebody else claimed."""
        changed = connection.execute(
            update(self._table)
            .where(self._mine, self._table.c.epoch == epoch, self._table.c.session == self._name)
            .values(checkpoint=checkpoint)
        )
        return changed.rowcount == 1

    def check_not_fenced(self, epoch: int) -> None:
        """Look whether somebody else has claimed. No transaction may be open.

        Raises:
            FencedError: a higher epoch has.
        """
        connection = self._session.connection()
        with connection.begin():
            self._check(self._read(connection)[0], epoch)

    def _read(self, connection: Connection) -> tuple[int, str]:
        """Epoch and session in the row."""
        row = connection.execute(select(self._table.c.epoch, self._table.c.session).where(self._mine)).first()
        if row is None:
            raise ComponentError(f"Jdbc sink: its row in {TABLE} has vanished", reopen=True)
        return row[0], row[1]

    def _check(self, known: int, epoch: int) -> None:
        if known > epoch:
            raise FencedError(
                f"job {self._job}: run {epoch} is fenced by run {known} (table {TABLE}, sink {self._sink}). Was the "
                "state directory replaced by an older or empty one? Then delete that row, and rows of checkpoints "
                "that the state does not know are written again"
            )

    def _end(self, connection: Connection, other: str) -> None:
        """End the connection that claimed before: a sleeping owner must not keep rows locked. Safety is the claim's."""
        if self._session.database.settings.url.kind == SQLITE:
            return
        try:
            with connection.begin():
                self._session.database.end_session(connection, other)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise


def _stored(name: str) -> str:
    """A name as the table has it: MySQL does not see blanks at the end."""
    name = name.replace("%", "%25")
    plain = name.rstrip(" ")
    return plain + "%20" * (len(name) - len(plain))
