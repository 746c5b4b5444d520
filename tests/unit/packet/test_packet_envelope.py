"""The envelope: what is one, what is not, and that a hostile one costs little."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.packet.envelope import (
    MAX_DEPTH,
    MAX_VALUES,
    Encryption,
    Envelope,
    build_envelope,
    decode_base64,
    parse_envelope,
)

GOOD: dict[str, Any] = {"version": 1, "payload": "aGVsbG8="}


def line(**fields: Any) -> bytes:
    """The good envelope with these fields put in its place."""
    return json.dumps({**GOOD, **fields}).encode()


def without(key: str) -> bytes:
    return json.dumps({name: value for name, value in GOOD.items() if name != key}).encode()


def test_a_whole_envelope() -> None:
    envelope = parse_envelope(
        b'{"version":1,"payload":"aGVsbG8=","compression":"GZIP","encryption":"AES_GCM","iv":"ZGVmZ2hpamtsbW5v"}'
    )
    assert envelope == Envelope(b"hello", Compression.GZIP, Encryption.AES_GCM, b"defghijklmno")


@pytest.mark.parametrize("text", [b"", b"   ", b"hello", b"{", b'{"version":1', b"'x'", b"[1]", b"7", b"null", b'"x"'])
def test_what_is_not_a_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError, match="not a JSON object"):
        parse_envelope(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"version":1,"payload":"aGVsbG8="} x',
        b'{"version":1,"payload":"aGVsbG8="}{"version":1}',
        b'{"version":1,"payload":"aGVsbG8=",}',
        b'{"version":1,"payload":"aGVs\nbG8="}',
        b'{"version":1,"payload":"aGVsbG8=","x":NaN}',
        b'{"version":1,"payload":"aGVsbG8=","x":-Infinity}',
        b'{"version":01,"payload":"aGVsbG8="}',
        b'\xef\xbb\xbf{"version":1,"payload":"aGVsbG8="}',
        b'{"version":1,"payload":"aGVsbG8=","x":"\xff"}',
        '{"version":1,"payload":"aGVsbG8="}'.encode("utf-16"),
    ],
)
def test_almost_json_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_envelope(text)


@pytest.mark.parametrize("version", ["1.0", "1e0", '"1"', "true", "2", "0", "-1", "null", "[1]", "9" * 5000])
def test_the_version_is_the_integer_1_and_nothing_else(version: str) -> None:
    with pytest.raises(DecodeError, match="version"):
        parse_envelope(b'{"version":%b,"payload":"aGVsbG8="}' % version.encode())


def test_a_missing_version_is_refused() -> None:
    with pytest.raises(DecodeError, match="version"):
        parse_envelope(without("version"))


@pytest.mark.parametrize("name", ["gzip", "GZIP", "GzIp"])
def test_names_are_taken_in_any_letter_case(name: str) -> None:
    assert parse_envelope(line(compression=name)).compression is Compression.GZIP


@pytest.mark.parametrize("name", ["aes_gcm", "AES_GCM", "Aes_Gcm"])
def test_encryption_names_are_taken_in_any_letter_case(name: str) -> None:
    assert parse_envelope(line(encryption=name)).encryption is Encryption.AES_GCM


@pytest.mark.parametrize("blank", [None, "", "  ", "\t\n", "NONE", "none"])
@pytest.mark.parametrize("key", ["compression", "encryption"])
def test_null_and_blank_names_mean_none(key: str, blank: str | None) -> None:
    envelope = parse_envelope(line(**{key: blank}))
    assert envelope == parse_envelope(line())
    assert (envelope.compression, envelope.encryption) == (Compression.NONE, Encryption.NONE)


@pytest.mark.parametrize(
    "name", ["SNAPPY", "GZIP ", " GZIP", "gzıp", "GZIP\0", 1, 0, 1.5, True, ["GZIP"], {"a": "GZIP"}]
)
def test_an_unknown_compression_is_refused(name: object) -> None:
    with pytest.raises(DecodeError, match="compression"):
        parse_envelope(line(compression=name))


@pytest.mark.parametrize("name", ["AES", "AES-GCM", "AES_CBC", 1, False])
def test_an_unknown_encryption_is_refused(name: object) -> None:
    with pytest.raises(DecodeError, match="encryption"):
        parse_envelope(line(encryption=name))


@pytest.mark.parametrize("payload", [None, 1, 1.5, True, [], {}])
def test_the_payload_is_a_string(payload: object) -> None:
    with pytest.raises(DecodeError, match="payload"):
        parse_envelope(line(payload=payload))


def test_a_missing_payload_is_refused() -> None:
    with pytest.raises(DecodeError, match="payload"):
        parse_envelope(without("payload"))


def test_an_empty_payload_is_empty_bytes() -> None:
    assert parse_envelope(line(payload="")).payload == b""


def test_keys_are_matched_exactly() -> None:
    with pytest.raises(DecodeError, match="payload"):
        parse_envelope(b'{"version":1,"Payload":"aGVsbG8="}')


def test_extra_keys_are_ignored() -> None:
    extra = {"x": {"y": [1, 2.5, None, "[{,"]}, "": "", "host": "edge-7", "n": 10**40}
    assert parse_envelope(line(**extra)) == parse_envelope(line())


def test_of_a_repeated_key_the_last_counts() -> None:
    doubled = (
        b'{"version":2,"payload":"!","compression":"SNAPPY","version":1,"payload":"aGVsbG8=","compression":"ZLIB"}'
    )
    assert parse_envelope(doubled) == Envelope(b"hello", Compression.ZLIB)
    with pytest.raises(DecodeError, match="version"):
        parse_envelope(b'{"version":1,"payload":"aGVsbG8=","version":2}')


@pytest.mark.parametrize(
    "text",
    [
        "aGVs\nbG8=",
        "aGV sbG8=",
        "_-_-",
        "aGVsbG8",
        "aGVs=bG8=",
        "aGVsbG8=aGVsbG8=",
        "aGVsbG9=",
        "aGVsbG8==",
        "=",
        "====",
        "a",
        "a===",
        "aGVsbG8=\n",
        " aGVsbG8=",
        "aGVsbG8=é",
        "aGVsbG8=\ud800",
        "aGVsbG８=",
    ],
)
def test_base64_has_one_spelling(text: str) -> None:
    with pytest.raises(DecodeError, match="payload is not strict base64"):
        parse_envelope(line(payload=text))
    with pytest.raises(DecodeError, match="iv is not strict base64"):
        parse_envelope(line(encryption="AES_GCM", iv=text))


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", bytes(range(256))])
def test_right_base64_is_decoded(data: bytes) -> None:
    import base64

    assert decode_base64(base64.b64encode(data).decode(), "x") == data


@pytest.mark.parametrize("iv", [None, 5, [], "!!"])
def test_without_encryption_the_iv_is_not_looked_at(iv: object) -> None:
    assert parse_envelope(line(iv=iv)).iv is None


@pytest.mark.parametrize("iv", [5, [], {}, True, 1.5])
def test_with_encryption_the_iv_is_a_string(iv: object) -> None:
    with pytest.raises(DecodeError, match="iv is not a string"):
        parse_envelope(line(encryption="AES_GCM", iv=iv))


@pytest.mark.parametrize("fields", [{}, {"iv": None}])
def test_a_missing_iv_is_left_for_decryption_to_refuse(fields: dict[str, Any]) -> None:
    assert parse_envelope(line(encryption="AES_GCM", **fields)).iv is None


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("depth", [200, 100_000])
def test_deep_nesting_is_refused_and_does_not_crash(pair: tuple[str, str], depth: int) -> None:
    nested = pair[0] * depth + "1" + pair[1] * depth
    with pytest.raises(DecodeError, match=r"nests too deep|too many values"):
        parse_envelope(b'{"version":1,"payload":"","x":%b}' % nested.encode())


def test_nesting_up_to_the_limit_is_read() -> None:
    inner = MAX_DEPTH - 1  # the envelope itself is one
    at_limit = b'{"version":1,"payload":"","x":%b%b}' % (b"[" * inner, b"]" * inner)
    assert parse_envelope(at_limit).payload == b""
    with pytest.raises(DecodeError, match="nests too deep"):
        parse_envelope(b'{"version":1,"payload":"","x":%b%b}' % (b"[" * (inner + 1), b"]" * (inner + 1)))


def test_unclosed_nesting_is_refused() -> None:
    with pytest.raises(DecodeError):
        parse_envelope(b"[" * 1_000_000)


def test_brackets_and_commas_inside_strings_do_not_count() -> None:
    text = '[{,\\"\\\\' * MAX_VALUES
    assert parse_envelope(b'{"version":1,"payload":"","x":"%b"}' % text.encode()).payload == b""


def test_values_are_counted_up_to_the_limit() -> None:
    room = MAX_VALUES - 4  # two commas and a bracket of the envelope, one bracket of the array
    flat = b"1," * room + b"1"
    assert parse_envelope(b'{"version":1,"payload":"","x":[%b]}' % flat).payload == b""
    with pytest.raises(DecodeError, match="too many values"):
        parse_envelope(b'{"version":1,"payload":"","x":[%b,1]}' % flat)


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'"a",', b"1.5,", b'"" ', b'"\\"",', b"99999999999999999999,"])
def test_a_line_full_of_small_values_does_not_become_a_heap_of_objects(unit: bytes) -> None:
    """3 bytes of JSON can be a 64-byte object: the line is refused before it is parsed."""
    hostile = b'{"version":1,"payload":"","x":[' + unit * (4_000_000 // len(unit)) + b"1]}"
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            parse_envelope(hostile)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(hostile)


def test_built_envelopes_have_the_reference_form() -> None:
    plain = build_envelope(Envelope(b"hello", Compression.GZIP))
    assert plain == b'{"version":1,"payload":"aGVsbG8=","compression":"GZIP","encryption":"NONE"}'
    sealed = build_envelope(Envelope(b"hello", Compression.NONE, Encryption.AES_GCM, b"defghijklmno"))
    assert sealed == (
        b'{"version":1,"payload":"aGVsbG8=","compression":"NONE","encryption":"AES_GCM","iv":"ZGVmZ2hpamtsbW5v"}'
    )


def test_payloads_are_not_part_of_a_repr() -> None:
    assert "secret" not in repr(Envelope(b"secret"))


@pytest.mark.parametrize(
    "text",
    [
        b'{"version":1,"payload":"top secret"}',
        b'{"top secret',
        b'{"version":1,"payload":"","compression":"top secret"}',
    ],
)
def test_errors_quote_nothing_and_carry_no_context(text: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        parse_envelope(text)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
