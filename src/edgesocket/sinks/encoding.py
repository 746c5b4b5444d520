"""Rows as text: JSON objects, and values joined by a delimiter. Pure functions; nothing of a row is lost in JSON.

Rows that are payloads (`rows.records`) never become Arrow columns here. Other rows are encoded column by column, each
column into a list of texts, and the lists are put together row by row: the cost a value is one C call or less.

=============  ======================================================================================================
type           JSON
=============  ======================================================================================================
numbers        exact; a float or double is the shortest number that reads back as the same one, always with `.` or `e`
NaN, Infinity  the texts "NaN", "Infinity", "-Infinity": JSON has no number for them, and null would lose them
date, time     "2024-02-29", "23:59:59", "23:59:59.5"
timestamp      "2024-02-29T23:59:59.000001"; a fraction where there is one
timestamp_tz   the same with its own offset, "+02:00", or "Z" for none
bytes          base64 text
array, row     arrays, and objects in the order of the type
map            an object; keys are the text of the value. Equal keys stay two fields
null           null, also in rows and arrays
=============  ======================================================================================================

Objects are in column order and written as `json.dumps` writes them, other than ASCII left as UTF-8.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from json import encoder
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.rows import Rows
from edgesocket.schema.types import TIMESTAMP_TZ_ARROW
from edgesocket.sinks import lines

Quote = Callable[[str], str]

_quote: Quote = getattr(encoder, "c_encode_basestring", None) or encoder.py_encode_basestring

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NULL = "null"
_MICROS_PER_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class TimeText:
    """How dates and times are written, in the letters of Java's patterns.

    Attributes:
        date: `yyyy-MM-dd`, or with `.` or `/` between the numbers.
        datetime: None writes what is there with `separator` before the time; else `<date> HH:mm:ss` with any of the
            three dates, or `yyyyMMddHHmmss`, and a fraction of a second is cut off.
        time: None writes what is there; `HH:mm:ss` or `HH:mm:ss.SSS` cut what is behind it off.
        separator: between date and time.
    """

    date: str = "yyyy-MM-dd"
    datetime: str | None = None
    time: str | None = None
    separator: str = " "


ISO = TimeText(separator="T")
PLAIN = TimeText()


def json_rows(rows: Rows, exclude: frozenset[str] = frozenset()) -> list[bytes]:
    """Every row as one JSON object in UTF-8.

    Args:
        rows: of any schema.
        exclude: columns that are left out.
    """
    if rows.records is not None and not exclude:
        head = "{" + _quote(rows.schema.names[0]) + ": "
        return [f"{head}{_quote(payload.decode())}}}".encode() for payload in rows.records.payloads()]
    return [row.encode() for row in _json_objects(rows, exclude)]


def json_lines(rows: Rows, exclude: frozenset[str] = frozenset()) -> bytes:
    """Every row as one JSON object and a line feed."""
    if rows.records is not None and not exclude:
        return lines.json_lines(rows.records, rows.schema.names[0])
    return ("\n".join(_json_objects(rows, exclude)) + "\n").encode()


def text_rows(rows: Rows, field_delimiter: str = ",", times: TimeText = PLAIN) -> list[bytes]:
    """Every row as the text of its values, joined by `field_delimiter`. A payload comes as it is.

    Nothing is escaped: a value that holds the delimiter reads as two. null is the empty text, a row, array or map
    inside the row is JSON, and date and time have a blank between them.
    """
    if rows.records is not None:
        return list(rows.records.payloads())
    return [row.encode() for row in _joined(rows, field_delimiter, times)]


def text_lines(
    rows: Rows, field_delimiter: str = ",", row_delimiter: str = "\n", times: TimeText = PLAIN
) -> bytes | memoryview:
    """What `text_rows` gives, every row followed by `row_delimiter`."""
    if rows.records is not None:
        return lines.text_lines(rows.records, row_delimiter.encode())
    return (row_delimiter.join(_joined(rows, field_delimiter, times)) + row_delimiter).encode()


def text_columns(batch: pa.RecordBatch, times: TimeText = PLAIN) -> list[list[str | None]]:
    """`text_cells` of every column."""
    return [text_cells(array, times) for array in batch.columns]


def text_cells(array: pa.Array, times: TimeText = PLAIN) -> list[str | None]:
    """The values of a column as text, None for null: what `text_rows` joins."""
    return _with_nulls(array, _plain(array, times), None)


def json_cells(array: pa.Array) -> list[str]:
    """The values of a column as JSON: what `json_rows` puts together."""
    return _json(array)


def _joined(rows: Rows, delimiter: str, times: TimeText) -> Iterable[str]:
    batch = rows.batch
    columns = [_with_nulls(array, _plain(array, times), "") for array in batch.columns]
    if len(columns) == 1:
        return columns[0]
    return map(delimiter.join, zip(*columns, strict=True))


def _json_objects(rows: Rows, exclude: frozenset[str]) -> Iterable[str]:
    batch = rows.batch
    kept = [(name, array) for name, array in zip(batch.schema.names, batch.columns, strict=True) if name not in exclude]
    return _objects([name for name, _ in kept], [_json(array) for _, array in kept], batch.num_rows)


def _objects(names: Sequence[str], columns: Sequence[Sequence[str]], count: int) -> list[str]:
    """JSON objects from the JSON values of every field."""
    if not names:
        return ["{}"] * count
    fields = ", ".join(_quote(name).replace("%", "%%") + ": %s" for name in names)
    template = "{" + fields + "}"
    return list(map(template.__mod__, zip(*columns, strict=True)))


def _with_nulls(array: pa.Array, cells: list[Any], null: Any) -> list[Any]:
    """`cells` with `null` in every place where the array has none."""
    if not array.null_count:
        return cells
    return [cell if valid else null for cell, valid in zip(cells, array.is_valid().to_pylist(), strict=True)]


def _json(array: pa.Array) -> list[str]:
    """Every value as JSON."""
    kind = array.type
    if pa.types.is_null(kind):
        return [_NULL] * len(array)
    cells = _plain(array, ISO)
    if pa.types.is_floating(kind):
        cells = _quoted_if_not_finite(array, cells)
    elif _is_text(kind):
        cells = list(map(_quote, cells))
    elif not _is_json_already(kind):
        cells = [f'"{cell}"' for cell in cells]
    return _with_nulls(array, cells, _NULL)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_json_already(kind: pa.DataType) -> bool:
    """Whether the plain text of a value is its JSON."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or (pa.types.is_nested(kind) and kind != TIMESTAMP_TZ_ARROW)
    )


