"""Inflating: complete streams only, never beyond the bound, in constant memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.packet.compression import PIECE_BYTES, deflate, inflate, inflate_pieces, prove

MIB = 1024 * 1024
COMPRESSED = [Compression.GZIP, Compression.ZLIB, Compression.DEFLATE]
TEXT = "Grüße, 温度 21.5 °C, 😀\n".encode() * 20_000  # ~700 KB: many pieces, characters cut at their ends


def read_both(data: bytes, compression: Compression, limit: int = MIB) -> bytes:
    """What both readers say; they must agree."""
    collected = bytearray()
    size = prove(data, compression, limit, on_piece=collected.extend)
    record = inflate(data, compression, limit)
    assert record == bytes(collected)
    assert size == len(record)
    return record


def assert_refused(data: bytes, compression: Compression, limit: int = MIB, match: str | None = None) -> None:
    with pytest.raises(DecodeError, match=match):
        prove(data, compression, limit)
    with pytest.raises(DecodeError, match=match):
        inflate(data, compression, limit)


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("record", [b"", b"x", b"hello", TEXT], ids=["empty", "one", "short", "long"])
def test_what_was_deflated_is_inflated(compression: Compression, record: bytes) -> None:
    assert read_both(deflate(record, compression), compression) == record


@pytest.mark.parametrize("compression", COMPRESSED)
def test_deflating_is_repeatable(compression: Compression) -> None:
    assert deflate(TEXT, compression) == deflate(TEXT, compression)


def test_the_forms_are_what_their_names_say() -> None:
    """GZIP is RFC 1952, ZLIB is RFC 1950, DEFLATE is RFC 1951 without a header."""
    assert read_both(gzip.compress(b"hello"), Compression.GZIP) == b"hello"
    assert read_both(zlib.compress(b"hello"), Compression.ZLIB) == b"hello"
    raw = zlib.compressobj(wbits=-15)
    assert read_both(raw.compress(b"hello") + raw.flush(), Compression.DEFLATE) == b"hello"


@pytest.mark.parametrize("told", COMPRESSED)
@pytest.mark.parametrize("was", COMPRESSED)
def test_one_form_is_not_another(told: Compression, was: Compression) -> None:
    if told is not was:
        assert_refused(deflate(TEXT, was), told)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_an_empty_stream_is_refused(compression: Compression) -> None:
    assert_refused(b"", compression, match="empty")


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("record", [b"hello", TEXT], ids=["short", "long"])
def test_a_stream_cut_anywhere_is_refused(compression: Compression, record: bytes) -> None:
    whole = deflate(record, compression)
    for length in [1, 2, len(whole) // 2, len(whole) - 8, len(whole) - 4, len(whole) - 1]:
        assert_refused(whole[:length], compression)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZLIB])
def test_a_bad_checksum_is_refused(compression: Compression) -> None:
    damaged = bytearray(deflate(TEXT, compression))
    damaged[-5 if compression is Compression.GZIP else -1] ^= 1
    assert_refused(bytes(damaged), compression, match="damaged")


def test_a_bad_gzip_size_field_is_refused() -> None:
    damaged = bytearray(deflate(TEXT, Compression.GZIP))
    damaged[-1] ^= 1
    assert_refused(bytes(damaged), Compression.GZIP, match="damaged")


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("tail", [b"\0", b"x", b"\x1f", b"\x1f\x8b", b"\0" * 40_000])
def test_bytes_after_the_stream_are_refused(compression: Compression, tail: bytes) -> None:
    assert_refused(deflate(b"hello", compression) + tail, compression)


@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.DEFLATE])
def test_only_gzip_has_members(compression: Compression) -> None:
    assert_refused(deflate(b"a", compression) * 2, compression, match="after the end")


def test_gzip_members_follow_each_other() -> None:
    members = [b"a", b"", TEXT[:100_000], b"z" * 300_000, b"end"]
    stream = b"".join(gzip.compress(member, mtime=0) for member in members)
    assert read_both(stream, Compression.GZIP) == b"".join(members)


def test_many_small_gzip_members_are_read() -> None:
    stream = gzip.compress(b"xy", mtime=0) * 20_000
    assert read_both(stream, Compression.GZIP) == b"xy" * 20_000


def test_a_gzip_header_with_every_field_is_read() -> None:
    body = deflate(b"hello", Compression.DEFLATE)
    head = b"\x1f\x8b\x08\x1c" + b"\0" * 6 + b"\x04\0abcd" + b"name\0" + b"comment\0"
    tail = zlib.crc32(b"hello").to_bytes(4, "little") + (5).to_bytes(4, "little")
    assert read_both(head + body + tail, Compression.GZIP) == b"hello"


def test_a_zlib_stream_that_wants_a_dictionary_is_refused() -> None:
    squeezer = zlib.compressobj(zdict=b"hello hello")
    assert_refused(squeezer.compress(b"hello hello") + squeezer.flush(), Compression.ZLIB, match="damaged")


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("limit", [0, 1, 5, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 1_000_000])
def test_the_bound_is_exact(compression: Compression, limit: int) -> None:
    assert len(read_both(deflate(b"x" * limit, compression), compression, limit)) == limit
    assert_refused(deflate(b"x" * (limit + 1), compression), compression, limit, match=f"more than {limit} bytes")


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"ok\xe6\xb8", b"\x80ok"]
)
@pytest.mark.parametrize("compression", list(Compression))
def test_a_record_that_is_not_utf8_is_refused_wherever_it_is_cut(compression: Compression, bad: bytes) -> None:
    for padding in [0, PIECE_BYTES - 2, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES - 1]:
        data = deflate(b"a" * padding + bad, compression)
        with pytest.raises(DecodeError, match="not UTF-8") as caught:
            prove(data, compression, MIB)
        assert caught.value.__context__ is None
        assert prove(data, compression, MIB, check_utf8=False) == padding + len(bad)


def test_a_character_cut_by_a_piece_is_whole() -> None:
    for padding in range(PIECE_BYTES - 4, PIECE_BYTES + 1):
        prove(b"a" * padding + "😀".encode() + b"b" * 10, Compression.NONE, MIB)


def test_pieces_are_small() -> None:
    pieces = list(inflate_pieces(deflate(b"\0" * MIB, Compression.ZLIB), Compression.ZLIB, MIB))
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert b"".join(pieces) == b"\0" * MIB


def test_any_buffer_is_read() -> None:
    data = deflate(b"hello", Compression.GZIP)
    assert inflate(bytearray(data), Compression.GZIP, 10) == b"hello"
    assert inflate(memoryview(b"--" + data)[2:], Compression.GZIP, 10) == b"hello"
    assert prove(memoryview(b"hello"), Compression.NONE, 10) == 5


def zeros(size: int, compression: Compression) -> bytes:
    """`size` zero bytes, compressed without holding them."""
    bits = {Compression.GZIP: 31, Compression.ZLIB: 15, Compression.DEFLATE: -15}[compression]
    squeezer = zlib.compressobj(9, zlib.DEFLATED, bits)
    parts = [squeezer.compress(b"\0" * MIB) for _ in range(size // MIB)]
    return b"".join([*parts, squeezer.flush()])


def traced_peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compression", COMPRESSED)
def test_proving_takes_constant_memory(compression: Compression) -> None:
    bomb = zeros(64 * MIB, compression)
    assert traced_peak(lambda: prove(bomb, compression, 64 * MIB)) < MIB
    with pytest.raises(DecodeError, match="more than"):
        prove(bomb, compression, 64 * MIB - 1)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_inflating_a_bomb_allocates_no_more_than_the_bound(compression: Compression) -> None:
    bomb = zeros(64 * MIB, compression)

    def refuse() -> None:
        with pytest.raises(DecodeError, match="more than"):
            inflate(bomb, compression, 10 * MIB)

    assert traced_peak(refuse) < 10 * MIB + MIB


@pytest.mark.parametrize("size", [100_000, 1_000_000, 9 * MIB, 10 * MIB])
def test_inflating_a_record_allocates_little_more_than_it(size: int) -> None:
    data = deflate(b"\0" * size, Compression.GZIP)
    peak = traced_peak(lambda: inflate(data, Compression.GZIP, 10 * MIB))
    assert peak < min(size * 4 // 3, 10 * MIB) + 512 * 1024


def test_bombs_do_not_grow_the_process() -> None:
    """64 MiB and 4 GiB of zeros, a gzip in a gzip, fifty in a row, against a bound of 1 MiB: resident memory stays."""
    program = f"""
