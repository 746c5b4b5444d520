"""Formats of files: typed rows come back, what a format cannot hold is refused at once, and memory stays bounded."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError, ConfigError
from edgesocket.rows import Rows
from edgesocket.schema.types import TIMESTAMP_TZ_ARROW
from edgesocket.sinks import file_formats
from edgesocket.sinks.encoding import TimeText
from edgesocket.sinks.file_formats import CODECS, BoundFormat, FileFormat
from edgesocket.sinks.local_file import LocalFileSink

BATCH = pa.RecordBatch.from_pydict(
    {
        "id": pa.array([1, 2, 3]),
        "name": pa.array(["a", None, ""]),
        "on": pa.array([date(2024, 2, 29), None, date(1, 1, 1)]),
        "at": pa.array([datetime(2024, 1, 1), None, datetime(2024, 1, 1, 0, 0, 0, 500_000)], pa.timestamp("us")),
        "tz": pa.array([{"utc": 0, "offset_minutes": 60}, None, {"utc": 1, "offset_minutes": 0}], TIMESTAMP_TZ_ARROW),
        "tags": pa.array([["x", None], None, []], pa.list_(pa.string())),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    }
)


def bound(kind: str, schema: pa.Schema = BATCH.schema, **options) -> BoundFormat:
    return FileFormat(type=kind, **options).bind(SinkContext(job="job", epoch=1, sink_id="sink", schema=schema))


def encoded(kind: str, *batches: pa.RecordBatch, **options) -> bytes:
    encoder = bound(kind, batches[0].schema, **options).encoder()
    return b"".join([*(bytes(encoder.add(Rows.of_batch(batch))) for batch in batches), encoder.finish()])


@pytest.mark.parametrize(("kind", "codec"), [(kind, codec) for kind, codecs in CODECS.items() for codec in codecs])
def test_columns_come_back_from_columnar_files(kind: str, codec: str) -> None:
    read = {"parquet": pq.read_table, "orc": orc.read_table}[kind]
    table = read(io.BytesIO(encoded(kind, BATCH, BATCH, codec=codec)))
    assert table.to_pylist() == BATCH.to_pylist() * 2
    if kind == "parquet":
        assert table.schema == BATCH.schema


def test_orc_takes_slices_of_nested_columns() -> None:
    """A sink gets slices wherever a file border is inside a block."""
    table = orc.read_table(io.BytesIO(encoded("orc", BATCH.slice(1), BATCH.slice(2))))
    assert table.to_pylist() == BATCH.to_pylist()[1:] + BATCH.to_pylist()[2:]


def test_orc_refuses_types_that_it_does_not_have() -> None:
    schema = pa.schema([("id", pa.int64()), ("alarm", pa.time64("us"))])
    with pytest.raises(ComponentError, match=r"orc cannot hold column alarm.*sink_columns") as caught:
        bound("orc", schema)
    assert not caught.value.retryable
    bound("orc", schema, columns=("id",))


def test_a_row_group_ends_at_its_size_and_small_batches_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_formats, "ROW_GROUP_BYTES", 40_000)
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int64())})
    encoder = bound("parquet", batch.schema).encoder()
    text = b""
    for _ in range(12_000):
        text += encoder.add(Rows.of_batch(batch))
        assert len(encoder._batches) <= file_formats._MOST_BATCHES
    file = pq.ParquetFile(io.BytesIO(text + encoder.finish()))
    assert [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)] == [5000, 5000, 2000]


def test_csv_quotes_what_must_be_and_tells_null_from_empty() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array(['say "hi"', "x,y", "", None, "plain"]), "b": [1, 2, 3, 4, None]})
    assert encoded("csv", batch) == b'"say ""hi""",1\n"x,y",2\n"",3\n,4\nplain,\n'
    assert encoded("csv", batch, quote_mode="ALL").splitlines()[3:] == [b',"4"', b'"plain",']
    assert encoded("csv", batch, quote_mode="NONE").splitlines()[1:3] == [b"x,y,2", b",3"]