def _quoted_if_not_finite(array: pa.Array, cells: list[str]) -> list[str]:
    if bool(pc.all(pc.is_finite(array)).as_py()):
        return cells
    return [f'"{cell}"' if cell in _NOT_FINITE.values() else cell for cell in cells]


def _plain(array: pa.Array, times: TimeText) -> list[str]:
    """Every value as text, anything where there is none. Rows, arrays and maps are JSON."""
    for fits, make in _PLAIN_TEXTS:
        if fits(array.type):
            return make(array, times)
    return _cast(array)


def _cast(array: pa.Array, times: TimeText | None = None) -> list[str]:  # noqa: ARG001  one shape for all makers
    """As Arrow writes it: whole numbers, booleans and text."""
    texts: list[str] = array.cast(pa.string()).fill_null("").to_pylist()
    return texts


def _nothing(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001
    return [""] * len(array)


def _floats(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001
    if pa.types.is_float64(array.type):
        cells = [repr(value) for value in array.fill_null(0.0).to_pylist()]
    else:  # the shortest text of 32 bits, which Arrow writes without a point where it can
        cells = _cast(array.cast(pa.float32()))
        cells = [c if not c.lstrip("-").isdecimal() else f"{c}.0" for c in cells]
    return [_NOT_FINITE.get(cell, cell) for cell in cells]


def _decimals(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001
    cells = _cast(array)
    if any("E" in cell for cell in cells):
        cells = ["" if value is None else format(value, "f") for value in array.to_pylist()]
    return cells


def _base64(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001
    return [base64.b64encode(value or b"").decode() for value in array.to_pylist()]


def _dates(array: pa.Array, times: TimeText) -> list[str]:
    cells = _cast(array)
    separator = times.date[4]
    return cells if separator == "-" else [cell.replace("-", separator) for cell in cells]


def _times(array: pa.Array, times: TimeText) -> list[str]:
    texts = array.cast(pa.time64("us")).cast(pa.string()).fill_null("")
    if times.time is not None:
        return list(pc.utf8_slice_codeunits(texts, 0, len(times.time)).to_pylist())
    return _without_zeros(texts)


def _timestamps(array: pa.Array, times: TimeText) -> list[str]:
    micros = array.cast(pa.timestamp("us", array.type.tz))
    zone = "" if array.type.tz is None else "Z"
    texts = micros.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string()).fill_null("")
    if bool(pc.any(pc.starts_with(texts, "<")).as_py()):  # beyond the years that Arrow writes
        values = micros.cast(pa.int64()).fill_null(0).to_numpy().astype("datetime64[us]")
        texts = pc.replace_substring(pa.array(np.datetime_as_string(values)), "T", " ")
    if times.datetime is not None:
        return _patterned(texts, times.datetime)
    if times.separator != " ":
        texts = pc.replace_substring(texts, " ", times.separator)
    cells = _without_zeros(texts)
    return [cell + zone for cell in cells] if zone else cells


def _patterned(texts: pa.Array, pattern: str) -> list[str]:
    """Timestamps in one of the fixed patterns: to the second."""
    whole = [text.partition(".")[0] for text in texts.to_pylist()]
    if " " not in pattern:
        return [text.replace("-", "").replace(":", "").replace(" ", "") for text in whole]
    separator = pattern[4]
    return whole if separator == "-" else [text.replace("-", separator) for text in whole]


def _without_zeros(texts: pa.Array) -> list[str]:
    """Times with six digits behind the point: without the zeros at their end, and the point."""
    cells: list[str] = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".").to_pylist()
    return cells


def _moments(array: pa.Array, times: TimeText) -> list[str]:
    """timestamp_tz: the local time, and the offset."""
    utc = array.field(0).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    minutes = array.field(1).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    local = pa.array(utc + minutes * _MICROS_PER_MINUTE, pa.int64()).cast(pa.timestamp("us"))
    return [cell + _offset(m) for cell, m in zip(_timestamps(local, times), minutes.tolist(), strict=True)]


@cache
def _offset(minutes: int) -> str:
    if minutes == 0:
        return "Z"
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def _structs(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001  JSON has its own times
    names = [field.name for field in array.type]
    return _objects(names, [_json(array.field(i)) for i in range(len(names))], len(array))


def _lists(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001
    bounds, low, high = _bounds(array)
    cells = _json(array.values.slice(low, high - low))
    return [f"[{', '.join(cells[start:stop])}]" for start, stop in bounds]


def _maps(array: pa.Array, times: TimeText) -> list[str]:  # noqa: ARG001
    bounds, low, high = _bounds(array)
    keys = map(_quote, _plain(array.keys.slice(low, high - low), ISO))
    values = _json(array.items.slice(low, high - low))
    cells = [f"{key}: {value}" for key, value in zip(keys, values, strict=True)]
    return [f"{{{', '.join(cells[start:stop])}}}" for start, stop in bounds]


def _bounds(array: pa.Array) -> tuple[list[tuple[int, int]], int, int]:
    """Where the elements of every list lie among those of all, and where all of them lie in the child array."""
    if len(array) == 0:
        return [], 0, 0
    offsets = array.offsets.to_pylist()
    low, high = offsets[0], offsets[-1]
    return [(a - low, b - low) for a, b in itertools.pairwise(offsets)], low, high


_PLAIN_TEXTS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, TimeText], list[str]]]] = [
    (_is_text, _cast),
    (pa.types.is_null, _nothing),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _dates),
    (pa.types.is_time, _times),
    (pa.types.is_timestamp, _timestamps),
    (lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind)), _base64),
    (lambda kind: bool(kind == TIMESTAMP_TZ_ARROW), _moments),
    (pa.types.is_map, _maps),
    (lambda kind: bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)), _lists),
    (pa.types.is_struct, _structs),
]
