"""The compiled way from JSON to columns, for schemas of simple types and payloads without surprises.

`flat_rows.c` is compiled when the package is built on a machine with a C compiler (`hatch_build.py`). It takes what is
plain and stops at everything else, which is then read as if there were no compiled way (`schema.fast`): the results are
equal by test, only the time differs.
"""

from __future__ import annotations

import codecs
import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgesocket.records import RecordBlock
from edgesocket.schema.types import INTEGER_BITS, Kind, RowSchema, SchemaField, SimpleType

LIBRARY = "_flat_rows.so"
"""Beside this module, where it was compiled."""

MAX_COLUMNS = 64
"""A schema of more has no compiled way."""

MAX_PIECE_BYTES = 64 * 1024 * 1024
"""Payloads of more bytes together have none: each column of texts has room for all of them."""

MAX_LEFT_ALONE = 64
"""After pieces with a surprise in them, at most so many are not even tried."""

_WHOLE, _REAL, _REAL_32, _TRUTH, _TEXT, _TIMESTAMP, _DATE = range(7)
_KINDS = {
    **dict.fromkeys(INTEGER_BITS, _WHOLE),
    Kind.DOUBLE: _REAL,
    Kind.FLOAT: _REAL_32,
    Kind.BOOLEAN: _TRUTH,
    Kind.STRING: _TEXT,
    Kind.TIMESTAMP: _TIMESTAMP,
    Kind.DATE: _DATE,
}
_NAME, _NAME_BYTES, _KIND, _MINIMUM, _MAXIMUM, _VALUES, _VALID, _TEXT_AT, _NULLS, _USED = range(10)
"""The fields of the C structure `Column`, each of 64 bits."""

Ints = npt.NDArray[np.int64]


class FlatRows:
    """Reads blocks of one schema. May be used by several threads: what it remembers is only whether trying is worth it.

    Args:
        schema: of simple types (`fits`).
        library: the compiled loop.
    """

    def __init__(self, schema: RowSchema, library: ctypes.PyDLL) -> None:
        self._schema = schema.arrow
        self._fields = schema.fields
        self._read = library.edgesocket_flat_rows
        self._read.restype = ctypes.c_int64
        self._read.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self._names = [np.frombuffer(field.name.encode() or b"\0", dtype=np.uint8) for field in schema.fields]
        self._columns = np.zeros((len(schema.fields), 10), dtype=np.int64)
        for column, field, name in zip(self._columns, schema.fields, self._names, strict=True):
            assert isinstance(field.kind, SimpleType)
            column[_NAME], column[_NAME_BYTES] = name.ctypes.data, len(field.name.encode())
            column[_KIND] = _KINDS[field.kind.kind]
            if field.kind.kind in INTEGER_BITS:
                limit = 1 << (INTEGER_BITS[field.kind.kind] - 1)
                column[_MINIMUM], column[_MAXIMUM] = -limit, limit - 1
        self._surprises = 0
        self._left_alone = 0

    @staticmethod
    def fits(schema: RowSchema) -> bool:
        """Whether the compiled loop knows all the types, and there are not too many."""
        kinds = (field.kind for field in schema.fields)
        return len(schema.fields) <= MAX_COLUMNS and all(
            isinstance(kind, SimpleType) and kind.kind in _KINDS for kind in kinds
        )

    def read(self, block: RecordBlock) -> pa.RecordBatch | None:
        """The columns of a block (payloads not compressed), or None if any payload is not plain."""
        if self._left_alone > 0:
            self._left_alone -= 1
            return None
        batch = self._tried(block) if block.payload_bytes <= MAX_PIECE_BYTES else None
        if batch is None:
            self._surprises += 1
            self._left_alone = min(self._surprises, MAX_LEFT_ALONE)
        else:
            self._surprises = 0
        return batch

    def _tried(self, block: RecordBlock) -> pa.RecordBatch | None:
        data, starts, ends = block.columns()
        columns = self._columns.copy()
        room = [_Room(column, block.count, block.payload_bytes) for column in columns]
        starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
        is_ascii = ctypes.c_int64()
        taken = self._read(
            data.ctypes.data,
            starts.ctypes.data,
            ends.ctypes.data,
            block.count,
            columns.ctypes.data,
            len(columns),
            ctypes.addressof(is_ascii),
        )
        if taken != block.count or not (is_ascii.value or _is_utf8(data[int(starts[0]) : int(ends[-1])])):
            return None
        arrays = [one.array(field, column) for one, field, column in zip(room, self._fields, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Room:
    """Memory for one column of `count` rows; its addresses are put into `column`."""

    def __init__(self, column: Ints, count: int, payload_bytes: int) -> None:
        self._count = count
        self._valid = np.ones(count, dtype=np.uint8)
        self._text = np.empty(0, dtype=np.uint8)
        self._values: npt.NDArray[Any]
        if column[_KIND] == _TEXT:
            self._values = np.zeros(count + 1, dtype=np.int32)
            self._text = np.empty(payload_bytes, dtype=np.uint8)
        elif column[_KIND] in (_REAL, _REAL_32):
            self._values = np.empty(count, dtype=np.float64)
        else:
            self._values = np.empty(count, dtype=np.int64)
        column[_VALUES] = self._values.ctypes.data
        column[_VALID] = self._valid.ctypes.data
        column[_TEXT_AT] = self._text.ctypes.data

    def array(self, field: SchemaField, column: Ints) -> pa.Array:
        """The column as Arrow, when it has been filled."""
        kind = field.kind.arrow
        nulls = int(column[_NULLS])
        valid = pa.py_buffer(_bits(self._valid)) if nulls else None
        if column[_KIND] == _TEXT:
            text = pa.py_buffer(self._text[: int(column[_USED])])
            buffers = [valid, pa.py_buffer(self._values), text]
        elif column[_KIND] == _TRUTH:
            buffers = [valid, pa.py_buffer(_bits(self._values.astype(np.uint8)))]
        else:
            width = np.dtype(f"{'f' if column[_KIND] in (_REAL, _REAL_32) else 'i'}{kind.bit_width // 8}")
            buffers = [valid, pa.py_buffer(self._values.astype(width, copy=False))]
        array = pa.Array.from_buffers(kind, self._count, buffers, nulls)
        if nulls and field.default is not None:
            array = array.fill_null(pa.array([field.default], kind)[0])
        return array


def _bits(flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.packbits(flags, bitorder="little")


def _is_utf8(codes: npt.NDArray[np.uint8]) -> bool:
    try:
        codecs.utf_8_decode(codes.data, "strict", True)
    except UnicodeDecodeError:
        return False
    return True


def load() -> ctypes.PyDLL | None:
    """The compiled loop, or None where it was not compiled or does not fit this machine."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return None  # `Column` is laid out for addresses of 64 bits
    try:
        library = ctypes.PyDLL(str(Path(__file__).with_name(LIBRARY)))
        library.edgesocket_flat_rows  # noqa: B018  is it there?
    except (OSError, AttributeError):
        return None
    return library