def test_a_header_comes_first_in_every_file() -> None:
    assert encoded("csv", BATCH, BATCH, header=True).count(b"id,name,on,at,tz,tags,map\n") == 1
    assert encoded("text", BATCH.select(["id", "name"]), header=True, field_delimiter=";") == b"id;name\n1;a\n2;\n3;\n"
    assert not encoded("json", BATCH, header=True).startswith(b"id")


def test_text_values_stand_between_control_characters_by_default() -> None:
    assert encoded("text", BATCH.select(["id", "name"])).splitlines()[0] == b"1\x01a"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({}, b"2024-02-29,2024-01-01 00:00:00.5,12:30:00.25"),
        ({"date": "yyyy/MM/dd", "time": "HH:mm:ss"}, b"2024/02/29,2024-01-01 00:00:00.5,12:30:00"),
        ({"datetime": "yyyy.MM.dd HH:mm:ss", "time": "HH:mm:ss.SSS"}, b"2024-02-29,2024.01.01 00:00:00,12:30:00.250"),
        ({"datetime": "yyyyMMddHHmmss"}, b"2024-02-29,20240101000000,12:30:00.25"),
    ],
)
def test_times_are_written_as_the_formats_say(times: dict[str, str], expected: bytes) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "d": pa.array([date(2024, 2, 29)]),
            "ts": pa.array([datetime(2024, 1, 1, 0, 0, 0, 500_000)], pa.timestamp("us")),
            "t": pa.array([time(12, 30, 0, 250_000)], pa.time64("us")),
        }
    )
    assert encoded("csv", batch, times=TimeText(**times)) == expected + b"\n"


@pytest.mark.parametrize("kind", ["csv", "json", "text", "parquet", "orc"])
def test_chosen_columns_in_their_order(kind: str) -> None:
    text = encoded(kind, BATCH, columns=("name", "id"))
    if kind in CODECS:
        table = {"parquet": pq.read_table, "orc": orc.read_table}[kind](io.BytesIO(text))
        assert table.column_names == ["name", "id"]
    else:
        assert text.splitlines()[0] in (b"a,1", b'{"name": "a", "id": 1}', b"a\x011")


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(ComponentError, match="sink_columns names nope, but the columns are id, name") as caught:
        bound("csv", columns=("id", "nope"))
    assert not caught.value.retryable


def test_a_compression_that_the_format_does_not_have_is_named() -> None:
    with pytest.raises(ConfigError, match="parquet has no zlib"):
        LocalFileSink(path="x", file_format_type="parquet", compress_codec="zlib")


def test_an_unknown_option_is_a_mistake_in_the_code() -> None:
    with pytest.raises(TypeError, match="colour"):
        LocalFileSink(path="x", colour="red")


def test_typed_rows_over_file_borders(tmp_path: Path) -> None:
    sink = LocalFileSink(path=tmp_path, file_format_type="parquet", batch_size=2)
    sink.open(SinkContext(job="job", epoch=1, sink_id="sink", schema=BATCH.schema))
    for _ in range(3):
        sink.write(Rows.of_batch(BATCH))
    manifest = sink.prepare(4)
    sink.commit(4, manifest)
    files = sorted(tmp_path.glob("part-*"))
    assert [pq.read_metadata(file).num_rows for file in files] == [2, 2, 2, 2, 1]
    assert [row for file in files for row in pq.read_table(file).to_pylist()] == BATCH.to_pylist() * 3
    record = json.loads((tmp_path / "_manifests/000001-0000000004.json").read_text())
    assert [(file["name"], file["bytes"]) for file in record["files"]] == [(f.name, f.stat().st_size) for f in files]
    assert (record["rows"], record["job"], record["sink"]) == (9, "job", "sink")
    sink.close()


def test_a_manifest_of_an_earlier_life_stays(tmp_path: Path) -> None:
    for payload in ("old", "new"):
        batch = pa.RecordBatch.from_pydict({"a": [payload]})
        sink = LocalFileSink(path=tmp_path, file_format_type="csv")
        sink.open(SinkContext(job="job", epoch=1, sink_id="sink", schema=batch.schema))
        sink.write(Rows.of_batch(batch))
        sink.commit(1, sink.prepare(1))
        sink.close()
    names = sorted(path.name for path in (tmp_path / "_manifests").iterdir())
    assert names == ["000001-0000000001-1.json", "000001-0000000001.json"]
