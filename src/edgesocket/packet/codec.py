"""Packets opened (ingress) and sealed (collector).

Opening checks in this order, and the first failure answers: envelope and base64 (DECODE_FAILED), decryption
(DECRYPT_FAILED), then that the bytes inflate to a record of UTF-8 within the bound (DECODE_FAILED). What comes out is
still compressed: that is what waits in the queue and in checkpoints. It has been inflated once here and thrown away, so
a packet that was accepted can always be read later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgesocket.compression import Compression
from edgesocket.errors import DecryptError
from edgesocket.packet.cipher import IV_BYTES, PacketCipher
from edgesocket.packet.compression import check_utf8, deflate, inflate_small, prove
from edgesocket.packet.envelope import Encryption, Envelope, build_envelope, parse_envelope
from edgesocket.packet.keys import KeyRing, PacketKey


@dataclass(slots=True)  # made once a record: a frozen one takes four times as long
class OpenedPacket:
    """A packet that is known to hold a record.

    Attributes:
        compressed_bytes: decrypted, still compressed as `compression` says. Not part of `repr`.
        compression: how to inflate them.
        iv: the iv it was encrypted with, None for a plain packet (a collector that repeats one deserves a warning).
        key_mark: stands for the key it was encrypted with: an iv may be used again with another one.
        record: the record itself where it is small, so that nobody has to inflate it again soon. Not part of `repr`.
    """

    compressed_bytes: bytes = field(repr=False)
    compression: Compression
    iv: bytes | None = None
    record: bytes | None = field(default=None, repr=False)
    key_mark: bytes = b""


class PacketDecoder:
    """Opens packets for one source. Thread-safe; key and record texts are in no error."""

    def __init__(
        self,
        secret_key: bytes | Sequence[PacketKey] | None,
        require_encryption: bool,
        max_record_bytes: int,
        *,
        check_utf8: bool = True,
    ) -> None:
        """Get ready.

        Args:
            secret_key: 32 bytes, or several keys, the likeliest first; None where only plain packets can be read.
            require_encryption: refuse plain packets.
            max_record_bytes: the most bytes a record may inflate to.
            check_utf8: refuse records that are not UTF-8; False where the source replaces what is not.

        Raises:
            ValueError: the key does not have 32 bytes.
            ComponentError: there is a key but `cryptography` is not installed.
        """
        keys = (PacketKey(secret_key),) if isinstance(secret_key, bytes) else secret_key or ()
        self._ring = KeyRing(keys)
        self._require_encryption = require_encryption
        self._max_record_bytes = max_record_bytes
        self._check_utf8 = check_utf8

    def use_keys(self, keys: Sequence[PacketKey]) -> None:
        """From now on decrypt with these, and no others. Any thread. Raises as the constructor does."""
        self._ring = KeyRing(keys)

    def open(self, payload: bytes, on_piece: Callable[[bytes], object] | None = None) -> OpenedPacket:
        """Open one packet.

        Args:
            payload: the payload of a batch line.
            on_piece: called with the record's bytes piece by piece, such as a hash's `update`; counts only if this
                returns.

        Raises:
            DecodeError: envelope, base64, compressed stream, bound or UTF-8.
            DecryptError: no key here, no 12-byte iv, a tag that does not fit, or a plain packet where encryption is
                required.

        Guarantees: memory is a few times the line, never in proportion to what the packet inflates to.
        """
        envelope = parse_envelope(payload)
        compressed, key_mark = self._decrypt(envelope)
        record = inflate_small(compressed, envelope.compression, self._max_record_bytes)
        if record is None:
            prove(
                compressed,
                envelope.compression,
                self._max_record_bytes,
                check_utf8=self._check_utf8,
                on_piece=on_piece,
            )
        else:
            if self._check_utf8:
                check_utf8(record)
            if on_piece is not None:
                on_piece(record)
        return OpenedPacket(compressed, envelope.compression, envelope.iv, record, key_mark)

    def _decrypt(self, envelope: Envelope) -> tuple[bytes, bytes]:
        if envelope.encryption is Encryption.NONE:
            if self._require_encryption:
                raise DecryptError("a plain packet where encryption is required")
            return envelope.payload, b""
        ring = self._ring
        if not ring:
            raise DecryptError("an encrypted packet, but there is no secret_key")
        return ring.decrypt(envelope.payload, envelope.iv, envelope.key_id)


class PacketEncoder:
    """Seals records for sending: compressed, then encrypted, then put in an envelope."""

    def __init__(
        self,
        compression: Compression = Compression.NONE,
        secret_key: bytes | None = None,
        random_bytes: Callable[[int], bytes] | None = None,
        key_id: str | None = None,
    ) -> None:
        """Get ready.

        Args:
            compression: how to compress each record.
            secret_key: 32 bytes to encrypt with, or None.
            random_bytes: gives that many unpredictable bytes (`os.urandom`); needed with a key. It makes the ivs:
                a source that repeats itself breaks the encryption.
            key_id: name of the key, said in each packet. None says nothing, which every reader understands.

        Raises:
            ValueError: the key does not have 32 bytes, or comes without `random_bytes`.
            ComponentError: there is a key but `cryptography` is not installed.
        """
        if secret_key is not None and random_bytes is None:
            raise ValueError("encryption needs a source of random bytes for the ivs")
        self._compression = compression
        self._cipher = None if secret_key is None else PacketCipher(secret_key)
        self._random_bytes = random_bytes
        self._key_id = key_id

    def seal(self, record: bytes) -> bytes:
        """The packet that holds `record`, as one line without a line end."""
        payload = deflate(record, self._compression)
        if self._cipher is None or self._random_bytes is None:
            return build_envelope(Envelope(payload, self._compression))
        iv = self._random_bytes(IV_BYTES)
        return build_envelope(
            Envelope(self._cipher.encrypt(payload, iv), self._compression, Encryption.AES_GCM, iv, self._key_id),
        )
