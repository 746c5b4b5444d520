"""Packets opened and sealed: every form of envelope, key and iv, and which reply each earns."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from edgesocket.compression import Compression
from edgesocket.errors import ComponentError, DecodeError, DecryptError, PacketError
from edgesocket.packet.cipher import PacketCipher, parse_secret_key
from edgesocket.packet.codec import PacketDecoder, PacketEncoder
from edgesocket.packet.compression import inflate

KEY = bytes(range(32))
KEY_BASE64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
LIMIT = 64 * 1024 * 1024
IV = "ZGVmZ2hpamtsbW5v"
HELLO: dict[str, Any] = {
    "version": 1,
    "payload": "IH6yChbJcuCzKlH6qT4Awt77OvFF",
    "compression": "NONE",
    "encryption": "AES_GCM",
    "iv": IV,
}
GZIP_PAYLOAD = "V5DWZnnpVp48nfS+8Egk0MgNSls5XiQj7fznhdDyFxq+wRMSHTiyUk/BTAi9wpDPqFLotg1KQSiPpbqh9yR+RWwb8/8GpzXb"

WITH_KEY = PacketDecoder(KEY, False, LIMIT)
WITHOUT_KEY = PacketDecoder(None, False, LIMIT)


def packet(**changes: Any) -> bytes:
    return json.dumps({**HELLO, **changes}).encode()


def text_of(decoder: PacketDecoder, payload: bytes) -> str:
    opened = decoder.open(payload)
    record = inflate(opened.compressed_bytes, opened.compression, LIMIT)
    assert opened.record == record
    return record.decode()


def reply_to(decoder: PacketDecoder, payload: bytes) -> str:
    try:
        decoder.open(payload)
    except PacketError as refusal:
        return refusal.reply
    return "RECEIVED"


def test_the_good_packet_opens() -> None:
    assert text_of(WITH_KEY, packet()) == "hello"


def test_gzip_inside_aes_opens_and_stays_compressed() -> None:
    opened = WITH_KEY.open(packet(compression="GZIP", payload=GZIP_PAYLOAD))
    assert opened.compression is Compression.GZIP
    assert opened.compressed_bytes[:2] == b"\x1f\x8b"
    assert opened.iv == b"defghijklmno"
    record = inflate(opened.compressed_bytes, opened.compression, LIMIT)
    assert record == b'{"user_id":7,"event":"pv","ts":1700000000000}'


def test_the_same_iv_twice_is_opened_twice() -> None:
    assert text_of(WITH_KEY, packet()) == text_of(WITH_KEY, packet()) == "hello"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"payload": "IH6yChbJcuCzKlH6qT4Awt77OvFE"}, "last byte of the tag flipped"),
        ({"payload": "EBFcrwdWLm/vbTp97ZdYKiFZ7Vun"}, "made with another key"),
        ({"iv": ""}, "iv of 0 bytes"),
        ({"iv": "AAAAAAAAAAA="}, "iv of 8 bytes"),
        ({"iv": "AAAAAAAAAAAAAAA=", "payload": "pqZcvaHx31iqNLAT79ySx6MH8KiV"}, "right for an iv of 11 bytes"),
        ({"iv": "AAAAAAAAAAAAAAAAAA=="}, "iv of 13 bytes"),
        ({"iv": "AAAAAAAAAAAAAAAAAAAAAA==", "payload": "oNs0VtowK5l+sbLEGYdbhfqQRi0c"}, "right for an iv of 16 bytes"),
        ({"iv": None}, "iv null"),
        ({"payload": ""}, "no tag at all"),
        ({"payload": "AAAAAAAAAAAAAAAAAAAA"}, "15 bytes"),
        ({"payload": "AAAAAAAAAAAAAAAAAAAAAA=="}, "16 bytes that are not the tag"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_decrypted_is_decrypt_failed(changes: dict[str, Any], why: str) -> None:
    assert reply_to(WITH_KEY, packet(**changes)) == "DECRYPT_FAILED", why


def test_a_missing_iv_is_decrypt_failed() -> None:
    fields = {name: value for name, value in HELLO.items() if name != "iv"}
    assert reply_to(WITH_KEY, json.dumps(fields).encode()) == "DECRYPT_FAILED"


def test_a_payload_of_exactly_its_tag_is_an_empty_record() -> None:
    sealed = PacketEncoder(Compression.NONE, KEY, bytes).seal(b"")
    assert text_of(WITH_KEY, sealed) == ""


def test_an_encrypted_packet_without_a_key_here_is_decrypt_failed() -> None:
    assert reply_to(WITHOUT_KEY, packet()) == "DECRYPT_FAILED"


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": "aGVs\nbG8="},
        {"iv": "ZGVmZ2hpamtsbW5"},
        {"iv": 12},
        {"version": 2},
        {"compression": "SNAPPY"},
        {"encryption": "AES"},
        {"payload": None},
    ],
)
def test_envelope_errors_come_before_decryption(changes: dict[str, Any]) -> None:
    """The reply is DECODE_FAILED also where the key is missing or encryption is required."""
    for decoder in (WITH_KEY, WITHOUT_KEY, PacketDecoder(KEY, True, LIMIT)):
        assert reply_to(decoder, packet(**changes)) == "DECODE_FAILED"


@pytest.mark.parametrize("encryption", ["NONE", "none", None, "", " "])
def test_a_plain_packet_is_accepted_although_there_is_a_key(encryption: str | None) -> None:
    plain = packet(payload="aGVsbG8=", encryption=encryption, iv=None)
    assert text_of(WITH_KEY, plain) == "hello"
    assert WITH_KEY.open(plain).iv is None


def test_a_plain_packet_is_decrypt_failed_where_encryption_is_required() -> None:
    strict = PacketDecoder(KEY, True, LIMIT)
    assert reply_to(strict, packet(payload="aGVsbG8=", encryption="NONE")) == "DECRYPT_FAILED"
    assert reply_to(strict, packet(payload="!!", encryption="NONE")) == "DECODE_FAILED"
    assert text_of(strict, packet()) == "hello"


def test_an_empty_payload_is_an_empty_record() -> None:
    assert text_of(WITHOUT_KEY, b'{"version":1,"payload":""}') == ""


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB", "DEFLATE"])
def test_an_empty_compressed_payload_is_decode_failed(compression: str) -> None:
    assert reply_to(WITHOUT_KEY, packet(payload="", encryption=None, compression=compression)) == "DECODE_FAILED"


def test_what_was_decrypted_must_inflate() -> None:
    """RECEIVED always means decodable."""
    assert reply_to(WITH_KEY, packet(compression="GZIP")) == "DECODE_FAILED"


def test_what_was_inflated_must_be_utf8() -> None:
    for compression in Compression:
        sealed = PacketEncoder(compression, KEY, bytes).seal(b"\xff\xfe")
        assert reply_to(WITH_KEY, sealed) == "DECODE_FAILED"
        assert reply_to(PacketDecoder(KEY, False, LIMIT, check_utf8=False), sealed) == "RECEIVED"


@pytest.mark.parametrize("compression", list(Compression))
def test_the_bound_holds_inside_encryption(compression: Compression) -> None:
    sealed = PacketEncoder(compression, KEY, bytes).seal(b"x" * 101)
    assert reply_to(PacketDecoder(KEY, False, 101), sealed) == "RECEIVED"
    assert reply_to(PacketDecoder(KEY, False, 100), sealed) == "DECODE_FAILED"


def test_the_record_is_shown_piece_by_piece_while_it_is_proven() -> None:
    record = "é".encode() * 200_000
    pieces: list[bytes] = []
    WITH_KEY.open(PacketEncoder(Compression.GZIP, KEY, bytes).seal(record), pieces.append)
    assert len(pieces) > 1
    assert b"".join(pieces) == record


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("record", [b"", b"hello", "温度 😀".encode() * 1000])
def test_what_is_sealed_opens(compression: Compression, key: bytes | None, record: bytes) -> None:
    sealed = PacketEncoder(compression, key, bytes).seal(record)
    assert b"\n" not in sealed
    assert text_of(WITH_KEY, sealed) == record.decode()


def test_every_record_gets_an_iv_of_its_own() -> None:
    ivs = iter([b"a" * 12, b"b" * 12])
    encoder = PacketEncoder(Compression.NONE, KEY, lambda size: next(ivs)[:size])
    assert WITH_KEY.open(encoder.seal(b"x")).iv == b"a" * 12
    assert WITH_KEY.open(encoder.seal(b"x")).iv == b"b" * 12


def test_encryption_needs_random_bytes() -> None:
    with pytest.raises(ValueError, match="random"):
        PacketEncoder(Compression.NONE, KEY)


def test_the_cipher_refuses_other_lengths() -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        PacketCipher(KEY[:31])
    with pytest.raises(ValueError, match="16 bytes"):
        PacketDecoder(KEY[:16], False, LIMIT)
    with pytest.raises(ValueError, match="iv has 11"):
        PacketCipher(KEY).encrypt(b"x", bytes(11))


def test_a_configured_key_is_read() -> None:
    assert parse_secret_key(KEY_BASE64) == KEY
    assert parse_secret_key(f"  {KEY_BASE64}\n") == KEY


@pytest.mark.parametrize(
    "text", ["", "secret!", KEY_BASE64[:-1], KEY_BASE64[:-2] + "9=", "AAECAwQFBgcICQoLDA0ODw==", KEY_BASE64 * 2]
)
def test_a_key_that_is_none_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match="secret key") as caught:
        parse_secret_key(text)
    assert not text or text not in str(caught.value)
    assert caught.value.__context__ is None


def test_neither_key_nor_text_is_in_an_error() -> None:
    secret = b"the quick brown fox"
    sealed = PacketEncoder(Compression.GZIP, KEY, bytes).seal(secret + b"\xff")
    with pytest.raises(DecodeError) as decode:
        WITH_KEY.open(sealed)
    with pytest.raises(DecryptError) as decrypt:
        PacketDecoder(b"k" * 32, False, LIMIT).open(sealed)
    for error in (decode.value, decrypt.value):
        assert error.__context__ is None
        assert "quick" not in str(error)
        assert "kkkk" not in str(error)
    assert "quick" not in repr(WITH_KEY.open(PacketEncoder().seal(secret)))


def test_without_cryptography_plain_packets_work_and_encryption_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real_import = builtins.__import__

    def no_cryptography(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_cryptography)
    assert text_of(PacketDecoder(None, False, LIMIT), PacketEncoder(Compression.GZIP).seal(b"hello")) == "hello"
    assert reply_to(PacketDecoder(None, False, LIMIT), packet()) == "DECRYPT_FAILED"
    with pytest.raises(ComponentError, match=r"edgesocket\[crypto\]") as caught:
        PacketDecoder(KEY, False, LIMIT)
    assert not caught.value.retryable


def java_texts() -> list[str]:
    """What JavaCollector.java sealed, line by line."""
    greeting = "Grüße aus Köln — 温度 21.5 °C 😀"
    many = "".join(f'{{"sensor":{n % 7},"value":{n}}}' for n in range(1000))
    return ["hello", "", greeting, many, many, greeting, greeting, many]


FIXTURES = Path(__file__).parents[2] / "fixtures" / "packet"


def test_packets_of_the_jdk_open() -> None:
    """The reference's Java collector example, run on a real JDK, with every compression and non-ASCII text."""
    lines = (FIXTURES / "java_packets.jsonl").read_bytes().splitlines()
    decoder = PacketDecoder(parse_secret_key(KEY_BASE64), False, LIMIT)
    assert [text_of(decoder, line) for line in lines] == java_texts()
    assert [json.loads(line)["compression"] for line in lines] == [
        "NONE", "NONE", "NONE", "GZIP", "ZLIB", "DEFLATE", "NONE", "GZIP",
    ]  # fmt: skip
    strict = PacketDecoder(KEY, True, LIMIT)
    assert [reply_to(strict, line) for line in lines] == ["RECEIVED"] * 6 + ["DECRYPT_FAILED"] * 2
