"""The queue's bytes inside a state blob.

Layout, all little-endian: the number of blocks (u32), then for each block a fixed header, its ids (only where they
are not consecutive), the payload lengths (u32 each) and the payloads one after another.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.records import RecordBlock

_COUNT = struct.Struct("<I")
_BLOCK = struct.Struct("<IBBxxqQ")  # records, compression, has id array, first id, payload bytes


def encode_blocks(blocks: Iterable[RecordBlock]) -> list[bytes]:
    """The blocks as byte strings to be written one after another."""
    parts: list[bytes] = [b""]
    count = 0
    for block in blocks:
        count += 1
        has_ids = block.ids is not None
        parts.append(_BLOCK.pack(block.count, block.compression, has_ids, block.first_id, block.payload_bytes))
        if block.ids is not None:
            parts.append(block.ids.astype("<i8").tobytes())
        parts.append(block.lengths().astype("<u4").tobytes())
        parts.extend(block.payloads())
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
        records, compression, has_ids, first_id, payload_bytes = _BLOCK.unpack_from(view, position)
        position += _BLOCK.size
        ids = None
        if has_ids:
            ids = np.frombuffer(view, dtype="<i8", count=records, offset=position).astype(np.int64)
            position += 8 * records
        lengths = np.frombuffer(view, dtype="<u4", count=records, offset=position).astype(np.int64)
        position += 4 * records
        ends = np.cumsum(lengths)
        if not records or int(ends[-1]) != payload_bytes or position + payload_bytes > len(view):
            raise ValueError("lengths do not add up")
        payloads = np.frombuffer(view, dtype=np.uint8, count=payload_bytes, offset=position)
        position += payload_bytes
        blocks.append(RecordBlock.of_columns(payloads, ends - lengths, ends, first_id, ids, Compression(compression)))
    if position != len(view):
        raise ValueError("bytes left over")
    return blocks
