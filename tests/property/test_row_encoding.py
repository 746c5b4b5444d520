"""Rows as text: JSON of any batch of our types reads back as the same values, and so does csv of text columns."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.components.sink import SinkContext
from edgesocket.rows import Rows
from edgesocket.schema.types import TIMESTAMP_TZ_ARROW
from edgesocket.sinks.encoding import json_lines, json_rows, text_lines, text_rows
from edgesocket.sinks.file_formats import FileFormat

NUMBERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
ODD = st.sampled_from('"\\,\n\r\t\0\x7f\u2028é\U0001f98a%')
TEXTS = st.text(ODD | st.characters(exclude_categories=["Cs"]), max_size=8)
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))


def _decimal_of(unscaled: int) -> Decimal:
    sign, digits = (1 if unscaled < 0 else 0), tuple(map(int, str(abs(unscaled))))
    return Decimal((sign, digits, -9))


SIMPLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.bool_(), st.booleans()),
    *((kind, st.integers(-(2**bits), 2**bits - 1)) for kind, bits in NUMBERS.items()),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.decimal128(38, 9), st.integers(-(10**38) + 1, 10**38 - 1).map(_decimal_of)),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), MOMENTS),
    (
        TIMESTAMP_TZ_ARROW,
        st.builds(
            lambda moment, minutes: {
                "utc": int((moment - datetime(1970, 1, 1)) / timedelta(microseconds=1)),
                "offset_minutes": minutes,
            },
            MOMENTS,
            st.integers(-18 * 60, 18 * 60),
        ),
    ),
    (pa.binary(), st.binary(max_size=8)),
    (pa.null(), st.none()),
]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def lists(pair: Any) -> Any:
        kind, values = pair
        return pa.list_(kind), st.lists(values | st.none(), max_size=3)

    def maps(pair: Any) -> Any:
        kind, values = pair
        keys = st.dictionaries(TEXTS, values | st.none(), max_size=3).map(lambda found: list(found.items()))
        return pa.map_(pa.string(), kind), keys

    def structs(pairs: Any) -> Any:
        names = [f"f{n}%" for n in range(len(pairs))]
        kind = pa.struct([pa.field(name, pair[0]) for name, pair in zip(names, pairs, strict=True)])
        return kind, st.fixed_dictionaries({n: p[1] | st.none() for n, p in zip(names, pairs, strict=True)})

    return inner.map(lists) | inner.map(maps) | st.lists(inner, min_size=1, max_size=2).map(structs)


KINDS = st.recursive(st.sampled_from(SIMPLE), _nested, max_leaves=4)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A slice of a batch, so that offsets other than 0 are met everywhere."""
    count = draw(st.integers(1, 5))
    columns = []
    for kind, values in draw(st.lists(KINDS, min_size=1, max_size=4)):
        columns.append(pa.array(draw(st.lists(values | st.none(), min_size=count, max_size=count)), kind))
    batch = pa.RecordBatch.from_arrays(columns, [f'c{n}"%s' for n in range(len(columns))])
    return batch.slice(draw(st.integers(0, count - 1)))


def _read_back(text: Any, kind: pa.DataType) -> Any:
    """The value that JSON's `text` stands for in a column of `kind`."""
    if text is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _read_back(value, kind.item_type)) for key, value in text]
    if kind == TIMESTAMP_TZ_ARROW:
        moment = datetime.fromisoformat(text)
        offset = moment.utcoffset()
        assert offset is not None
        local = moment.replace(tzinfo=None) - datetime(1970, 1, 1)
        return ((local - offset) // timedelta(microseconds=1), offset // timedelta(minutes=1))
    if pa.types.is_struct(kind):
        return {name: _read_back(value, kind.field(name).type) for name, value in text}
    if pa.types.is_list(kind):
        return [_read_back(value, kind.value_type) for value in text]
    if pa.types.is_floating(kind):
        number = float(text)
        return repr(float(np.float32(number))) if pa.types.is_float32(kind) else repr(number)
    if pa.types.is_decimal(kind) or pa.types.is_integer(kind):
        return Decimal(text) if pa.types.is_decimal(kind) else int(text)
    readers = {pa.date32(): date, pa.time64("us"): time, pa.timestamp("us"): datetime}
    if kind in readers:
        return readers[kind].fromisoformat(text)
    return base64.b64decode(text, validate=True) if pa.types.is_binary(kind) else text


def _expected(value: Any, kind: pa.DataType) -> Any:
    """A value as `_read_back` would give it."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _expected(item, kind.item_type)) for key, item in value]
    if kind == TIMESTAMP_TZ_ARROW:
        since = value["utc"].replace(tzinfo=None) - datetime(1970, 1, 1)
        return (since // timedelta(microseconds=1), value["offset_minutes"])
    if pa.types.is_struct(kind):
        return {name: _expected(item, kind.field(name).type) for name, item in value.items()}
    if pa.types.is_list(kind):
        return [_expected(item, kind.value_type) for item in value]
    if pa.types.is_floating(kind):
        return "nan" if math.isnan(value) else repr(value)
    return value


def _pairs(text: bytes) -> Any:
    """JSON with objects as lists of pairs, and numbers as their text."""
    return json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str)


@settings(max_examples=150, deadline=None)
@given(batches())
def test_json_reads_back_as_the_same_values(batch: pa.RecordBatch) -> None:
    rows = Rows.of_batch(batch)
    texts = json_rows(rows)
    assert json_lines(rows) == b"".join(text + b"\n" for text in texts)
    for text, row in zip(texts, batch.to_pylist(), strict=True):
        found = _pairs(text)
        assert [name for name, _ in found] == batch.schema.names
        for name, value in found:
            kind = batch.schema.field(name).type
            assert _read_back(value, kind) == _expected(row[name], kind), (kind, value, row[name])


@settings(max_examples=50, deadline=None)
@given(batches())
def test_excluded_columns_are_left_out(batch: pa.RecordBatch) -> None:
    first = batch.schema.names[0]
    rows = Rows.of_batch(batch)
    for whole, part in zip(json_rows(rows), json_rows(rows, frozenset([first])), strict=True):
        assert _pairs(part) == _pairs(whole)[1:] or _pairs(part) == []


@settings(max_examples=50, deadline=None)
@given(batches())
def test_lines_of_text_are_its_rows(batch: pa.RecordBatch) -> None:
    rows = Rows.of_batch(batch)
    assert text_lines(rows, "|", "\r\n") == b"".join(row + b"\r\n" for row in text_rows(rows, "|"))
    assert len(text_rows(rows)) == batch.num_rows


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS | st.none()), min_size=1, max_size=5), st.sampled_from(["MINIMAL", "ALL"]))
def test_csv_reads_back_as_the_same_text(values: list[tuple[str, str | None]], mode: str) -> None:
    columns = [pa.array(column, pa.string()) for column in zip(*values, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, ["a", "b"])
    context = SinkContext(job="j", epoch=1, sink_id="s", schema=batch.schema)
    bound = FileFormat(type="csv", quote_mode=mode).bind(context)
    text = bytes(bound.encoder().add(Rows.of_batch(batch))).decode()
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found == [[a, b or ""] for a, b in values]
