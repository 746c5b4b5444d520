"""Blocks as text: one line a record, as bytes ready to be written.

Sinks that write text differ in where the lines go, not in what they look like, so the lines are made here. Both
functions look at the payload bytes only; the shape of the block never shows in the result.

Fast path. In a columnar block the payloads lie in one buffer with gaps between them (a line end and the next
header). Payloads and gaps in turn are one Arrow array over that buffer, and taking every other element of it lets
Arrow copy the payloads together, line ends included, without a Python object a record. It needs the byte after each
payload to be the delimiter, which is how lines arrive; any other block is joined in Python with the same result.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute  # loaded here, or the first `take` would load it while rows wait

from edgesocket.records import RecordBlock

LF = b"\n"

_MIN_FAST_RECORDS = 64
"""Below this the fixed cost of the fast path (about 20 us) is more than it saves."""

_FIRST_PRINTABLE = 0x20

_quote = json.JSONEncoder(ensure_ascii=False).encode


def text_lines(block: RecordBlock, delimiter: bytes = LF) -> bytes | memoryview:
    """Every payload followed by `delimiter`, byte for byte.

    A payload that holds the delimiter is not escaped: it reads as two rows.

    Args:
        block: at least one record, payloads not compressed.
        delimiter: what ends a row, at least one byte.

    Returns:
        The lines in record order; a memoryview keeps its own memory alive and never refers to the block's buffer.
    """
    # A buffer no larger than the payloads has no delimiters between them.
    if block.count >= _MIN_FAST_RECORDS and len(delimiter) == 1 and block.pinned_bytes > block.payload_bytes:
        lines = _taken_lines(block, delimiter[0])
        if lines is not None:
            return lines
    return delimiter.join(block.payloads()) + delimiter


def json_lines(block: RecordBlock, column: str = "value") -> bytes:
    """Every payload as a line `{"<column>": "<payload>"}`, other than ASCII left as UTF-8.

    Args:
        block: at least one record; payloads are UTF-8 and not compressed.
        column: the name of the only field.

    Returns:
        The lines in record order, the same as `json.dumps` writes them.
    """
    head = b"{" + _quote(column).encode() + b": "
    lines = bytes(text_lines(block))
    codes = np.frombuffer(lines, dtype=np.uint8)
    if np.count_nonzero(codes < _FIRST_PRINTABLE) != block.count:
        # A control character other than our line ends: every payload is quoted on its own.
        quoted = map(_quote, map(bytes.decode, block.payloads()))
        return head + f"}}\n{head.decode()}".join(quoted).encode() + b"}\n"
    if b"\\" in lines:
        lines = lines.replace(b"\\", b"\\\\")
    if b'"' in lines:
        lines = lines.replace(b'"', b'\\"')
    return head + b'"' + lines[:-1].replace(LF, b'"}\n' + head + b'"') + b'"}\n'


def _taken_lines(block: RecordBlock, delimiter: int) -> memoryview | None:
    """The fast path of `text_lines`; None where the block's buffer does not allow it."""
    data, starts, ends = block.columns()
    if int(ends[-1]) >= len(data) or not bool((data[ends] == delimiter).all()):
        return None
    bounds = np.empty(2 * block.count, dtype=np.int64)
    bounds[0::2] = starts
    bounds[1::2] = ends + 1
    if bool((bounds[1:] < bounds[:-1]).any()):
        return None
    pieces = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2 * block.count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    taken = pieces.take(pa.array(np.arange(0, 2 * block.count - 1, 2)))
    return memoryview(taken.buffers()[2])[: block.payload_bytes + block.count]
