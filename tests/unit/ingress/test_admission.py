"""What a payload must be to be queued: RAW text, and PACKET with the real decoder."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
import zlib
from typing import Any

import pytest

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError, DecryptError
from edgesocket.ingress.admission import FIRST_IVS_REMEMBERED, IVS_REMEMBERED, IvMemory, PacketCodec, RawCodec
from edgesocket.ingress.fingerprints import fingerprint
from edgesocket.packet.codec import PacketDecoder, PacketEncoder
from edgesocket.packet.compression import inflate
from edgesocket.packet.keys import PacketKey

KEY = bytes(range(32))
LIMIT = 1 << 20


def packet(payload: bytes, compression: str = "NONE", **more: Any) -> bytes:
    envelope = {"version": 1, "payload": base64.b64encode(payload).decode(), "compression": compression, **more}
    return json.dumps(envelope).encode()


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def codec(key: bytes | None = None, *, require: bool = False, limit: int = LIMIT) -> PacketCodec:
    return PacketCodec(PacketDecoder(key, require, limit))


def test_raw_text_is_queued_as_it_is() -> None:
    admitted = RawCodec().admit("日本 \x00\r\u2028".encode())

    assert admitted.stored == "日本 \x00\r\u2028".encode()
    assert admitted.compression is Compression.NONE
    assert admitted.digest == fingerprint(admitted.stored)


def test_an_empty_raw_payload_is_a_record() -> None:
    assert RawCodec().admit(b"").stored == b""


@pytest.mark.parametrize("payload", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_raw_payloads_that_are_not_utf8_are_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        RawCodec().admit(payload)


def test_or_have_their_bad_bytes_replaced_and_counted() -> None:
    codec = RawCodec(replace_invalid=True)

    admitted = codec.admit(b"a\xffb")

    assert admitted.stored == "a\ufffdb".encode()
    assert admitted.digest == fingerprint(admitted.stored)
    assert codec.admit(b"fine").stored == b"fine"
    assert codec.replaced == 1


@pytest.mark.parametrize(
    ("compression", "compress"),
    [("NONE", bytes), ("GZIP", gzip.compress), ("ZLIB", zlib.compress), ("DEFLATE", deflate)],
)
def test_packets_are_queued_compressed_and_known_by_what_they_hold(compression: str, compress: Any) -> None:
    record = b"hello " * 100

    admitted = codec().admit(packet(compress(record), compression))

    assert admitted.stored == compress(record) if compression != "GZIP" else len(admitted.stored) < len(record)
    assert admitted.compression is Compression[compression]
    assert inflate(admitted.stored, admitted.compression, LIMIT) == record
    assert admitted.digest == fingerprint(record)


def test_encrypted_packets_are_queued_decrypted() -> None:
    counter = iter(range(256))
    encoder = PacketEncoder(Compression.GZIP, KEY, lambda count: bytes([next(counter)]) * count)
    one, two = encoder.seal(b"hello"), encoder.seal(b"hello")

    assert one != two
    assert codec(KEY).admit(one).digest == codec(KEY).admit(two).digest == fingerprint(b"hello")
    assert inflate(codec(KEY).admit(one).stored, Compression.GZIP, LIMIT) == b"hello"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"not json",
        b"[]",
        packet(b"", version=2),
        packet(b"\xff"),
        packet(gzip.compress(b"x", mtime=0)[:-1], "GZIP"),
        packet(gzip.compress(b"x", mtime=0) + b"\0", "GZIP"),
        packet(b"", "GZIP"),
        packet(gzip.compress(b"\xff", mtime=0), "GZIP"),
        packet(deflate(b"x"), "ZLIB"),
        packet(b"x", "SNAPPY"),
    ],
)
def test_packets_that_cannot_be_decoded(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        codec().admit(payload)


def test_packets_that_cannot_be_decrypted() -> None:
    encrypted = packet(b"x" * 20, encryption="AES_GCM", iv=base64.b64encode(bytes(12)).decode())

    for source in (codec(), codec(KEY)):
        with pytest.raises(DecryptError):
            source.admit(encrypted)
    with pytest.raises(DecryptError):
        codec(KEY, require=True).admit(packet(b"plain"))
    assert codec(KEY).admit(packet(b"plain")).stored == b"plain"


def test_the_envelope_is_checked_before_the_encryption_and_the_stream_after_it() -> None:
    no_iv = packet(b"not gzip", "GZIP", encryption="AES_GCM")

    with pytest.raises(DecryptError):
        codec().admit(no_iv)
    with pytest.raises(DecodeError):
        codec().admit(no_iv.replace(b'"version": 1', b'"version": 3'))


@pytest.mark.parametrize(
    ("compression", "compress"), [("GZIP", gzip.compress), ("ZLIB", zlib.compress), ("DEFLATE", deflate)]
)
def test_a_decompression_bomb_is_refused_without_being_inflated(compression: str, compress: Any) -> None:
    bomb = packet(compress(bytes(64 << 20)), compression)
    source = codec(limit=8 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            source.admit(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < (8 << 20) + (4 << 20)


def test_a_bomb_in_a_bomb_is_only_what_its_outer_stream_holds() -> None:
    """The inner stream is the record: it is small, but it is not text."""
    inner = gzip.compress(bytes(64 << 20))

    with pytest.raises(DecodeError):
        codec().admit(packet(gzip.compress(inner), "GZIP"))


def test_the_bound_is_exact() -> None:
    assert codec(limit=1000).admit(packet(gzip.compress(b"x" * 1000), "GZIP")).compression is Compression.GZIP
    with pytest.raises(DecodeError):
        codec(limit=1000).admit(packet(gzip.compress(b"x" * 1001), "GZIP"))


def test_an_iv_is_reused_when_another_batch_or_another_payload_had_it() -> None:
    ivs = IvMemory()
    assert not ivs.is_reused(b"iv-1", 1, b"a")
    assert not ivs.is_reused(b"iv-1", 1, b"a"), "the same batch again"
    assert not ivs.is_reused(b"iv-2", 2, b"a")
    assert ivs.is_reused(b"iv-1", 2, b"a")
    assert ivs.is_reused(b"iv-2", 2, b"b")


def test_only_the_first_and_the_newest_ivs_are_remembered() -> None:
    """A counter that starts again is the usual mistake, however many packets lie between."""
    ivs = IvMemory()
    for n in range(FIRST_IVS_REMEMBERED + IVS_REMEMBERED + 1):
        assert not ivs.is_reused(b"%012d" % n, n, b"")
    assert ivs.is_reused(b"%012d" % 0, 9, b"")
    assert not ivs.is_reused(b"%012d" % FIRST_IVS_REMEMBERED, 9, b"")
    assert ivs.is_reused(b"%012d" % (FIRST_IVS_REMEMBERED + 2), 9, b"")


def test_an_iv_of_another_key_is_another_one() -> None:
    first, second = bytes(range(32)), bytes(reversed(range(32)))
    codec = PacketCodec(PacketDecoder([PacketKey(first), PacketKey(second)], True, 1000))
    ivs = IvMemory()
    for key in (first, second):
        admitted = codec.admit(PacketEncoder(Compression.NONE, key, lambda size: bytes(size)).seal(b"x"))
        assert admitted.iv is not None
        assert not ivs.is_reused(admitted.iv, 1, admitted.digest)
    assert ivs.is_reused(admitted.iv, 2, admitted.digest)
