"""A short text that outlives the process: what the sender wants to know after a restart (file `note`).

Three slots of fixed size, made once, so that a full disk never stops a note. A note goes into a slot that is neither
the newest nor the newest durable one: so whatever a crash leaves half written, the newest whole one stays readable, and
after a power cut one at least as new as the last durable one::

    magic "ESnt"   CRC-32 u32 of the rest   number u64   length u32   text
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

from edgesocket.collector.spool.files import Files
from edgesocket.collector.spool.names import NOTE

SLOTS = 3
SLOT_BYTES = 8192
MAX_TEXT_BYTES = 4096

_MAGIC = b"ESnt"
_PREFIX = struct.Struct("<4sI")
_FIELDS = struct.Struct("<QI")


def encode_note(number: int, text: bytes) -> bytes:
    """A slot's beginning. Raises ValueError for a text that is too long."""
    if len(text) > MAX_TEXT_BYTES:
        raise ValueError(f"a note of {len(text)} bytes; at most {MAX_TEXT_BYTES} are kept")
    rest = _FIELDS.pack(number, len(text)) + text
    return _PREFIX.pack(_MAGIC, crc32(rest)) + rest


def decode_note(slot: bytes) -> tuple[int, bytes] | None:
    """Number and text of a slot; None where there is no whole note in it."""
    start = _PREFIX.size + _FIELDS.size
    if len(slot) < start:
        return None
    magic, crc = _PREFIX.unpack_from(slot)
    number, length = _FIELDS.unpack_from(slot, _PREFIX.size)
    if magic != _MAGIC or length > MAX_TEXT_BYTES or crc32(slot[_PREFIX.size : start + length]) != crc:
        return None
    return number, slot[start : start + length]


class Note:
    """The note of one spool. One thread at a time."""

    def __init__(self, files: Files, spool: Path) -> None:
        """Find the newest whole note. Raises no OSError: what cannot be read is not there."""
        self._files = files
        self._path = spool / NOTE
        self._fd: int | None = None
        self._number = 0
        self._newest = self._durable = -1
        self.text = read_note(self._path)
        self._look()

    def put(self, text: str, durable: bool) -> None:
        """Keep a text in place of the one before. See `BatchSource.remember`.

        Raises:
            OSError: the one before may still be the newest. Put it again.
            ValueError: it is too long, or not ASCII.
        """
        data = encode_note(self._number + 1, text.encode("ascii"))
        fd = self._open()
        slot = next(slot for slot in range(SLOTS) if slot not in (self._newest, self._durable))
        self._files.write_at(fd, slot * SLOT_BYTES, data)
        self._number += 1
        self._newest = slot
        self.text = text
        if durable:
            self._files.sync(fd)
            self._durable = slot

    def close(self) -> None:
        """Release the file."""
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None

    def _look(self) -> None:
        for slot, found in enumerate(_slots(self._path)):
            if found is not None and found[0] > self._number:
                self._number, self._newest = found[0], slot
        # It is not known whether that one is durable: it is kept until a newer one surely is.
        self._durable = self._newest

    def _open(self) -> int:
        if self._fd is not None:
            return self._fd
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            fd = self._files.create(self._path, append=False)
        try:
            if os.fstat(fd).st_size < SLOTS * SLOT_BYTES:
                self._files.write_at(fd, os.fstat(fd).st_size, bytes(SLOTS * SLOT_BYTES - os.fstat(fd).st_size))
                self._files.sync(fd)
                self._files.sync_directory(self._path.parent)
        except OSError:
            self._files.close(fd)
            raise
        self._fd = fd
        return fd


def read_note(path: Path) -> str:
    """The newest whole note in a file; "" where there is none."""
    found = max((slot for slot in _slots(path) if slot is not None), default=(0, b""))
    return found[1].decode("ascii", "replace")


def _slots(path: Path) -> list[tuple[int, bytes] | None]:
    try:
        with path.open("rb") as file:
            return [decode_note(file.read(SLOT_BYTES)) for _ in range(SLOTS)]
    except OSError:
        return []
