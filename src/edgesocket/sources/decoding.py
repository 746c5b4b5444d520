"""From queued records to what sinks get: packets wait compressed and are inflated only when their turn has come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgesocket.compression import Compression
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.ingress.admission import PacketCodec, RawCodec
from edgesocket.packet.codec import PacketDecoder
from edgesocket.packet.compression import inflate
from edgesocket.records import Origin, RecordBlock

DECODED_BYTES = 16 * 1024 * 1024
"""A block of inflated records is handed on when it has so many bytes; the last record may go beyond."""


def codec_of(options: EdgeSocketOptions) -> RawCodec | PacketCodec:
    """What decides whether a payload can become a record."""
    replace_invalid = options.invalid_utf8 == "replace"
    if options.packet_mode == "RAW":
        return RawCodec(replace_invalid=replace_invalid)
    decoder = PacketDecoder(
        options.secret_key, options.require_encryption, options.max_record_bytes, check_utf8=not replace_invalid
    )
    return PacketCodec(decoder)


class RecordDecoder:
    """Inflates what packets left compressed; proven possible when they were admitted.

    Attributes:
        replaced: how many records had bytes replaced that are not UTF-8.
    """

    def __init__(self, options: EdgeSocketOptions) -> None:
        self.replaced = 0
        self._limit_bytes = options.max_record_bytes
        self._packets = options.packet_mode == "PACKET"
        self._replace_invalid = self._packets and options.invalid_utf8 == "replace"

    def decoded(self, blocks: Iterable[RecordBlock]) -> Iterable[RecordBlock]:
        """The same records in the same order, ready for sinks, made as they are asked for.

        A few kilobytes may inflate to `max_record_bytes`, and many such records may be queued: so never more than
        `DECODED_BYTES` and one record are held at a time.
        """
        return self._inflated(blocks) if self._packets else blocks

    def _inflated(self, blocks: Iterable[RecordBlock]) -> Iterator[RecordBlock]:
        # What was handed on is not referred to here while the next record is inflated.
        ids: list[int] = []
        payloads: list[bytes] = []
        size = 0
        origin: Origin | None = None
        for block in blocks:
            if ids and block.origin is not origin:
                made = RecordBlock.of_payloads(ids, payloads).with_origin(origin)
                ids, payloads, size = [], [], 0
                yield made
                del made
            origin = block.origin
            known = None if self._replace_invalid else block.decoded
            for index, stored in enumerate(block.payloads()):
                ids.append(block.id_at(index))
                payloads.append(self._record(stored, block.compression) if known is None else known[index])
                size += len(payloads[-1])
                if size >= DECODED_BYTES:
                    made = RecordBlock.of_payloads(ids, payloads).with_origin(origin)
                    ids, payloads, size = [], [], 0
                    yield made
                    del made
        if ids:
            yield RecordBlock.of_payloads(ids, payloads).with_origin(origin)

    def _record(self, stored: bytes, compression: Compression) -> bytes:
        payload = inflate(stored, compression, self._limit_bytes)
        if self._replace_invalid:
            text = payload.decode("utf-8", "replace").encode()
            self.replaced += text != payload
            return text
        return payload
