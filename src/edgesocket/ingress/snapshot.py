"""The queue's bytes inside a state blob.

Layout, all little-endian: the number of blocks (u32), then for each block a fixed header, its ids (only where they
are not consecutive), for each payload where it starts and ends in the bytes that follow (u32 each), and those bytes.

A columnar block is written as it lies in memory, from its first payload to its last: the few bytes of request headers
between the payloads cost less than an object for each record would.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.records import RecordBlock

Part = bytes | memoryview

_COUNT = struct.Struct("<I")
_BLOCK = struct.Struct("<IBBxxqQ")  # records, compression, has id array, first id, bytes


def encode_blocks(blocks: Iterable[RecordBlock]) -> list[Part]:
    """The blocks as byte strings to be written one after another."""
    parts: list[Part] = [b""]
    count = 0
    for block in blocks:
        count += 1
        has_ids = block.ids is not None
        data, starts, ends = block.columns()
        base, stop = int(starts[0]), int(ends[-1])
        parts.append(_BLOCK.pack(block.count, block.compression, has_ids, block.first_id, stop - base))
        if block.ids is not None:
            parts.append(block.ids.astype("<i8").tobytes())
        parts.append((starts - base).astype("<u4").tobytes())
        parts.append((ends - base).astype("<u4").tobytes())
        parts.append(data.data[base:stop])
    parts[0] = _COUNT.pack(count)
    return parts


def decode_blocks(data: bytes) -> list[RecordBlock]:
    """Read what `encode_blocks` wrote.

    Raises:
        DecodeError: the bytes are not such an image.
    """
    try:
        return _decode(memoryview(data))
    except (struct.error, ValueError) as error:
        raise DecodeError(f"queue image: {error}") from error


def _decode(view: memoryview) -> list[RecordBlock]:
    (count,) = _COUNT.unpack_from(view)
    position = _COUNT.size
    blocks: list[RecordBlock] = []
    for _ in range(count):
        records, compression, has_ids, first_id, byte_count = _BLOCK.unpack_from(view, position)
        position += _BLOCK.size
        if not records or position + 8 * records * (1 + has_ids) + byte_count > len(view):
            raise ValueError("cut short")
        ids = None
        if has_ids:
            ids = np.frombuffer(view, dtype="<i8", count=records, offset=position).astype(np.int64)
            position += 8 * records
        starts = np.frombuffer(view, dtype="<u4", count=records, offset=position).astype(np.int64)
        position += 4 * records
        ends = np.frombuffer(view, dtype="<u4", count=records, offset=position).astype(np.int64)
        position += 4 * records
        if (starts > ends).any() or (starts[1:] < ends[:-1]).any() or int(ends[-1]) > byte_count:
            raise ValueError("payloads overlap or lie outside")
        payloads = np.frombuffer(view, dtype=np.uint8, count=byte_count, offset=position)
        position += byte_count
        blocks.append(RecordBlock.of_columns(payloads, starts, ends, first_id, ids, Compression(compression)))
    if position != len(view):
        raise ValueError("bytes left over")
    return blocks
