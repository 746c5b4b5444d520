"""What the Jdbc sink keeps, sends and tries again, on a SQLite file; and rows as values and as text for COPY."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from edgesocket.components.sink import CommitRole, SinkContext
from edgesocket.errors import ComponentError, FencedError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks import jdbc
from edgesocket.sinks.jdbc import JdbcSink
from edgesocket.sinks.jdbc_values import (
    bytes_of,
    csv_text,
    joined,
    naive_utc_values,
    plain_values,
    row_text,
    sqlite_values,
)

PAIRS = pa.schema([("id", pa.int64()), ("s", pa.string())])
TZ_TYPE = pa.struct([("utc", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int16())])
TZ = pa.field("tz", TZ_TYPE, metadata={b"edgesocket.type": b"timestamp_tz"})


def pairs(*ids: int, text: str = "x", first_id: int = 1) -> Rows:
    return Rows.of_batch(pa.RecordBatch.from_pydict({"id": list(ids), "s": [text] * len(ids)}, schema=PAIRS), first_id)


class File:
    """A database file and sinks for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sinks: list[JdbcSink] = []

    def sink(self, *, epoch: int = 1, **options: Any) -> JdbcSink:
        how = {"generate_sink_sql": True, "table": "t", "sleep": lambda _: None, **options}
        sink = JdbcSink(url=f"jdbc:sqlite:{self.path}?busy_timeout=10", **how)
        self.sinks.append(sink)
        sink.open(SinkContext("job", epoch, "sink", PAIRS))
        return sink

    def ids(self) -> list[int]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return [row[0] for row in connection.execute("select id from t order by id")]

    @contextlib.contextmanager
    def locked(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("begin immediate")
            yield other


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = File(tmp_path / "rows.db")
    yield file
    for sink in file.sinks:
        sink.close()


def test_the_role_follows_is_exactly_once(file: File) -> None:
    assert file.sink().commit_role is CommitRole.NONE
    assert file.sink(is_exactly_once=True).commit_role is CommitRole.DECIDING


def test_a_failed_write_takes_nothing_and_keeps_what_was_taken_before(file: File) -> None:
    sink = file.sink(batch_size=3)
    sink.write(pairs(1, 2))
    with file.locked():
        for _ in range(2):
            with pytest.raises(ComponentError, match="cannot write 3 rows: database is locked"):
                sink.write(pairs(3, 4))
    assert file.ids() == []
    sink.write(pairs(3, 4))
    assert file.ids() == [1, 2, 3]
    assert sink.prepare(1) == {}
    assert file.ids() == [1, 2, 3, 4]


def test_a_batch_is_tried_again_max_retries_times(file: File) -> None:
    naps: list[float] = []
    sink = file.sink(max_retries=3, sleep=naps.append)
    sink.write(pairs(1))
    with file.locked(), pytest.raises(ComponentError):
        sink.prepare(1)
    assert len(naps) == 3
    with file.locked() as other:
        sink._sleep = lambda _: other.execute("rollback")
        assert sink.prepare(1) == {}
    assert file.ids() == [1]


def test_rows_that_are_large_do_not_wait_for_a_full_batch(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc, "MAX_WAITING_BYTES", 1000)
    sink = file.sink()
    sink.write(pairs(1, text="x" * 400))
    assert file.ids() == []
    sink.write(pairs(2, text="x" * 800))
    assert file.ids() == [1, 2]


def test_rows_between_prepare_and_commit_belong_to_the_next_checkpoint(file: File) -> None:
    sink = file.sink(is_exactly_once=True, batch_size=1)
    sink.fence(1)
    sink.write(pairs(1))
    manifest = sink.prepare(1)
    sink.write(pairs(2))
    sink.commit(1, manifest)
    assert file.ids() == [1]
    sink.write(pairs(3))
    sink.commit(2, sink.prepare(2))
    assert file.ids() == [1, 2, 3]


def test_a_commit_needs_its_own_prepare(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc, "MAX_WAITING_BYTES", 1)
    sink = file.sink(is_exactly_once=True, batch_size=1)
    sink.fence(1)
    sink.write(pairs(1))
    sink.prepare(1)
    sink.write(pairs(2))
    with pytest.raises(ComponentError, match="checkpoint 1 is not prepared") as caught:
        sink.commit(1, {"rows": 1})
    assert caught.value.reopen
    assert file.ids() == []
    assert sink.prepare(2) == {"rows": 2}
    sink.commit(2, {"rows": 2})
    assert file.ids() == [1, 2]


def test_a_later_run_fences_an_earlier_one(file: File) -> None:
    first = file.sink(is_exactly_once=True)
    first.fence(1)
    second = file.sink(is_exactly_once=True, epoch=2)
    second.fence(2)
    first.write(pairs(1))
    manifest = first.prepare(1)
    with pytest.raises(FencedError, match="job job: run 1 is fenced by run 2"):
        first.commit(1, manifest)
    assert file.ids() == []


def test_a_row_of_checkpoints_that_vanished_is_no_commit(file: File) -> None:
    sink = file.sink(is_exactly_once=True)
    sink.fence(1)
    with contextlib.closing(sqlite3.connect(file.path)) as other, other:
        other.execute("delete from edgesocket_checkpoints")
    sink.write(pairs(1))
    manifest = sink.prepare(1)
    with pytest.raises(ComponentError, match="has vanished") as caught:
        sink.commit(1, manifest)
    assert caught.value.reopen
    assert file.ids() == []


def test_names_too_long_for_the_table_of_checkpoints_are_refused(file: File) -> None:
    sink = JdbcSink(url=f"jdbc:sqlite:{file.path}", generate_sink_sql=True, table="t", is_exactly_once=True)
    file.sinks.append(sink)
    with pytest.raises(ComponentError, match="at most 255 characters") as caught:
        sink.open(SinkContext("j" * 256, 1, "sink", PAIRS))
    assert not caught.value.retryable


def test_joined_rows_keep_their_order_and_their_batch_ids() -> None:
    gaps = Rows.of_batch(pairs(5, 6).batch, 20, np.array([20, 25], dtype=np.int64))
    whole = joined([pairs(1, 2, first_id=7), gaps])
    assert whole.batch.column(0).to_pylist() == [1, 2, 5, 6]
    assert whole.id_array().tolist() == [7, 8, 20, 25]
    assert joined([gaps]) is gaps


def test_a_refused_row_is_shown_as_its_payload_or_as_json() -> None:
    assert row_text(Rows.of_records(RecordBlock.of_payloads(range(1, 2), [b'{"a": 1 }']))) == b'{"a": 1 }'
    assert b'"id"' in row_text(pairs(1))


def test_the_size_of_rows_is_known_without_making_columns_of_payloads() -> None:
    rows = Rows.of_records(RecordBlock.of_payloads(range(1, 3), [b"ab", b"c"]))
    assert bytes_of(rows) == 3
    assert rows._batch is None
    assert bytes_of(pairs(1, 2)) > 0


def test_text_for_copy_tells_null_from_an_empty_text_and_keeps_everything_exact() -> None:
    schema = pa.schema(
        [
            ("s", pa.string()), ("d", pa.decimal128(38, 2)), ("raw", pa.binary()), ("nothing", pa.null()), TZ,
            ("list", pa.list_(pa.int32())),
        ]
    )  # fmt: skip
    moment = {"utc": dt.datetime(2024, 1, 2, 3, 4, 5, 600, dt.UTC), "offset_minutes": 60}
    full = {"s": 'a "b"\n', "d": Decimal("1.50"), "raw": b"\0\xff", "nothing": None, "tz": moment, "list": [1, None]}
    empty = {**dict.fromkeys(schema.names), "s": ""}
    rows = Rows.of_batch(pa.RecordBatch.from_pylist([full, empty, dict.fromkeys(schema.names)], schema=schema))
    text = csv_text(rows).decode().replace("[1, null]", "[1,null]")
    assert text == '"a ""b""\n",1.50,"\\x00ff",,2024-01-02 03:04:05.000600Z,"[1,null]"\n"",,,,,\n,,,,,\n'


def test_moments_become_what_the_database_has_for_them() -> None:
    moment = dt.datetime(2024, 1, 2, 23, 4, 5, tzinfo=dt.UTC)
    column = pa.array([{"utc": moment, "offset_minutes": 330}, None], TZ_TYPE)
    assert plain_values(column, TZ) == [moment, None]
    assert naive_utc_values(column, TZ) == [moment.replace(tzinfo=None), None]
    assert sqlite_values(column, TZ) == ["2024-01-03 04:34:05+05:30", None]


def test_a_time_that_python_does_not_know_is_a_refused_row_and_not_a_crash(tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.timestamp("us"))])
    column = pa.array([0, 400_000_000_000_000_000, 1_000_000], pa.int64()).cast(pa.timestamp("us"))
    rejected: list[Any] = []
    sink = JdbcSink(url=f"jdbc:sqlite:{tmp_path / 'x.db'}", generate_sink_sql=True, table="t")
    try:
        sink.open(SinkContext("job", 1, "sink", schema, reject=rejected.append))
        sink.write(Rows.of_batch(pa.RecordBatch.from_arrays([column], schema=schema)))
        sink.prepare(1)
    finally:
        sink.close()
    assert [row.batch_id for row in rejected] == [2]


def test_a_flush_commits_what_waits_for_a_full_batch(file: File) -> None:
    sink = file.sink()
    sink.write(pairs(1, 2))
    assert file.ids() == []
    sink.flush()
    assert file.ids() == [1, 2]


def test_a_flush_shows_nothing_of_an_exactly_once_sink(file: File) -> None:
    sink = file.sink(is_exactly_once=True)
    sink.fence(1)
    sink.write(pairs(1, 2))
    sink.flush()
    assert file.ids() == []
    sink.commit(1, sink.prepare(1))
    assert file.ids() == [1, 2]
