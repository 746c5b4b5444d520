"""Blocks of payloads to rows, a block at a time: the exact decoder's results at several times its speed.

msgspec reads payloads that lie together, one a line, into row objects without a Python call for each. It is trusted
for what it does exactly as the exact decoder (`schema.wire`), and what it refuses is given to the exact decoder, which
may take it ("12" for a whole number) or tell what is wrong. What msgspec would take though it should not is kept away:

- Several documents in one payload, and documents across payloads. Each payload of a run must begin with `{` and end
  with `}`, and there must be as many rows as payloads. Between two payloads stands `}`, line end, `{`: that is never
  inside of one JSON document (no comma; and in a text, a raw line end is refused), so each payload holds whole
  documents, at least one each, and by the count exactly one.
- Bytes that are not UTF-8 in fields that are ignored. The whole run is checked.
- Depth that only Python's stack limits. Long payloads have their brackets counted.

Where there is a compiler, schemas of simple types have a faster way (`schema.flat_rows`), for blocks of plain payloads.

So the result never depends on how records are cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from edgesocket.errors import SchemaMismatchError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.flat_rows import FlatRows, load
from edgesocket.schema.lenient import LenientDecoder
from edgesocket.schema.lines import MIN_DEEP_BYTES, Mask, Offsets, joined_lines, readable
from edgesocket.schema.steps import MaybeRow, column_steps, quoted_steps
from edgesocket.schema.types import RowSchema
from edgesocket.schema.wire import RowClasses

RUN_RECORDS = 512
"""Payloads given to msgspec at once: one it refuses costs a call for each of so many."""

COMPILED = load()
"""The compiled way for plain payloads; None where there is none."""

_Row = msgspec.Struct
_Decoder = msgspec.json.Decoder[msgspec.Struct]


@dataclass(frozen=True, slots=True)
class BadPayload:
    """A payload that does not fit the schema.

    Attributes:
        index: the record's place in the block.
        batch_id: the batch it came in.
        payload: all of it.
        reason: field, expected type and what is there instead, with at most 200 characters of the value.
    """

    index: int
    batch_id: int
    payload: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a block.

    Attributes:
        rows: the good ones in order, or None where there is none.
        bad: the others, in order.
        dropped: how many payloads made no row at all, which only lenient reading does (blanks, null).
    """

    rows: Rows | None
    bad: list[BadPayload] = field(default_factory=list)
    dropped: int = 0


class BlockDecoder:
    """Decodes payloads of one schema. What it returns depends on the call alone; several threads may use one.

    Args:
        schema: the columns.
        lenient: read as `schema.lenient` tells, not as `schema.exact`.
    """

    def __init__(self, schema: RowSchema, lenient: bool = False) -> None:
        classes = RowClasses()
        self.schema = schema
        self._arrow = schema.arrow
        self._exact = LenientDecoder(schema, classes) if lenient else ExactDecoder(schema, classes)
        self._flat = FlatRows(schema, COMPILED) if COMPILED and not lenient and FlatRows.fits(schema) else None
        self._decoder: _Decoder | None = None
        if classes.decodable(schema.row_type):
            self._decoder = msgspec.json.Decoder(classes.of(schema.row_type))
        self._steps = column_steps(schema, classes, lenient)
        self._quoted_steps = quoted_steps(schema, classes, lenient)
        self._quoted: _Decoder | None = None
        if self._decoder is not None and self._quoted_steps:
            self._quoted = msgspec.json.Decoder(classes.quoted(schema.row_type))

    def decode(self, block: RecordBlock) -> Decoded:
        """The rows of a block (payloads not compressed). The Arrow columns are made when they are asked for."""
        batch = None if self._flat is None else self._flat.read(block)
        if batch is not None:
            return Decoded(Rows.of_batch(batch, block.first_id, block.ids))
        made = self._rows(block)
        if all(made):  # a row is true, whatever is in it
            return Decoded(self._typed(cast(list[_Row], made), block.first_id, block.ids))
        rows: list[_Row] = []
        kept: list[int] = []
        bad: list[BadPayload] = []
        for index, row in enumerate(made):
            if row is None:
                self._again(block, index, rows, kept, bad)
            else:
                rows.append(row)
                kept.append(index)
        dropped = block.count - len(rows) - len(bad)
        if not rows:
            return Decoded(None, bad, dropped)
        if len(rows) == block.count:
            return Decoded(self._typed(rows, block.first_id, block.ids))
        ids = Rows.of_records(block).id_array()[kept]
        return Decoded(self._typed(rows, int(ids[0]), ids), bad, dropped)

    def check(self, payload: bytes) -> SchemaMismatchError | None:
        """What is wrong with a payload, or None: for a source that refuses bad payloads as they come.

        Many at once are cheaper with `decode`.
        """
        if self._decoder is not None and not self._steps and len(payload) < MIN_DEEP_BYTES and payload.isascii():
            try:
                self._decoder.decode(payload)
            except (msgspec.MsgspecError, RecursionError):
                pass
            else:
                return None
        try:
            self._exact.decode(payload)
        except SchemaMismatchError as error:
            return error
        return None

    def _typed(self, rows: list[_Row], first_id: int, ids: Any) -> Rows:
        return Rows(self._arrow, len(rows), first_id, ids, lambda: record_batch(rows, self.schema))

    def _again(self, block: RecordBlock, index: int, rows: list[_Row], kept: list[int], bad: list[BadPayload]) -> None:
        """Give one record to the exact decoder, whose word is final."""
        payload = block.payload(index)
        try:
            row = self._exact.decode(payload)
        except SchemaMismatchError as error:
            bad.append(BadPayload(index, block.id_at(index), payload, str(error)))
            return
        if row is not None:
            rows.append(row)
            kept.append(index)

    def _rows(self, block: RecordBlock) -> list[MaybeRow]:
        """A row for each payload, or None where the exact decoder has to look at it."""
        if self._decoder is None:
            return [None] * block.count
        lines, starts, ends = joined_lines(block)
        whole, single = readable(lines, starts, ends)
        made: list[MaybeRow] = []
        view = memoryview(lines)
        for start in range(0, block.count, RUN_RECORDS):
            stop = min(start + RUN_RECORDS, block.count)
            run = None
            if bool(whole[start:stop].all()):
                run = self._run(view[int(starts[start]) : int(ends[stop - 1])], stop - start)
            made += run or self._each(view, starts, ends, single, range(start, stop))
        for attribute, step in self._steps:
            step(made, attribute)
        return made

    def _run(self, lines: memoryview, count: int) -> list[MaybeRow] | None:
        """The rows of `count` payloads, one a line; None if not every one of them is a row for msgspec."""
        assert self._decoder is not None
        rows = _decode_lines(self._decoder, lines, count)
        if rows is None and self._quoted is not None:
            rows = _decode_lines(self._quoted, lines, count)
            if rows is not None:
                for attribute, step in self._quoted_steps:
                    step(rows, attribute)
        return rows

    def _each(self, view: memoryview, starts: Offsets, ends: Offsets, single: Mask, records: range) -> list[MaybeRow]:
        assert self._decoder is not None
        made: list[MaybeRow] = []
        for index in records:
            row = None
            if single[index]:
                try:
                    row = self._decoder.decode(view[starts[index] : ends[index]])
                except (msgspec.MsgspecError, RecursionError):
                    pass
            made.append(row)
        return made


def _decode_lines(decoder: _Decoder, lines: memoryview, count: int) -> list[MaybeRow] | None:
    try:
        rows = cast(list[MaybeRow], decoder.decode_lines(lines))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return rows if len(rows) == count else None
