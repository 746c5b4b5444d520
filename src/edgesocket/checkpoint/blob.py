"""State blobs: the binary part of a checkpoint (queued records, fingerprints).

A blob carries the complete text of its commit record, so that a record whose append was cut off (a deciding sink may
have committed already) or whose file is damaged can be made again from it.

Layout: magic line, header length (u32, little-endian), header (JSON), body, CRC-32 of all before it (u32).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from edgesocket.errors import DamagedStateError

_MAGIC = b"EDGESOCKET STATE 1\n"
_U32 = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Blob:
    """A decoded blob: `record` is the commit record's JSON, `body` the bytes of one kind of state."""

    record: dict[str, Any]
    body: bytes


def blob_name(number: int, epoch: int, kind: str) -> str:
    """Name of checkpoint `number`'s blob of one kind. The epoch keeps two owners from making the same name."""
    return f"state/{number:020d}-{epoch:020d}.{kind}"


def parse_blob_name(name: str) -> tuple[int, int, str] | None:
    """(number, epoch, kind) of a blob's name, or None for any other name."""
    stem, _, kind = name.removeprefix("state/").partition(".")
    number, _, epoch = stem.partition("-")
    if len(number) != 20 or len(epoch) != 20 or not (number + epoch).isdigit() or not kind:
        return None
    return int(number), int(epoch), kind


def encode_blob(record: dict[str, Any], parts: Iterable[bytes | memoryview]) -> bytes:
    """A blob of the record's text and the joined `parts`."""
    header = json.dumps(record, separators=(",", ":")).encode()
    pieces = [_MAGIC, _U32.pack(len(header)), header, *parts]
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return b"".join([*pieces, _U32.pack(checksum)])


def decode_blob(name: str, data: bytes) -> Blob:
    """Read a blob.

    Raises:
        DamagedStateError: it is cut, changed, or of another format; names the file.
    """
    fixed = len(_MAGIC) + _U32.size
    if len(data) < fixed + _U32.size or not data.startswith(_MAGIC):
        raise DamagedStateError(name, "not a state blob of this format, or cut short")
    view = memoryview(data)
    (checksum,) = _U32.unpack(view[-_U32.size :])
    if zlib.crc32(view[: -_U32.size]) != checksum:
        raise DamagedStateError(name, "checksum does not match")
    (length,) = _U32.unpack(view[len(_MAGIC) : fixed])
    try:
        record = json.loads(bytes(view[fixed : fixed + length]))
    except ValueError as error:
        raise DamagedStateError(name, f"header is not JSON: {error}") from error
    return Blob(record, bytes(view[fixed + length : -_U32.size]))
