"""Rows as JSON values of messages: what `encoding.json_rows` writes, faster where a row is text, numbers and booleans.

Arrow puts the columns together, so a row costs no text of Python but its own. Columns of other types, and texts with
something to escape, are written by `encoding` and put in.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_cells

_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = 0x22, 0x5C, 0x20


def json_values(rows: Rows) -> list[bytes]:
    """Every row as one JSON object in UTF-8."""
    pieces: list[pa.Array | pa.Scalar] = []
    between = "{"
    for name, array in zip(rows.schema.names, rows.batch.columns, strict=True):
        (quoted_name,) = json_cells(pa.array([name]))
        cells, quote = _cells(array)
        pieces += [pa.scalar(f"{between}{quoted_name}: {quote}"), cells]
        between = f"{quote}, "
    pieces.append(pa.scalar(between.removesuffix(", ") + "}"))
    return _split(pc.binary_join_element_wise(*pieces, ""))


def _cells(array: pa.Array) -> tuple[pa.Array, str]:
    """Every value as JSON, and what belongs around all of them."""
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        return array.cast(pa.string()).fill_null("null"), ""
    if array.type == pa.string() and not array.null_count and not _needs_escapes(array):
        return array, '"'
    return pa.array(json_cells(array), pa.string()), ""


def _needs_escapes(texts: pa.StringArray) -> bool:
    _, offsets, data = texts.buffers()
    if data is None:
        return False
    first, last = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]]
    letters = np.frombuffer(data, np.uint8)[first:last]
    return bool((letters < _FIRST_PRINTABLE).any() or (letters == _QUOTE).any() or (letters == _BACKSLASH).any())


def _split(texts: pa.StringArray) -> list[bytes]:
    """The texts as separate `bytes`."""
    _, offsets, data = texts.buffers()
    text = data.to_pybytes()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return [text[start:end] for start, end in pairwise(bounds.tolist())]
