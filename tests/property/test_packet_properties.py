"""Packets under arbitrary input: only the two packet errors, and what is sealed opens."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError, DecryptError, PacketError
from edgesocket.packet.codec import PacketDecoder, PacketEncoder
from edgesocket.packet.compression import deflate, inflate, prove
from edgesocket.packet.envelope import decode_base64

KEY = bytes(range(32))
DECODERS = [PacketDecoder(None, False, 4096), PacketDecoder(KEY, False, 4096), PacketDecoder(KEY, True, 4096)]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
base64_text = st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode())
names = st.sampled_from(["NONE", "gzip", "ZLIB", "Deflate", "AES_GCM", "aes_gcm", "", None, "SNAPPY"])
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(1) | json_values,
        "payload": base64_text | json_values,
        "compression": names | json_values,
        "encryption": names | json_values,
        "iv": base64_text | st.just(base64.b64encode(bytes(12)).decode()) | json_values,
        "extra": json_values,
    },
)


def only_packet_errors(payload: bytes) -> None:
    for decoder in DECODERS:
        try:
            opened = decoder.open(payload)
        except (DecodeError, DecryptError) as refusal:
            assert refusal.reply in {"DECODE_FAILED", "DECRYPT_FAILED"}
            assert refusal.__cause__ is None
        else:
            # Accepted means readable later, within the bound.
            inflate(opened.compressed_bytes, opened.compression, 4096).decode()


@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_nothing_but_packet_errors(payload: bytes) -> None:
    only_packet_errors(payload)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text drawn loads the Unicode tables
@given(envelopes)
def test_arbitrary_envelopes_raise_nothing_but_packet_errors(fields: dict[str, Any]) -> None:
    only_packet_errors(json.dumps(fields).encode())


@given(st.binary(max_size=200), st.sampled_from(list(Compression)), st.booleans())
def test_arbitrary_compressed_bytes_raise_nothing_but_packet_errors(
    data: bytes, compression: Compression, encrypted: bool
) -> None:
    sealed = PacketEncoder(Compression.NONE, KEY if encrypted else None, bytes).seal(data)
    only_packet_errors(sealed.replace(b'"compression":"NONE"', b'"compression":"%b"' % compression.name.encode()))


@given(
    st.text(max_size=2000),
    st.sampled_from(list(Compression)),
    st.none() | st.just(KEY),
    st.binary(min_size=12, max_size=12),
)
def test_what_is_sealed_opens_to_the_same_bytes(
    text: str, compression: Compression, key: bytes | None, iv: bytes
) -> None:
    record = text.encode("utf-8", "replace")
    opened = PacketDecoder(KEY, key is not None, 10_000).open(
        PacketEncoder(compression, key, lambda _: iv).seal(record)
    )
    assert inflate(opened.compressed_bytes, opened.compression, 10_000) == record


@given(st.binary(max_size=300), st.data())
def test_a_sealed_packet_with_one_bit_changed_never_opens_to_another_text(record: bytes, data: st.DataObject) -> None:
    """AES-GCM: a change is refused, or was in a part that does not matter (such as a letter's case)."""
    sealed = bytearray(PacketEncoder(Compression.NONE, KEY, bytes).seal(record))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    decoder = PacketDecoder(KEY, True, 10_000, check_utf8=False)
    try:
        opened = decoder.open(bytes(sealed))
    except PacketError:
        return
    assert opened.compressed_bytes == record


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=4), st.integers(0, 500))
def test_gzip_members_and_the_bound_agree_with_the_standard_library(members: list[bytes], limit: int) -> None:
    stream = b"".join(gzip.compress(member, mtime=0) for member in members)
    whole = gzip.decompress(stream)
    try:
        assert inflate(stream, Compression.GZIP, limit) == whole
    except DecodeError:
        assert len(whole) > limit
    else:
        assert len(whole) <= limit


@given(st.binary(max_size=120), st.sampled_from([Compression.ZLIB, Compression.DEFLATE]))
def test_arbitrary_streams_are_accepted_only_as_zlib_accepts_them_whole(data: bytes, compression: Compression) -> None:
    reader = zlib.decompressobj(15 if compression is Compression.ZLIB else -15)
    try:
        expected: bytes | None = reader.decompress(data)
        if not reader.eof or reader.unused_data:
            expected = None
    except zlib.error:
        expected = None
    try:
        actual: bytes | None = inflate(data, compression, 1 << 20)
    except DecodeError:
        actual = None
    assert actual == expected


@settings(max_examples=50)
@given(st.binary(max_size=200_000), st.sampled_from(list(Compression)))
def test_proving_and_inflating_agree(record: bytes, compression: Compression) -> None:
    data = deflate(record, compression)
    pieces: list[bytes] = []
    assert prove(data, compression, 200_000, check_utf8=False, on_piece=pieces.append) == len(record)
    assert b"".join(pieces) == inflate(data, compression, 200_000) == record
    try:
        prove(data, compression, 200_000)
    except DecodeError:
        readable = False
    else:
        readable = True
    try:
        record.decode()
    except UnicodeDecodeError:
        assert not readable
    else:
        assert readable


@given(st.text(alphabet="ABab01+/=-_ \n", max_size=12))
def test_base64_is_accepted_in_one_spelling_only(text: str) -> None:
    try:
        data = decode_base64(text, "x")
    except DecodeError:
        return
    assert base64.b64encode(data).decode() == text
