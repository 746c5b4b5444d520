"""Compressed payloads: inflated in pieces, under a bound, to the last byte.

A few kilobytes can inflate to gigabytes, so nothing here ever asks how large the result will be (the size field of
GZIP is the sender's word) and nothing inflates in one go. Input is fed in small slices, output is taken in pieces of
at most `PIECE_BYTES`, and the bound is checked at every piece: a bomb costs the time to inflate up to the bound and a
constant amount of memory.

A stream counts only if it is complete: checksum right, ended, and nothing after it. GZIP may have several members.
"""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Callable, Iterator

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError

Data = bytes | bytearray | memoryview

PIECE_BYTES = 64 * 1024
"""The most that is inflated at a time, and so by how much a bound can be overrun before it is noticed."""

# zlib hands back unread input as a copy; small slices keep those copies cheap for a stream that inflates a lot.
_FEED_BYTES = 16 * 1024

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")
_NOT_UTF8 = "the record is not UTF-8"

_WINDOW_BITS = {Compression.GZIP: 31, Compression.ZLIB: 15, Compression.DEFLATE: -15}


def inflate_pieces(data: Data, compression: Compression, limit_bytes: int) -> Iterator[bytes]:
    """Yield the inflated bytes of `data` in order, in pieces of at most `PIECE_BYTES`.

    The bytes are good only once the iteration has ended: an error can come after any piece.

    Args:
        data: the compressed bytes; with `Compression.NONE` the record itself.
        compression: how `data` is compressed.
        limit_bytes: the most bytes the record may have, 0 or more.

    Raises:
        DecodeError: the stream is empty, cut, damaged, followed by other bytes, or inflates beyond the limit.

    Guarantees: holds one piece and one input slice, whatever the sizes of input and record.
    """
    view = memoryview(data)
    total = 0
    for piece in _slices(view) if compression is Compression.NONE else _stream(view, compression):
        total += len(piece)
        if total > limit_bytes:
            raise DecodeError(f"the record has more than {limit_bytes} bytes")
        yield piece


def prove(
    data: Data,
    compression: Compression,
    limit_bytes: int,
    *,
    check_utf8: bool = True,
    on_piece: Callable[[bytes], object] | None = None,
) -> int:
    """Show that `data` inflates to a whole record within the limit, without keeping the record.

    Args:
        data: the compressed bytes; with `Compression.NONE` the record itself.
        compression: how `data` is compressed.
        limit_bytes: the most bytes the record may have.
        check_utf8: also require the record to be UTF-8.
        on_piece: called with every piece of the record in order, such as a hash's `update`. What it was given counts
            only if this function returns.

    Returns:
        The size of the record in bytes.

    Raises:
        DecodeError: as `inflate_pieces`, or the record is not UTF-8.

    Guarantees: extra memory is constant (a few hundred KiB).
    """
    size = 0
    text = _Utf8Check() if check_utf8 else None
    for piece in inflate_pieces(data, compression, limit_bytes):
        size += len(piece)
        if text is not None:
            text.feed(piece)
        if on_piece is not None:
            on_piece(piece)
    if text is not None:
        text.end()
    return size


def inflate(data: Data, compression: Compression, limit_bytes: int) -> bytes:
    """The whole record that `data` holds.

    Args, Raises: as `inflate_pieces`.

    Guarantees: never allocates more than `limit_bytes` plus a few hundred KiB, a bomb included; a record of n bytes
    takes at most 4/3 n on the way.
    """
    if compression is Compression.NONE:
        if len(data) > limit_bytes:
            raise DecodeError(f"the record has more than {limit_bytes} bytes")
        return bytes(data)
    record = inflate_small(data, compression, limit_bytes)
    if record is not None:
        return record
    pieces = inflate_pieces(data, compression, limit_bytes)
    first = next(pieces, b"")
    second = next(pieces, None)
    if second is None:
        return first
    out = io.BytesIO()
    rooms = _rooms(limit_bytes)
    room = 0
    for chunk in (first, second):
        room = _append(out, chunk, room, rooms)
    for chunk in pieces:
        room = _append(out, chunk, room, rooms)
    out.truncate()
    return out.getvalue()


