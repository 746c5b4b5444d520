"""What a file of rows looks like, whatever it lies on: json, text, csv, parquet and orc.

A `FileFormat` is the options of a job file, checked; bound to the type of the rows it makes an `Encoder` for each file.
An encoder turns rows into the bytes of one file and keeps no file of its own: where the bytes go, and what happens
when they cannot be written, is the business of the sink.

json, text and csv give bytes for every row at once. parquet and orc collect rows and give bytes a row group (a stripe)
at a time; such a file is one only when `finish` has given its end.

csv. A text is quoted where it must be (`MINIMAL`), always (`ALL`) or never (`NONE`, after which a value that holds a
delimiter reads as two). null is an empty field and an empty text is `""`, so that a reader can tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError, ConfigProblem
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import PLAIN, TimeText, json_lines, text_cells, text_lines

EXTENSIONS = {"csv": ".csv", "text": ".txt", "json": ".json", "parquet": ".parquet", "orc": ".orc"}
CODECS = {
    "parquet": ("none", "snappy", "lz4", "gzip", "brotli", "zstd"),
    "orc": ("none", "snappy", "lz4", "zlib", "zstd"),
}
"""The compression that a format has inside; the others have none."""
DELIMITERS = {"csv": ",", "text": "\x01"}
"""Between fields, where the job file does not say."""
_NEVER_IN_NUMBERS = frozenset((",", "\t", ";", "|", "\x01"))
"""Delimiters that no number, time or base64 text holds."""
QUOTE_MODES = ("MINIMAL", "ALL", "NONE")
DEFAULTS: dict[str, Any] = {
    "field_delimiter": None,
    "row_delimiter": "\n",
    "enable_header_write": False,
    "compress_codec": "none",
    "date_format": None,
    "datetime_format": None,
    "time_format": None,
    "sink_columns": None,
    "csv_string_quote_mode": "MINIMAL",
}
"""The options of a file sink that say what a file looks like, under their names in the job file."""

ROW_GROUP_BYTES = 16 << 20
"""Arrow bytes that are collected before they become a row group of a Parquet file."""
STRIPE_BYTES = 16 << 20
"""Size of a stripe of an ORC file: about what the writer keeps in memory."""
_MOST_BATCHES = 256
"""Batches collected before they are copied into one: each has a cost of its own."""


class Encoder(Protocol):
    """Makes the bytes of one file. Pure: it fails for no reason outside the rows."""

    def add(self, rows: Rows) -> bytes | memoryview:
        """Take rows. Returns what goes into the file now, perhaps nothing yet."""

    def finish(self) -> bytes:
        """The rest of the file. Called once, last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """The options of a file's format.

    Attributes:
        type: one of `EXTENSIONS`.
        field_delimiter: between fields of csv and text; None: see `DELIMITERS`.
        row_delimiter: ends a row of csv and text.
        header: whether csv and text files begin with the names of the columns.
        codec: compression inside parquet and orc, see `CODECS`.
        times: how csv and text write dates and times.
        columns: those that are written, in this order; () for all.
        quote_mode: of csv, one of `QUOTE_MODES`.
    """

    type: str
    field_delimiter: str | None = None
    row_delimiter: str = "\n"
    header: bool = False
    codec: str = "none"
    times: TimeText = PLAIN
    columns: tuple[str, ...] = ()
    quote_mode: str = "MINIMAL"

    @classmethod
    def of(cls, *, file_format_type: str, **options: Any) -> FileFormat:
        """From the options of a file sink, under their names in the job file; those left out have their defaults."""
        options = {**DEFAULTS, **options}
        unknown = options.keys() - DEFAULTS.keys()
        if unknown:
            raise TypeError(f"no such option of a file's format: {', '.join(sorted(unknown))}")
        return cls(
            type=file_format_type.lower(),
            field_delimiter=options["field_delimiter"],
            row_delimiter=options["row_delimiter"],
            header=options["enable_header_write"],
            codec=options["compress_codec"].lower(),
            times=TimeText(
                date=options["date_format"] or "yyyy-MM-dd",
                datetime=options["datetime_format"],
                time=options["time_format"],
            ),
            columns=tuple(options["sink_columns"] or ()),
            quote_mode=options["csv_string_quote_mode"].upper(),
        )

    def problems(self) -> list[ConfigProblem]:
        """What is wrong with the options."""
        found = []
        if self.type not in EXTENSIONS:
            fix = f"one of {', '.join(EXTENSIONS)}"
            found.append(ConfigProblem("file_format_type", f'"{self.type}" is not a format', fix))
        if not self.row_delimiter:
            found.append(ConfigProblem("row_delimiter", "is empty", r'such as "\n"'))
        if self.field_delimiter == "":
            found.append(ConfigProblem("field_delimiter", "is empty", 'such as ","'))
        if self.type in EXTENSIONS and self.codec not in CODECS.get(self.type, ("none",)):
            fix = f"one of {', '.join(CODECS.get(self.type, ('none',)))}"
            found.append(ConfigProblem("compress_codec", f"{self.type} has no {self.codec}", fix))
        return found

    @property
    def extension(self) -> str:
        """The ending of a file's name, with its dot."""
        return EXTENSIONS[self.type]

    @property
    def is_columnar(self) -> bool:
        """Whether rows are collected before they become bytes."""
        return self.type in CODECS

    def bind(self, context: SinkContext) -> BoundFormat:
        """The format for rows of one type.

        Raises:
            ComponentError: a column in `columns` does not exist, or the format cannot hold a type.
        """
        schema = context.schema
        unknown = [name for name in self.columns if name not in schema.names]
        if unknown:
            raise ComponentError(
                f"sink {context.sink_id}: sink_columns names {', '.join(unknown)}, but the columns are "
                f"{', '.join(schema.names)}",
                retryable=False,
            )
        bound = BoundFormat(self, schema)
        bound.check(context.sink_id)
        return bound


