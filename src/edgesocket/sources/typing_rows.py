"""From payloads to rows: as they are where the job has no schema, typed where it has one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from edgesocket.components.dead_letter import DeadLetter
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.errors import BadRecordError, DecodeError
from edgesocket.ingress.admission import Admitted, PayloadCodec
from edgesocket.packet.compression import inflate
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows, text_schema
from edgesocket.schema.fast import BadPayload, BlockDecoder
from edgesocket.sources.metadata import MetadataColumns

ORIGIN = "EdgeSocket"
"""What dead letters name as their origin."""


def row_schema(options: EdgeSocketOptions) -> pa.Schema:
    """The type of the rows that a source with these options makes."""
    schema = text_schema() if options.schema is None else options.schema.arrow
    return MetadataColumns(options.metadata_fields, schema).schema if options.metadata_fields else schema


PIECE_RECORDS = 4096
"""So many records are decoded at once: their objects then fit into the processor's cache, and take half the time."""


class RowMaker:
    """Makes rows of decoded blocks.

    Args:
        options: of the source.
        dead_letter: takes a record that does not fit the schema, under `on_bad_record = dead_letter`.

    Attributes:
        schema: the type of the rows.
        bad: how many records did not fit.
        dropped: how many payloads made no row, which only `json_mode = lenient` allows.
    """

    def __init__(self, options: EdgeSocketOptions, dead_letter: Callable[[DeadLetter], None]) -> None:
        self.bad = 0
        self.dropped = 0
        self._dead_letter = dead_letter
        self._to_dead_letter = options.on_bad_record == "dead_letter"
        self._decoder = None
        self.schema: pa.Schema = text_schema()
        if options.schema is not None:
            self._decoder = BlockDecoder(options.schema, options.json_mode == "lenient")
            self.schema = options.schema.arrow
        self._metadata: MetadataColumns | None = None
        if options.metadata_fields:
            self._metadata = MetadataColumns(options.metadata_fields, self.schema)
            self.schema = self._metadata.schema

    def rows(self, blocks: Iterable[RecordBlock]) -> Iterator[Rows]:
        """The rows of the blocks, in order, made as they are asked for.

        Raises:
            BadRecordError: a record does not fit; the rows before it have been handed on.
        """
        for block in blocks:
            made = self._typed(block) if self._decoder is not None else (Rows.of_records(block),)
            if self._metadata is None:
                yield from made
            else:
                yield from (self._metadata.added(rows, block.origin) for rows in made)

    def _typed(self, block: RecordBlock) -> Iterator[Rows]:
        for start in range(0, block.count, PIECE_RECORDS):
            yield from self._typed_piece(block.part(start, min(start + PIECE_RECORDS, block.count)))

    def _typed_piece(self, block: RecordBlock) -> Iterator[Rows]:
        assert self._decoder is not None
        decoded = self._decoder.decode(block)
        self.dropped += decoded.dropped
        if decoded.bad and not self._to_dead_letter:
            first = decoded.bad[0]
            if first.index:
                before = self._decoder.decode(block.part(0, first.index)).rows
                if before is not None:
                    yield before
            raise BadRecordError(first.batch_id, first.reason)
        for bad in decoded.bad:
            self._bury(bad)
        if decoded.rows is not None:
            yield decoded.rows

    def _bury(self, bad: BadPayload) -> None:
        self.bad += 1
        now_ms = time.time_ns() // 1_000_000
        self._dead_letter(DeadLetter(bad.batch_id, bad.payload, bad.reason, ORIGIN, now_ms))


class CheckedCodec:
    """`on_bad_record = reject`: what does not fit the schema is answered DECODE_FAILED and never queued.

    Args:
        inner: decides everything else.
        options: of the source; it has a schema.
    """

    def __init__(self, inner: PayloadCodec, options: EdgeSocketOptions) -> None:
        assert options.schema is not None
        self.inner = inner
        self._decoder = BlockDecoder(options.schema, options.json_mode == "lenient")
        self._limit_bytes = options.max_record_bytes

    def admit(self, payload: bytes) -> Admitted:
        """See PayloadCodec."""
        admitted = self.inner.admit(payload)
        mismatch = self._decoder.check(inflate(admitted.stored, admitted.compression, self._limit_bytes))
        if mismatch is not None:
            raise DecodeError(str(mismatch))
        return admitted
