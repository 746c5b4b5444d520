"""The payloads of a block as lines in one buffer, and which of them can be read together."""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute  # loaded here, or the first `take` would load it while rows wait

from edgesocket.records import RecordBlock
from edgesocket.schema.exact import MAX_DEPTH

MIN_DEEP_BYTES = 2 * MAX_DEPTH
"""A shorter payload cannot be nested too deep."""

_MIN_TAKEN_RECORDS = 64
"""Below this the fixed cost of taking payloads with Arrow is more than it saves."""
_OPEN, _CLOSE, _LF = ord("{"), ord("}"), ord("\n")

Mask = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]


def joined_lines(block: RecordBlock) -> tuple[Any, Offsets, Offsets]:
    """The payloads in one buffer with a line end between each two, and where they begin and end in it."""
    lengths = block.lengths()
    ends = np.cumsum(lengths + 1) - 1
    lines = _taken(block) if block.buffer is not None and block.count >= _MIN_TAKEN_RECORDS else None
    return lines or b"\n".join(block.payloads()), ends - lengths, ends


def _taken(block: RecordBlock) -> pa.Buffer | None:
    """The payloads with the line ends they came with, copied together by Arrow (see `sinks.lines`)."""
    data, starts, ends = block.columns()
    if int(ends[-1]) >= len(data) or not bool((data[ends] == _LF).all()):
        return None
    bounds = np.empty(2 * block.count, dtype=np.int64)
    bounds[0::2] = starts
    bounds[1::2] = ends + 1
    if bool((bounds[1:] < bounds[:-1]).any()):
        return None
    pieces = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2 * block.count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return pieces.take(pa.array(np.arange(0, 2 * block.count - 1, 2))).buffers()[2]


def readable(lines: Any, starts: Offsets, ends: Offsets) -> tuple[Mask, Mask]:
    """Which payloads msgspec may read in a run of lines, and which at least on their own."""
    codes = np.frombuffer(lines, dtype=np.uint8)[: int(ends[-1])]
    lengths = ends - starts
    if not _is_utf8(codes):
        nothing = np.zeros(len(starts), dtype=np.bool_)
        return nothing, nothing
    single = lengths >= 2
    for index in np.flatnonzero(lengths >= MIN_DEEP_BYTES).tolist():
        payload = codes[starts[index] : ends[index]].tobytes()
        single[index] = payload.count(b"{") + payload.count(b"[") <= MAX_DEPTH
    whole = single.copy()
    whole[single] = (codes[starts[single]] == _OPEN) & (codes[ends[single] - 1] == _CLOSE)
    return whole, single


def _is_utf8(codes: npt.NDArray[np.uint8]) -> bool:
    if not len(codes) or int(codes.max()) < 128:
        return True
    try:
        codecs.utf_8_decode(codes.data, "strict", True)
    except UnicodeDecodeError:
        return False
    return True
