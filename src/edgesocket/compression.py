"""The names of the compressions a packet may use."""

from __future__ import annotations

import enum


class Compression(enum.IntEnum):
    """How the bytes of a record are compressed. The numbers are written to disk, the names are on the wire."""

    NONE = 0
    GZIP = 1
    """RFC 1952; several members may follow each other."""
    ZLIB = 2
    """RFC 1950."""
    DEFLATE = 3
    """RFC 1951, without a header."""
