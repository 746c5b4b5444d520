"""Several keys at a time: which one opens a packet."""

from __future__ import annotations

import base64
import json

import pytest

from edgesocket.compression import Compression
from edgesocket.errors import DecryptError
from edgesocket.packet.codec import PacketDecoder, PacketEncoder
from edgesocket.packet.envelope import parse_envelope
from edgesocket.packet.keys import MAX_KEYS, PacketKey, parse_key, parse_key_file, parse_keys

OLD, NEW, OTHER = (bytes([n]) * 32 for n in (1, 2, 3))


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


def sealed(key: bytes, key_id: str | None = None, iv: bytes = b"i" * 12) -> bytes:
    return PacketEncoder(Compression.GZIP, key, lambda _: iv, key_id).seal(b"hello")


def decoder(*keys: PacketKey) -> PacketDecoder:
    return PacketDecoder(keys, True, 1000)


class TestWrittenDown:
    def test_a_key_with_and_without_an_id(self) -> None:
        assert parse_key(text(OLD)) == PacketKey(OLD)
        assert parse_key(f"2026-11:{text(OLD)}\n") == PacketKey(OLD, "2026-11")

    def test_the_key_is_in_no_repr(self) -> None:
        assert repr(PacketKey(OLD, "a")) == "PacketKey(id='a')"

    @pytest.mark.parametrize("key_id", ["", "a b", "a/b", "x" * 65, "ü"])
    def test_an_id_that_is_none(self, key_id: str) -> None:
        with pytest.raises(ValueError, match="the id of a key has 1 to 64") as error:
            parse_key(f"{key_id}:{text(OLD)}")
        assert text(OLD)[:8] not in str(error.value)

    def test_two_keys_with_one_id_are_refused(self) -> None:
        with pytest.raises(ValueError, match="two keys have the same id"):
            parse_keys([f"a:{text(OLD)}", f"a:{text(NEW)}"])

    def test_too_many_keys_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at most 16"):
            parse_keys([text(bytes([n]) * 32) for n in range(MAX_KEYS + 1)])

    def test_a_file_has_comments_and_blank_lines(self) -> None:
        data = f"# keys of the plant\r\n\r\nnew:{text(NEW)}\r\n  {text(OLD)}  \n".encode()

        assert parse_key_file(data) == (PacketKey(NEW, "new"), PacketKey(OLD))

    @pytest.mark.parametrize("data", [b"", b"# nothing\n", b"\xff\xfe", b"key\n"])
    def test_a_file_without_a_key_is_refused(self, data: bytes) -> None:
        with pytest.raises(ValueError):
            parse_key_file(data)


class TestWhichKey:
    def test_without_an_id_whichever_fits(self) -> None:
        opener = decoder(PacketKey(NEW, "new"), PacketKey(OLD, "old"), PacketKey(OTHER))

        for key in (OLD, NEW, OTHER, OLD):
            assert opener.open(sealed(key)).record == b"hello"

    def test_a_known_id_means_that_key_alone(self) -> None:
        opener = decoder(PacketKey(NEW, "new"), PacketKey(OLD, "old"))

        assert opener.open(sealed(OLD, "old")).record == b"hello"
        with pytest.raises(DecryptError, match="the tag does not fit"):
            opener.open(sealed(OLD, "new"))

    def test_an_unknown_id_means_the_keys_that_have_none(self) -> None:
        """So a collector may name its key although the source has one plain `secret_key`."""
        assert decoder(PacketKey(OLD)).open(sealed(OLD, "2026-11")).record == b"hello"
        with pytest.raises(DecryptError, match="names a key that is not here"):
            decoder(PacketKey(OLD, "old")).open(sealed(OLD, "2026-11"))

    def test_no_key_fits(self) -> None:
        with pytest.raises(DecryptError, match="the tag does not fit"):
            decoder(PacketKey(NEW), PacketKey(OLD)).open(sealed(OTHER))

    def test_keys_can_be_changed_while_it_works(self) -> None:
        opener = decoder(PacketKey(OLD))
        opener.use_keys([PacketKey(NEW)])

        assert opener.open(sealed(NEW)).record == b"hello"
        with pytest.raises(DecryptError):
            opener.open(sealed(OLD))

    def test_a_packet_says_which_key_it_was(self) -> None:
        opener = decoder(PacketKey(NEW), PacketKey(OLD))
        marks = [opener.open(sealed(key)).key_mark for key in (OLD, NEW, OLD)]

        assert marks[0] == marks[2] != marks[1]


class TestEnvelope:
    def test_the_id_is_behind_the_iv_and_readers_of_other_fields_find_theirs(self) -> None:
        fields = json.loads(sealed(OLD, "2026-11"))

        assert list(fields) == ["version", "payload", "compression", "encryption", "iv", "key_id"]
        assert fields["key_id"] == "2026-11"
        assert "key_id" not in json.loads(sealed(OLD))

    @pytest.mark.parametrize("value", ["5", "null", '""', "[]", "{}"])
    def test_an_id_that_is_no_text_is_ignored(self, value: str) -> None:
        line = sealed(OLD)[:-1] + f',"key_id":{value}}}'.encode()

        assert parse_envelope(line).key_id is None

    def test_both_readers_of_an_envelope_find_the_same_id(self) -> None:
        usual = sealed(OLD, "2026-11")
        fields = json.loads(usual)
        unusual = json.dumps(dict(reversed(fields.items()))).encode()

        assert parse_envelope(usual) == parse_envelope(unusual)
        assert parse_envelope(usual).key_id == "2026-11"

    def test_a_plain_packet_has_no_key(self) -> None:
        line = b'{"version":1,"payload":"","compression":"NONE","encryption":"NONE","key_id":"a"}'

        assert parse_envelope(line).key_id is None
