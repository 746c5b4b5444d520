"""From dead letters back to rows for sinks: as the job reads records now, past whatever refused them before.

A letter of the source is read with the job's present schema and goes through its transforms to every sink. A letter of
a sink is the row that this sink refused; it goes to that sink alone, as the others have taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from edgesocket.components.dead_letter import DeadLetter
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.engine.pipeline import Pipeline, RowsFor
from edgesocket.errors import BadRecordError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows, text_schema
from edgesocket.schema.arrow_types import row_schema_of
from edgesocket.schema.fast import BlockDecoder
from edgesocket.sources.letter_files import StoredLetter
from edgesocket.sources.typing_rows import ORIGIN, RowMaker


@dataclass(frozen=True, slots=True)
class Attempt:
    """One letter on its way, and where it may go: `sinks` None is everywhere."""

    letter: StoredLetter
    sinks: frozenset[str] | None = None


Fail = Callable[[StoredLetter, str], None]
"""Takes a letter that does not become a row, and why."""


class LetterRows:
    """Makes rows of letters.

    Args:
        options: of the job's source.
        pipeline: the job's transforms, bound; closed by whoever made it.
        fail: takes letters that do not become rows.
    """

    def __init__(self, options: EdgeSocketOptions, pipeline: Pipeline, fail: Fail) -> None:
        self._pipeline = pipeline
        self._fail = fail
        self._attempts: dict[int, Attempt] = {}
        self._typed = options.schema is not None
        self._maker = RowMaker(_burying(options), self._refused)
        self.schema: pa.Schema = self._maker.schema
        self._of_sinks = _SinkRows(pipeline.sink_schemas)

    def rows(self, attempts: Sequence[Attempt]) -> Iterator[RowsFor]:
        """The rows of letters whose batch ids differ, each for one sink. Letters that do not fit go to `fail`."""
        self._attempts = {attempt.letter.batch_id: attempt for attempt in attempts}
        records: list[StoredLetter] = []
        for attempt in attempts:
            letter = attempt.letter
            if letter.origin == ORIGIN:
                if self._typed or _is_text(letter.payload):
                    records.append(letter)
                else:
                    self._fail(letter, "it is not UTF-8, and the job has no schema that could read it")
                continue
            yield from self._rows_of(records)
            records = []
            try:
                yield RowsFor.of(letter.origin, self._of_sinks.row(letter))
            except ValueError as error:
                self._fail(letter, str(error))
        yield from self._rows_of(records)

    def _rows_of(self, records: Sequence[StoredLetter]) -> Iterator[RowsFor]:
        """Letters of the source. One that a transform cannot take is found by halving."""
        if not records:
            return
        block = RecordBlock.of_payloads([one.batch_id for one in records], [one.payload for one in records])
        for rows in self._maker.rows([block]):
            yield from self._through_transforms(rows)

    def _through_transforms(self, rows: Rows) -> Iterator[RowsFor]:
        try:
            routed = list(self._pipeline.routed(rows))
        except BadRecordError as error:
            if rows.count == 1:
                self._fail(self._attempts[rows.id_at(0)].letter, error.reason)
                return
            half = rows.count // 2
            yield from self._through_transforms(rows.part(0, half))
            yield from self._through_transforms(rows.part(half, rows.count))
            return
        for sink_id, made in routed:
            yield from self._allowed(sink_id, made)

    def _allowed(self, sink_id: str, rows: Rows) -> Iterator[RowsFor]:
        """The rows without those whose letters this sink has taken before."""
        start = 0
        for index in range(rows.count):
            sinks = self._attempts[rows.id_at(index)].sinks
            if sinks is not None and sink_id not in sinks:
                if index > start:
                    yield RowsFor.of(sink_id, rows.part(start, index))
                start = index + 1
        if start < rows.count:
            yield RowsFor.of(sink_id, rows.part(start, rows.count))

    def _refused(self, bad: DeadLetter) -> None:
        self._fail(self._attempts[bad.batch_id].letter, bad.reason)


class _SinkRows:
    """Reads rows that sinks refused."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = schemas
        self._decoders: dict[str, BlockDecoder] = {}

    def row(self, letter: StoredLetter) -> Rows:
        """The one row of a letter. Raises ValueError, with what is wrong."""
        schema = self._schemas.get(letter.origin)
        if schema is None:
            where = f"{letter.origin} refused it, which is not in the job any more" if letter.origin else letter.reason
            raise ValueError(where)
        block = RecordBlock.of_payloads([letter.batch_id], [letter.payload])
        if schema.equals(text_schema()):
            letter.payload.decode()  # a UnicodeDecodeError is a ValueError
            return Rows.of_records(block)
        if letter.origin not in self._decoders:
            self._decoders[letter.origin] = BlockDecoder(row_schema_of(schema))
        decoded = self._decoders[letter.origin].decode(block)
        if decoded.rows is None:
            raise ValueError(decoded.bad[0].reason if decoded.bad else "it is no row")
        batch = pa.RecordBatch.from_arrays(decoded.rows.batch.columns, schema=schema)
        return decoded.rows.with_batch(batch)


def _is_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _burying(options: EdgeSocketOptions) -> EdgeSocketOptions:
    """The options, with a record that does not fit set aside and not ending anything."""
    return replace(options, on_bad_record="dead_letter")