import resource, zlib, gzip
from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.packet.codec import PacketDecoder, PacketEncoder
from edgesocket.packet.envelope import Envelope, build_envelope

def zeros(mib):
    squeezer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([squeezer.compress(bytes(1 << 20)) for _ in range(mib)]) + squeezer.flush()

def many_zeros(mib):
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = squeezer.compress(bytes(1 << 20)) + squeezer.flush(zlib.Z_FULL_FLUSH)
    return block * mib + squeezer.flush()

small, large = zeros(64), many_zeros(4096)
key = bytes(range(32))
sealed = PacketEncoder(Compression.NONE, key, lambda n: bytes(n)).seal(small)
packets = [build_envelope(Envelope(small, Compression.GZIP))] * 50
packets += [build_envelope(Envelope(large, Compression.DEFLATE)), sealed.replace(b'"NONE"', b'"GZIP"')]
decoder = PacketDecoder(key, False, {MIB})
for packet in packets[:2] + packets[-1:]:  # warm up
    try: decoder.open(packet)
    except DecodeError: pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
refused = 0
for packet in packets:
    try: decoder.open(packet)
    except DecodeError: refused += 1
assert refused == len(packets), refused
# Twice packed: the outer one is small and its record is not text.
try: decoder.open(build_envelope(Envelope(gzip.compress(small), Compression.GZIP))); raise SystemExit("opened")
except DecodeError: pass
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 25 * 1024  # KiB: the 4 GiB packet's line is 5.6 MB and is copied a few times


def test_the_whole_bound_can_be_a_long_line_of_small_members() -> None:
    """A stream of empty members inflates to nothing and still ends."""
    assert prove(gzip.compress(b"", mtime=0) * 50_000, Compression.GZIP, 0) == 0
