"""AES-256-GCM as packets use it: a 12-byte iv, the 16-byte tag at the end of the ciphertext, no associated data.

`cryptography` is imported when a cipher is made and nowhere else, so everything without encryption runs on the
standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesocket.errors import ComponentError, DecodeError, DecryptError
from edgesocket.packet.envelope import decode_base64

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
IV_BYTES = 12
TAG_BYTES = 16


def parse_secret_key(text: str) -> bytes:
    """Read a secret key as configured: strict base64 of 32 bytes (`openssl rand -base64 32`).

    Args:
        text: the base64; blanks and line ends around it are dropped.

    Raises:
        ValueError: it is no such key. The text says what is wrong and never quotes the key.
    """
    try:
        key = decode_base64(text.strip(), "the key")
    except DecodeError:
        key = None
    if key is None:
        raise ValueError("the secret key is not base64 (make one with: openssl rand -base64 32)")
    if len(key) != KEY_BYTES:
        raise ValueError(f"the secret key has {len(key)} bytes, it must have {KEY_BYTES}")
    return key


class PacketCipher:
    """Encrypts and decrypts payloads with one key. Thread-safe. The key is in no text it gives."""

    __slots__ = ("_aes", "_invalid_tag")

    def __init__(self, key: bytes) -> None:
        """Get ready.

        Args:
            key: 32 bytes.

        Raises:
            ValueError: the key has another length.
            ComponentError: `cryptography` is not installed; no retry heals that.
        """
        if len(key) != KEY_BYTES:
            raise ValueError(f"the secret key has {len(key)} bytes, it must have {KEY_BYTES}")
        aes, self._invalid_tag = _load()
        self._aes = aes(key)

    def encrypt(self, record: bytes, iv: bytes) -> bytes:
        """Ciphertext and tag of `record`. `iv`: 12 bytes, never used twice with one key."""
        if len(iv) != IV_BYTES:
            raise ValueError(f"the iv has {len(iv)} bytes, it must have {IV_BYTES}")
        return self._aes.encrypt(iv, record, None)

    def decrypt(self, ciphertext: bytes, iv: bytes | None) -> bytes:
        """The bytes that were encrypted.

        Args:
            ciphertext: with the tag at its end.
            iv: as it came with the packet, checked here: the library would take other lengths too.

        Raises:
            DecryptError: no iv, an iv of another length, or the tag does not fit (other key or damaged bytes).
        """
        if iv is None or len(iv) != IV_BYTES:
            raise DecryptError(f"the iv has {0 if iv is None else len(iv)} bytes, it must have {IV_BYTES}")
        if len(ciphertext) < TAG_BYTES:
            raise DecryptError("the payload is too short to hold a tag")
        try:
            return self._aes.decrypt(iv, ciphertext, None)
        except self._invalid_tag:
            pass
        raise DecryptError("the tag does not fit: another key, or damaged bytes")


def _load() -> tuple[type[AESGCM], type[Exception]]:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ComponentError(
            "encrypted packets need the package 'cryptography' (pip install 'edgesocket[crypto]')", retryable=False
        ) from None
    return AESGCM, InvalidTag