def inflate_small(data: Data, compression: Compression, limit_bytes: int) -> bytes | None:
    """The whole record of a small stream, in one call.

    Returns:
        None where that is not possible (it is large, damaged, beyond the limit, or has several members): ask `prove` or
        `inflate`, which know more.

    Guarantees: takes at most 80 KiB.
    """
    if len(data) > _FEED_BYTES:
        return None
    if compression is Compression.NONE:
        record = bytes(data)
    else:
        inflater = zlib.decompressobj(_WINDOW_BITS[compression])
        try:
            record = inflater.decompress(data, PIECE_BYTES)
        except zlib.error:
            return None
        if not inflater.eof or inflater.unused_data:
            return None
    return record if len(record) <= limit_bytes else None


def check_utf8(record: bytes) -> None:
    """Raise DecodeError where a record is not UTF-8."""
    try:
        record.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return
    raise DecodeError(_NOT_UTF8)  # out here: the decoder's error holds the record, and must not travel along


def deflate(data: bytes, compression: Compression, level: int = 6) -> bytes:
    """Compress one record, for collectors.

    Args:
        data: the record.
        compression: the form wanted; NONE gives the record back.
        level: 1 (fast) to 9 (small).

    Returns:
        A stream that `inflate` reads. The same record gives the same bytes (GZIP carries no time).
    """
    if compression is Compression.NONE:
        return data
    squeezer = zlib.compressobj(level, zlib.DEFLATED, _WINDOW_BITS[compression])
    return squeezer.compress(data) + squeezer.flush()


def _slices(view: memoryview) -> Iterator[bytes]:
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])


def _stream(view: memoryview, compression: Compression) -> Iterator[bytes]:
    """The inflated pieces of one complete stream, without a bound."""
    if not view:
        raise DecodeError("an empty compressed stream")
    inflater = zlib.decompressobj(_WINDOW_BITS[compression])
    try:
        for start in range(0, len(view), _FEED_BYTES):
            feed: Data = view[start : start + _FEED_BYTES]
            while feed:
                if inflater.eof:
                    if compression is not Compression.GZIP:
                        raise DecodeError("bytes after the end of the compressed stream")
                    inflater = zlib.decompressobj(_WINDOW_BITS[compression])
                piece = inflater.decompress(feed, PIECE_BYTES)
                if piece:
                    yield piece
                feed = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        # All input is in; what the inflater still holds comes out without more.
        while not inflater.eof:
            piece = inflater.decompress(b"", PIECE_BYTES)
            if not piece:
                raise DecodeError("the compressed stream is cut short")
            yield piece
    except zlib.error as problem:
        # zlib's texts are fixed strings: they never quote the data.
        raise DecodeError(f"a damaged {compression.name} stream ({problem})") from None


def _rooms(limit_bytes: int) -> list[int]:
    """Sizes to grow a buffer to, falling; pop the smallest first. The largest is the limit itself.

    A BytesIO that grows by less than an eighth takes an eighth more than it was asked for. Growing by a third or more
    each time, up to a last step that ends at the limit, keeps it to what it was asked for.
    """
    rooms = [limit_bytes]
    while rooms[-1] > 4 * PIECE_BYTES:
        rooms.append(rooms[-1] * 3 // 4)
    return rooms


def _append(out: io.BytesIO, chunk: bytes, room: int, rooms: list[int]) -> int:
    """Write `chunk` at the end, growing the buffer first where needed. Returns the room there is then."""
    here = out.tell()
    if here + len(chunk) > room:
        while here + len(chunk) > room:
            room = rooms.pop()
        out.seek(room - 1)
        out.write(b"\0")
        out.seek(here)
    out.write(chunk)
    return room


class _Utf8Check:
    """Checks text that comes in pieces; a character may be cut by a piece's end."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._inside_character = False

    def feed(self, piece: bytes) -> None:
        if not self._inside_character and piece.isascii():
            return
        if self._decoder is None:
            self._decoder = _Utf8Decoder()
        try:
            self._decoder.decode(piece)
            self._inside_character = bool(self._decoder.getstate()[0])
            return
        except UnicodeDecodeError:
            pass
        # Raised out here: the codec's error holds the text, and must not travel along as context.
        raise DecodeError(_NOT_UTF8)

    def end(self) -> None:
        if self._inside_character:
            raise DecodeError(_NOT_UTF8)
