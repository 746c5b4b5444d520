"""The JSON envelope of a packet: read strictly, written in one form.

::

    {"version":1,"payload":"<base64>","compression":"NONE|GZIP|ZLIB|DEFLATE","encryption":"NONE|AES_GCM","iv":"<base64>"}

and, where several keys are in use, `"key_id":"<name of the key>"` behind them.

- `version` is the integer 1: not 1.0, "1" or true.
- base64 is the standard alphabet, padded, with zero pad bits; nothing else is skipped or forgiven, so each payload has
  exactly one spelling and bytes cannot hide between the characters.
- names are taken in any letter case; absent, null or blank means NONE. `iv` is looked at only with AES_GCM.
- `key_id` is our addition: one that is no text, or empty, is ignored like every key that is not known.
- other keys are ignored; of a repeated key the last counts.

The line is not trusted to be small or simple: a few bytes of JSON can become large Python objects, or nest deeper than
a parser can follow. An envelope needs no such things, so `MAX_VALUES` and `MAX_DEPTH` are checked before parsing.
"""

from __future__ import annotations

import binascii
import enum
import json
import re
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError

_Names = TypeVar("_Names", bound=enum.Enum)

MAX_VALUES = 10_000
"""Commas and opening brackets (outside strings) an envelope may have, keys that are ignored included."""

MAX_DEPTH = 100
"""How deep arrays and objects may nest."""

_PLAIN_SHAPE = 64
"""Envelopes with fewer structural characters than this, strings included, need no closer look."""


class Encryption(enum.Enum):
    """How a payload is encrypted."""

    NONE = "NONE"
    AES_GCM = "AES_GCM"
    """AES-256-GCM, 12-byte iv, the 16-byte tag at the end of the ciphertext."""


@dataclass(slots=True)  # made once a record: a frozen one takes four times as long
class Envelope:
    """One envelope, names resolved and base64 decoded.

    Attributes:
        payload: the bytes as sent: ciphertext, compressed bytes or the record. Not part of `repr`.
        compression: applies after decryption.
        encryption: whether `payload` is ciphertext.
        iv: the iv's bytes as sent, of any length; None where absent, null or not needed.
        key_id: name of the key it is encrypted with; None where absent or not needed.
    """

    payload: bytes = field(repr=False)
    compression: Compression = Compression.NONE
    encryption: Encryption = Encryption.NONE
    iv: bytes | None = None
    key_id: str | None = None


_USUAL = re.compile(
    rb'\{"version": ?1, ?"payload": ?"([A-Za-z0-9+/]*=?=?)", ?"compression": ?"([A-Z]+)", ?"encryption": ?"([A-Z_]+)"'
    rb'(?:, ?"iv": ?"([A-Za-z0-9+/]*=?=?)"(?:, ?"key_id": ?"([A-Za-z0-9._-]+)")?)?\}'
)
"""How nearly every collector writes an envelope. What it matches needs no JSON parser; all else gets one."""

_COMPRESSIONS = {compression.name.encode(): compression for compression in Compression}
_ENCRYPTIONS = {encryption.name.encode(): encryption for encryption in Encryption}


def parse_envelope(line: bytes) -> Envelope:
    """Read one envelope.

    Args:
        line: the payload of a batch line, without its line end.

    Raises:
        DecodeError: it is not an envelope as the module's text says. The text names the field, never a value.
    """
    usual = _USUAL.fullmatch(line)
    if usual is not None:
        payload, compression_name, encryption_name, iv, key_id = usual.groups()
        compression, encryption = _COMPRESSIONS.get(compression_name), _ENCRYPTIONS.get(encryption_name)
        if compression is not None and encryption is not None:
            needs_iv = iv is not None and encryption is Encryption.AES_GCM
            return Envelope(
                _strict_base64(payload, "payload"),
                compression,
                encryption,
                _strict_base64(iv, "iv") if needs_iv else None,
                key_id.decode("ascii") if key_id is not None and needs_iv else None,
            )
    return _parse_any(line)


