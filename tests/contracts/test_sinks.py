"""Every sink passes the suite of its commit role."""

from __future__ import annotations

import csv
import errno
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from edgesocket.components.sink import Sink
from edgesocket.rows import Rows
from edgesocket.sinks.console import ConsoleSink
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.sinks.null import NullSink
from edgesocket.testing.sink_contract import (
    AnySink,
    BreakableSink,
    DecidingSinkRules,
    RecommittableSink,
    StagingRules,
)
from edgesocket.testing.sinks import DecidingListSink, GateSink, ListSink, ListStorage


def lines_of(text: bytes, file_format: str) -> list[bytes]:
    """The payloads in what a text or json sink wrote."""
    assert text == b"" or text.endswith(b"\n")
    lines = text.split(b"\n")[:-1]
    if file_format == "text":
        return lines
    rows = [json.loads(line) for line in lines]
    assert all(list(row) == ["value"] for row in rows)
    return [row["value"].encode() for row in rows]


def payloads_of(files: list[bytes], file_format: str) -> list[bytes]:
    """The payloads in the files of a file sink, in order."""
    if file_format in ("text", "json"):
        return lines_of(b"".join(files), file_format)
    if file_format == "csv":
        text = b"".join(files).decode()
        return [row[0].encode() if row else b"" for row in csv.reader(io.StringIO(text, newline=""))]
    read = {"parquet": pq.read_table, "orc": orc.read_table}[file_format]
    return [value.encode() for file in files for value in read(io.BytesIO(file))["value"].to_pylist()]


FORMATS = ("json", "text", "csv", "parquet", "orc")


class LocalFileHarness:
    def __init__(self, directory: Path, file_format: str, batch_size: int) -> None:
        self.path = directory / "out"
        self.file_format = file_format
        self.batch_size = batch_size

    def sink(self) -> Sink:
        return LocalFileSink(path=self.path, file_format_type=self.file_format, batch_size=self.batch_size)

    def read(self) -> list[bytes]:
        files = sorted(self.path.glob("part-*"))
        assert all(file.stat().st_size for file in files), "no empty files"
        return payloads_of([file.read_bytes() for file in files], self.file_format)

    @contextmanager
    def broken(self) -> Iterator[None]:
        away = self.path.with_name("away")
        self.path.rename(away)
        yield
        away.rename(self.path)


@pytest.mark.parametrize("harness", [(f, n) for f in FORMATS for n in (1_000_000, 3)], indirect=True)
class TestLocalFile(RecommittableSink, StagingRules, BreakableSink):
    @pytest.fixture
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> LocalFileHarness:
        return LocalFileHarness(tmp_path, *request.param)


class Printer(io.RawIOBase):
    """A standard output that remembers what it printed."""

    def __init__(self) -> None:
        self.printed = bytearray()
        self.broken = False

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:  # type: ignore[no-untyped-def]
        if self.broken:
            raise OSError(errno.EIO, "the terminal is gone")
        self.printed += data
        return len(data)


class ConsoleHarness:
    def __init__(self, file_format: str) -> None:
        self.file_format = file_format
        self.printer = Printer()

    def sink(self) -> Sink:
        return ConsoleSink(format=self.file_format, stream=self.printer)

    def read(self) -> list[bytes]:
        return lines_of(bytes(self.printer.printed), self.file_format)

    @contextmanager
    def broken(self) -> Iterator[None]:
        self.printer.broken = True
        yield
        self.printer.broken = False


@pytest.mark.parametrize("harness", ["text", "json"], indirect=True)
class TestConsole(AnySink, BreakableSink):
    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest) -> ConsoleHarness:
        return ConsoleHarness(request.param)


class NullHarness:
    """Remembers what the sink was given and compares that with what it counted."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.sinks: list[NullSink] = []

    def sink(self) -> Sink:
        seen = self.seen

        class Watched(NullSink):
            def write(self, rows: Rows) -> None:
                assert rows.records is not None
                seen.extend(rows.records.payloads())
                super().write(rows)

        self.sinks.append(Watched())
        return self.sinks[-1]

    def read(self) -> list[bytes]:
        assert sum(sink.rows for sink in self.sinks) == len(self.seen)
        assert sum(sink.bytes for sink in self.sinks) == sum(map(len, self.seen))
        return self.seen


class TestNull(AnySink):
    @pytest.fixture
    def harness(self) -> NullHarness:
        return NullHarness()


class ListHarness:
    def __init__(self, kind: type[ListSink] | type[DecidingListSink]) -> None:
        self.kind = kind
        self.storage = ListStorage()

    def sink(self) -> Sink:
        return self.kind(self.storage)

    def read(self) -> list[bytes]:
        return self.storage.payloads


class TestListSink(RecommittableSink):
    @pytest.fixture
    def harness(self) -> ListHarness:
        return ListHarness(ListSink)


class TestDecidingListSink(DecidingSinkRules):
    @pytest.fixture
    def harness(self) -> ListHarness:
        return ListHarness(DecidingListSink)


class GateHarness(ListHarness):
    def __init__(self) -> None:
        super().__init__(ListSink)
        self.gates: list[GateSink] = []

    def sink(self) -> Sink:
        self.gates.append(GateSink(ListSink(self.storage)))
        return self.gates[-1]

    @contextmanager
    def broken(self) -> Iterator[None]:
        self.gates[-1].hold(fail=True)
        yield
        self.gates[-1].release()


class TestGateSink(RecommittableSink, BreakableSink):
    @pytest.fixture
    def harness(self) -> GateHarness:
        return GateHarness()