class BoundFormat:
    """A format, and the type of the rows that are written in it.

    Attributes:
        header: what a file begins with.
        schema: of the columns that are written.
    """

    def __init__(self, options: FileFormat, schema: pa.Schema) -> None:
        self._options = options
        self._all = not options.columns or list(options.columns) == schema.names
        self.schema = schema if self._all else pa.schema([schema.field(name) for name in options.columns])
        self._delimiter = options.field_delimiter or DELIMITERS.get(options.type, ",")
        self.header = b""
        if options.header and options.type in DELIMITERS:
            names: list[str] = self.schema.names
            if options.type == "csv":
                names = [self._quoted(name) for name in names]
            self.header = (self._delimiter.join(names) + options.row_delimiter).encode()

    def encoder(self) -> Encoder:
        """For one file."""
        if self._options.type == "parquet":
            return _ParquetEncoder(self)
        if self._options.type == "orc":
            return _OrcEncoder(self)
        return _LineEncoder(self)

    def lines(self, rows: Rows) -> bytes | memoryview:
        """The rows in a format that is not columnar."""
        rows = self.chosen(rows)
        if self._options.type == "json":
            return json_lines(rows)
        if self._options.type == "text":
            return text_lines(rows, self._delimiter, self._options.row_delimiter, self._options.times)
        return self._csv(rows)

    def chosen(self, rows: Rows) -> Rows:
        """The rows with the columns that are written."""
        return rows if self._all else rows.with_batch(rows.batch.select(self.schema.names))

    @property
    def is_columnar(self) -> bool:
        """Whether rows are collected before they become bytes."""
        return self._options.is_columnar

    @property
    def codec(self) -> str:
        """The compression, as the option calls it."""
        return self._options.codec

    def check(self, sink_id: str) -> None:
        """See that the format can hold the types, by writing one row of nulls.

        Raises:
            ComponentError: it cannot.
        """
        if not self._options.is_columnar:
            return
        for field in self.schema:
            alone = BoundFormat(self._options, self.schema)
            alone._all, alone.schema = True, pa.schema([field])
            batch = pa.RecordBatch.from_arrays([pa.nulls(1, field.type)], schema=pa.schema([field.with_nullable(True)]))
            try:
                encoder = alone.encoder()
                encoder.add(Rows.of_batch(batch))
                encoder.finish()
            except (pa.ArrowException, NotImplementedError) as error:
                raise ComponentError(
                    f"sink {sink_id}: format {self._options.type} cannot hold column {field.name}, which is "
                    f"{field.type}: leave it out (sink_columns) or make it another type in a transform",
                    retryable=False,
                ) from error

    def _csv(self, rows: Rows) -> bytes:
        columns = [self._csv_cells(array) for array in rows.batch.columns]
        end = self._options.row_delimiter
        lines: Iterable[str] = (
            columns[0] if len(columns) == 1 else map(self._delimiter.join, zip(*columns, strict=True))
        )
        return (end.join(lines) + end).encode()

    def _csv_cells(self, array: pa.Array) -> list[str]:
        """A column as the fields of a csv file."""
        mode = self._options.quote_mode
        if pa.types.is_string(array.type) and mode != "NONE":
            return self._csv_texts(array)
        cells = text_cells(array, self._options.times)
        if mode == "NONE" or (mode == "MINIMAL" and not self._may_need_quotes(array.type)):
            return ["" if cell is None else cell for cell in cells]
        return ["" if cell is None else self._quoted(cell) for cell in cells]

    def _may_need_quotes(self, kind: pa.DataType) -> bool:
        """Whether a value that is no text could hold a delimiter."""
        return bool(pa.types.is_nested(kind)) or self._delimiter not in _NEVER_IN_NUMBERS

    def _csv_texts(self, array: pa.StringArray) -> list[str]:
        """Texts, with quotes around those that need them or around all; column by column, since texts are many."""
        needs = pc.equal(array, "")
        for mark in self._marks():
            needs = pc.or_(needs, pc.match_substring(array, mark))
        everything = self._options.quote_mode == "ALL"
        if everything or bool(pc.any(needs).as_py()):
            quoted = pc.binary_join_element_wise('"', pc.replace_substring(array, '"', '""'), '"', "")
            array = quoted if everything else pc.if_else(needs, quoted, array)
        texts: list[str] = array.fill_null("").to_pylist()
        return texts

    def _marks(self) -> tuple[str, ...]:
        """What a field cannot hold without quotes."""
        return ('"', "\n", "\r", self._delimiter, self._options.row_delimiter)

    def _quoted(self, text: str) -> str:
        options = self._options
        if options.quote_mode == "NONE":
            return text
        if options.quote_mode == "MINIMAL" and text and not any(mark in text for mark in self._marks()):
            return text
        return '"' + text.replace('"', '""') + '"'


