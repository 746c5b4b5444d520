"""Rows as JSON values of messages: what `encoding.json_rows` writes, faster where a row is text, numbers and booleans.

Arrow puts the columns together, so a row costs no text of Python but its own. Columns of other types, and texts with
something to escape, are written by `encoding` and put in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_cells

_NULL = "null"
_FIRST_PRINTABLE = 0x20
_KEPT_TEXTS = 64
_KEPT_BYTES = 1 << 20
_kept: dict[str, pa.Array] = {}
"""Texts of the last schemas, each many times: at most `_KEPT_TEXTS`, of at most `_KEPT_BYTES` each."""


def json_values(rows: Rows) -> list[bytes]:
    """Every row as one JSON object in UTF-8."""
    pieces: list[pa.Array] = []
    between = "{"
    for name, array in zip(rows.schema.names, rows.batch.columns, strict=True):
        (quoted_name,) = json_cells(pa.array([name]))
        cells, quote = _cells(array)
        pieces += [_repeated(f"{between}{quoted_name}: {quote}", rows.count), cells]
        between = f"{quote}, "
    pieces.append(_repeated(between.removesuffix(", ") + "}", rows.count))
    joined = pc.binary_join_element_wise(*pieces, "")
    values: list[bytes] = joined.view(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return values


def _cells(array: pa.Array) -> tuple[pa.Array, str]:
    """Every value as JSON, and what belongs around all of them."""
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        texts = array.cast(pa.string())
        return texts.fill_null(_NULL) if array.null_count else texts, ""
    if array.type == pa.string() and not array.null_count and not _needs_escapes(array):
        return array, '"'
    return pa.array(json_cells(array), pa.string()), ""


def _needs_escapes(texts: pa.StringArray) -> bool:
    _, offsets, data = texts.buffers()
    if data is None:
        return False
    first, last = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
    if first == last:
        return False
    letters = data.slice(first, last - first)
    if np.frombuffer(letters, np.uint8).min() < _FIRST_PRINTABLE:
        return True
    text = letters.to_pybytes()
    return b'"' in text or b"\\" in text


def _repeated(text: str, count: int) -> pa.Array:
    """The text `count` times. Arrow joins arrays in half the time that it takes with scalars among them."""
    found = _kept.get(text)
    if found is None or len(found) < count:
        found = pa.repeat(pa.scalar(text), 1 << (count - 1).bit_length())
        if found.nbytes <= _KEPT_BYTES:
            if len(_kept) >= _KEPT_TEXTS:
                _kept.clear()
            _kept[text] = found
    return found.slice(0, count)
