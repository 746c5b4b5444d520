"""Where the rows go, and what a reader finds there: files, a Kafka topic, a PostgreSQL table. All exactly once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from chaos.counting import number_of
from chaos.postgres import Postgres
from tests.support.kafka import KafkaBroker

SMALL_DATABASE_BYTES = 160 << 20


class Destination(Protocol):
    """One empty place for the rows of one run."""

    def block(self) -> str:
        """The sink's block in the job file."""

    def numbers(self) -> list[int]:
        """The lines a reader finds now, repeats included; -1 for what is no line of a run."""


class Files:
    """LocalFile: what is published never changes, so each file is read once.

    Args:
        directory: where.
        forget: remove what was read, and hand it out once.
    """

    def __init__(self, directory: Path, *, forget: bool = False) -> None:
        self._directory, self._forget = directory, forget
        self._known: set[str] = set()
        self._numbers: list[int] = []

    def block(self) -> str:
        return f'LocalFile {{ path = "{self._directory}", file_format_type = text }}'

    def numbers(self) -> list[int]:
        if self._forget:
            self._numbers = []
        for path in sorted(self._directory.glob("part-*")):
            if path.name in self._known:
                continue
            self._numbers += [_number(line) for line in path.read_bytes().split(b"\n")[:-1]]
            if self._forget:
                path.unlink()
            else:
                self._known.add(path.name)
        return list(self._numbers)


class Topic:
    """A Kafka topic, written in transactions, read as committed."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker, self._topic = broker, broker.topic()
        self._next = 0
        self._numbers: list[int] = []

    def block(self) -> str:
        return (
            f'Kafka {{ topic = "{self._topic}", bootstrap.servers = "{self._broker.servers}", format = text, '
            "semantics = EXACTLY_ONCE }"
        )

    def numbers(self) -> list[int]:
        for message in self._broker.read(self._topic, {0: self._next}):
            self._numbers.append(_number(message.value))
            self._next = message.offset + 1
        return list(self._numbers)


class Table:
    """A PostgreSQL table without a key: a row that comes twice is there twice.

    Args:
        port: where the job finds the server; of a link before it, perhaps.
    """

    def __init__(self, server: Postgres, port: int) -> None:
        self._server, self._port = server, port
        self._table = f"chaos_{uuid4().hex[:12]}"
        for (earlier,) in server.ask("select tablename from pg_tables where tablename like 'chaos_%'"):
            server.ask(f"drop table {earlier}")
        server.ask(f"create table {self._table} (value text)")

    def block(self) -> str:
        return (
            f'Jdbc {{ url = "jdbc:postgresql://127.0.0.1:{self._port}/postgres", username = chaos, '
            f'password = "{self._server.password}", generate_sink_sql = true, table = {self._table}, '
            "is_exactly_once = true, use_copy_statement = true }"
        )

    def numbers(self) -> list[int]:
        return [_number(row[0]) for row in self._server.ask(f"select value from {self._table}")]


class Servers:
    """Broker and database, each started for the first row that asks and kept for the next ones."""

    def __init__(self) -> None:
        self._kafka: KafkaBroker | None = None
        self._postgres: dict[int, Postgres] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="edgesocket-chaos-kafka-")

    @property
    def kafka(self) -> KafkaBroker:
        """The broker. Raises KafkaMissingError."""
        if self._kafka is None:
            self._kafka = KafkaBroker(Path(self._directory.name))
        return self._kafka

    def postgres(self, *, small: bool = False) -> Postgres:
        """The database, or the one on a small disk. Raises PostgresMissingError."""
        size = SMALL_DATABASE_BYTES if small else 0
        if size not in self._postgres:
            self._postgres[size] = Postgres(size)
        return self._postgres[size]

    def close(self) -> None:
        """End them."""
        if self._kafka is not None:
            self._kafka.close()
        for server in self._postgres.values():
            server.close()
        self._directory.cleanup()


def _number(row: str | bytes) -> int:
    try:
        return number_of(row)
    except ValueError:
        return -1
