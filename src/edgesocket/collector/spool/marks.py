"""Marks as bytes: names and texts of positions, such as how far a file has been read.

::

    name length u32   text length u32   name   text        for each, little-endian, UTF-8

Names may hold what is no text (file names in any encoding, as `os.fsdecode` gives them). An empty text forgets a name.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

MAX_MARKS_BYTES = 16 * 1024 * 1024
"""All marks of a spool together: some 60,000 files."""

_LENGTHS = struct.Struct("<II")


def encode_marks(marks: Mapping[str, str]) -> bytes:
    """The marks as bytes, in their order; b"" for none.

    Raises:
        ValueError: they are larger than `MAX_MARKS_BYTES`.
    """
    parts = []
    for name, text in marks.items():
        name_bytes = name.encode("utf-8", "surrogatepass")
        text_bytes = text.encode("utf-8", "surrogatepass")
        parts += [_LENGTHS.pack(len(name_bytes), len(text_bytes)), name_bytes, text_bytes]
    encoded = b"".join(parts)
    if len(encoded) > MAX_MARKS_BYTES:
        raise ValueError(f"{len(marks)} marks need {len(encoded)} bytes; at most {MAX_MARKS_BYTES} are kept")
    return encoded


def decode_marks(data: bytes) -> dict[str, str]:
    """What `encode_marks` was given.

    Raises:
        ValueError: no such bytes.
    """
    marks: dict[str, str] = {}
    at = 0
    while at < len(data):
        if len(data) - at < _LENGTHS.size:
            raise ValueError("the marks end within a length")
        name_length, text_length = _LENGTHS.unpack_from(data, at)
        at += _LENGTHS.size
        end = at + name_length + text_length
        if end > len(data):
            raise ValueError("the marks end within a mark")
        name = data[at : at + name_length].decode("utf-8", "surrogatepass")
        marks[name] = data[at + name_length : end].decode("utf-8", "surrogatepass")
        at = end
    return marks


def merge_marks(into: dict[str, str], newer: Mapping[str, str]) -> int:
    """Let newer marks replace older ones; an empty text takes the name away. Returns by how many bytes they grow."""
    growth = 0
    for name, text in newer.items():
        old = into.pop(name, "")
        if old:
            growth -= size_of_mark(name, old)
        if text:
            into[name] = text
            growth += size_of_mark(name, text)
    return growth


def size_of_marks(marks: Mapping[str, str]) -> int:
    """How many bytes `encode_marks` makes."""
    return sum(map(size_of_mark, marks.keys(), marks.values()))


def size_of_mark(name: str, text: str) -> int:
    """The part of one mark in `size_of_marks`."""
    return _LENGTHS.size + len(name.encode("utf-8", "surrogatepass")) + len(text.encode("utf-8", "surrogatepass"))
