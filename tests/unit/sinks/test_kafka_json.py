"""The fast way to JSON values is the exact one, byte for byte."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_rows
from edgesocket.sinks.kafka_json import json_values

TEXTS = ["plain", "", "Zürich \U0001f98a \u2028", "x" * 5000]
ESCAPED = ['a "quoted" one', "back\\slash", "NUL\x00", "tab\t", "\x1f", "DEL \x7f"]


@pytest.mark.parametrize("escaped", [[], *([text] for text in ESCAPED)])
@pytest.mark.parametrize("nulls", [[], [None]])
def test_texts(escaped: list[str], nulls: list[None]) -> None:
    _check(s=pa.array([*TEXTS, *escaped, *nulls], pa.string()))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_whole_numbers(kind: pa.DataType) -> None:
    limit = 2 ** (kind.bit_width - 1)
    _check(n=pa.array([0, -1, limit - 1, -limit, None], kind))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False, None]),
        pa.array([1.0, 0.1, float("nan"), None, 1e300]),
        pa.array([Decimal("1.10"), None], pa.decimal128(38, 2)),
        pa.array([dt.datetime(2024, 2, 29, 23, 59, 59, 5), None], pa.timestamp("us")),
        pa.array([b"\x00\xff", None]),
        pa.array([["a", 'b"'], [], None]),
        pa.array([{"a": 1, "b": "x"}, None]),
        pa.nulls(2),
    ],
    ids=str,
)
def test_other_types(column: pa.Array) -> None:
    _check(c=column, text=pa.array(["x"] * len(column)))


def test_names_are_escaped_and_columns_stay_in_order() -> None:
    one = pa.array([1, 2])
    _check(**{'a "b"': one, "100 %s": one, "Größe": pa.array(["x", "y"]), "last": one})


def test_slices() -> None:
    batch = pa.RecordBatch.from_pydict({"s": ["a\n", "b", "cc", 'd"'], "n": [1, None, 3, 4]})
    for start in range(4):
        for length in range(1, 5 - start):
            rows = Rows.of_batch(batch.slice(start, length))
            assert json_values(rows) == json_rows(rows)


def test_payloads() -> None:
    for payloads in ([text.encode() for text in TEXTS], [text.encode() for text in ESCAPED], [b""], [b"x"] * 200):
        rows = Rows.of_records(RecordBlock.of_run(1, payloads))
        assert json_values(rows) == json_rows(rows)


def _check(**columns: Any) -> None:
    rows = Rows.of_batch(pa.RecordBatch.from_pydict(columns))
    assert json_values(rows) == json_rows(rows)