def _parse_any(line: bytes) -> Envelope:
    fields = _parse_object(line)
    version = fields.get("version")
    if type(version) is not int or version != 1:
        raise DecodeError("version is not the integer 1")
    encryption = _name(fields, "encryption", Encryption)
    payload = fields.get("payload")
    if not isinstance(payload, str):
        raise DecodeError("payload is not a string")
    iv = fields.get("iv") if encryption is Encryption.AES_GCM else None
    if iv is not None and not isinstance(iv, str):
        raise DecodeError("iv is not a string")
    key_id = fields.get("key_id") if encryption is Encryption.AES_GCM else None
    return Envelope(
        payload=decode_base64(payload, "payload"),
        compression=_name(fields, "compression", Compression),
        encryption=encryption,
        iv=None if iv is None else decode_base64(iv, "iv"),
        key_id=key_id if isinstance(key_id, str) and key_id else None,
    )


def build_envelope(envelope: Envelope) -> bytes:
    """Write an envelope as one line (without a line end) that `parse_envelope` reads back."""
    payload = encode_base64(envelope.payload)
    iv = b"" if envelope.iv is None else b',"iv":"%b"' % encode_base64(envelope.iv)
    key_id = b"" if envelope.key_id is None else b',"key_id":%b' % json.dumps(envelope.key_id).encode("ascii")
    return b'{"version":1,"payload":"%b","compression":"%b","encryption":"%b"%b%b}' % (
        payload,
        envelope.compression.name.encode("ascii"),
        envelope.encryption.name.encode("ascii"),
        iv,
        key_id,
    )


def decode_base64(text: str, name: str) -> bytes:
    """Decode strict base64 (RFC 4648 section 4, padded, pad bits zero).

    Args:
        text: the characters.
        name: what they are, for the error's text.

    Raises:
        DecodeError: any other spelling. The text does not quote it.
    """
    try:
        encoded = text.encode("ascii")
    except UnicodeEncodeError:
        encoded = b"?"
    return _strict_base64(encoded, name)


def _strict_base64(encoded: bytes, name: str) -> bytes:
    try:
        decoded = a2b_base64(encoded)
    except binascii.Error:
        encoded, decoded = b"", b"?"
    # The decoder forgives foreign characters, early padding and stray bits; only the one right spelling comes back.
    if b2a_base64(decoded, newline=False) != encoded:
        raise DecodeError(f"{name} is not strict base64")
    return decoded


def encode_base64(data: bytes) -> bytes:
    """Encode as strict base64."""
    return b2a_base64(data, newline=False)


def _refuse_constant(_text: str) -> NoReturn:
    raise ValueError  # NaN and Infinity are not JSON


# Numbers matter only as "is it the integer 1", so no other number is built: 5,000 digits cost nothing.
_DECODER = json.JSONDecoder(
    parse_int=lambda text: 1 if text == "1" else 0,
    parse_float=lambda _text: 0.0,
    parse_constant=_refuse_constant,
)


def _parse_object(line: bytes) -> dict[str, Any]:
    value: object = None
    try:
        text = line.decode("utf-8")
        _check_shape(text)
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        pass
    # Raised out here: the parser's error holds the whole line, and must not travel along as context.
    if not isinstance(value, dict):
        raise DecodeError("the packet is not a JSON object")
    return value


def _check_shape(text: str) -> None:
    """Refuse an envelope that is too rich to be one, in constant memory beside copies of the text."""
    if text.count(",") + text.count("[") + text.count("{") < _PLAIN_SHAPE:
        return
    # Without escapes every quote begins or ends a string, and every other part is outside one.
    plain = text.replace("\\\\", "").replace('\\"', "")
    if plain.count('"') > 4 * MAX_VALUES:
        raise DecodeError("the packet has too many values")
    outside = "".join(plain.split('"')[::2])
    if outside.count(",") + outside.count("[") + outside.count("{") > MAX_VALUES:
        raise DecodeError("the packet has too many values")
    depth = 0
    for character in outside:
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise DecodeError("the packet nests too deep")
        elif character in "]}":
            depth -= 1


def _name(fields: dict[str, Any], key: str, names: type[_Names]) -> _Names:
    value = fields.get(key)
    if value is None or (isinstance(value, str) and not value.strip()):
        return names["NONE"]
    # ASCII only: upper() would also turn a dotless i into I.
    if isinstance(value, str) and value.isascii() and value.upper() in names.__members__:
        return names[value.upper()]
    raise DecodeError(f"{key} has an unknown name")