class _LineEncoder:
    def __init__(self, bound: BoundFormat) -> None:
        self._bound = bound
        self._begun = False

    def add(self, rows: Rows) -> bytes | memoryview:
        lines = self._bound.lines(rows)
        if self._begun or not self._bound.header:
            self._begun = True
            return lines
        self._begun = True
        return self._bound.header + bytes(lines)

    def finish(self) -> bytes:
        return b""


class _Gathered:
    """A file to Arrow: what is written to it waits until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._size = 0

    def write(self, data: Any) -> int:
        self._pieces.append(data)
        self._size += len(data)
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces = []
        return taken

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """What was written can still be taken."""


class _ParquetEncoder:
    """Collects `ROW_GROUP_BYTES` for every row group."""

    def __init__(self, bound: BoundFormat) -> None:
        import pyarrow.parquet as pq  # loaded by the jobs that use it

        self._bound = bound
        self._file = _Gathered()
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        codec = "NONE" if bound.codec == "none" else bound.codec
        self._writer = pq.ParquetWriter(self._file, bound.schema, compression=codec)

    def add(self, rows: Rows) -> bytes:
        batch = self._bound.chosen(rows).batch
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= ROW_GROUP_BYTES:
            self._end_group()
        elif len(self._batches) >= _MOST_BATCHES:
            self._batches = self._table().combine_chunks().to_batches()
        return self._file.take()

    def finish(self) -> bytes:
        if self._batches:
            self._end_group()
        self._writer.close()
        return self._file.take()

    def _end_group(self) -> None:
        table = self._table()
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._batches, self._bytes = [], 0

    def _table(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, schema=self._bound.schema)


class _OrcEncoder:
    """Arrow's writer collects the stripes."""

    def __init__(self, bound: BoundFormat) -> None:
        from pyarrow import orc  # loaded by the jobs that use it

        self._bound = bound
        self._file = _Gathered()
        codec = "uncompressed" if bound.codec == "none" else bound.codec
        self._writer = orc.ORCWriter(self._file, compression=codec, stripe_size=STRIPE_BYTES)

    def add(self, rows: Rows) -> bytes:
        batch = self._bound.chosen(rows).batch
        if any(pa.types.is_nested(kind) for kind in batch.schema.types):
            # Arrow's ORC writer takes the nulls of rows from the wrong place where a batch is a slice of another.
            batch = batch.take(pa.array(np.arange(batch.num_rows)))
        self._writer.write(pa.Table.from_batches([batch], schema=self._bound.schema))
        return self._file.take()

    def finish(self) -> bytes:
        self._writer.close()
        return self._file.take()
