"""From the payload of one batch line to the bytes that are queued.

A codec says whether a payload can become a record, before RECEIVED is answered: what it lets through can be decoded
later, always.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.ingress.fingerprints import fingerprint, fingerprint_builder
from edgesocket.packet.codec import PacketDecoder
from edgesocket.packet.keys import PacketKey


@dataclass(slots=True)  # made once a record: a frozen one takes four times as long
class Admitted:
    """A payload that may be queued.

    Attributes:
        stored: the bytes to queue: decrypted, still compressed.
        compression: how they are compressed.
        digest: fingerprint of the decoded payload.
        iv: of an encrypted packet.
        record: the decoded payload, where it is small and at hand.
    """

    stored: bytes
    compression: Compression
    digest: bytes
    iv: bytes | None = None
    record: bytes | None = None


class PayloadCodec(Protocol):
    """How payloads of one source are read."""

    def admit(self, payload: bytes) -> Admitted:
        """Check one payload.

        Raises:
            DecodeError: it cannot be decoded: DECODE_FAILED.
            DecryptError: it cannot be decrypted: DECRYPT_FAILED.
        """


class RawCodec:
    """RAW mode: the payload is the record, and it is UTF-8 text.

    Args:
        replace_invalid: `invalid_utf8 = replace`: bad bytes become U+FFFD and are counted, instead of DECODE_FAILED.
    """

    def __init__(self, *, replace_invalid: bool = False) -> None:
        self._replace_invalid = replace_invalid
        self.replaced = 0
        """How many payloads had bytes replaced."""

    def admit(self, payload: bytes) -> Admitted:
        """See PayloadCodec."""
        try:
            payload.decode("utf-8")
        except UnicodeDecodeError as error:
            if not self._replace_invalid:
                raise DecodeError(f"not UTF-8 at byte {error.start}") from None
            payload = payload.decode("utf-8", "replace").encode("utf-8")
            self.replaced += 1
        return Admitted(payload, Compression.NONE, fingerprint(payload))


class PacketCodec:
    """PACKET mode: the payload is a JSON envelope around a compressed, perhaps encrypted record.

    Args:
        decoder: opens packets; made with `check_utf8` when bad bytes are to be refused.
    """

    def __init__(self, decoder: PacketDecoder) -> None:
        self._decoder = decoder

    def admit(self, payload: bytes) -> Admitted:
        """See PayloadCodec."""
        builder = fingerprint_builder()
        opened = self._decoder.open(payload, on_piece=builder.update)
        iv = None if opened.iv is None else opened.key_mark + opened.iv
        return Admitted(opened.compressed_bytes, opened.compression, builder.digest(), iv, opened.record)

    def use_keys(self, keys: Sequence[PacketKey]) -> None:
        """Decrypt with these from now on. Any thread."""
        self._decoder.use_keys(keys)


IVS_REMEMBERED = 4096
FIRST_IVS_REMEMBERED = 4096


class IvMemory:
    """The first ivs of this process and the newest ones, each with its key's mark, over all connections.

    A collector that uses one twice with one key gives both texts away to whoever sees both packets. The usual way to do
    that is a counter that starts again: so the first ones are kept as well as the newest.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[int, bytes]] = {}
        self._seen: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()

    def is_reused(self, iv: bytes, batch_id: int, digest: bytes) -> bool:
        """Whether another record had this iv lately; the same batch with the same payload is no other one."""
        record = (batch_id, digest)
        first = self._first.get(iv)
        if first is not None:
            return first != record
        if len(self._first) < FIRST_IVS_REMEMBERED:
            self._first[iv] = record
            return False
        known = self._seen.pop(iv, record)
        self._seen[iv] = record
        if len(self._seen) > IVS_REMEMBERED:
            self._seen.popitem(last=False)
        return known != record
