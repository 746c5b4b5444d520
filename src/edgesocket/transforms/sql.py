"""Sql: one SELECT over the rows, computed by DuckDB inside this process.

A query sees one row at a time: it chooses rows with WHERE and computes columns, it does not sort, group or join. So
the result does not depend on how rows are cut into batches. DuckDB reads the Arrow columns where they lie, and each
row's batch id is kept by a row number that goes through the query with it.

A query with RAND, UUID or the current time gives other values when rows are processed again after a restart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgesocket.errors import BadRecordError, ConfigError, ConfigProblem
from edgesocket.rows import Rows
from edgesocket.transforms.duck import INPUT, Duck, DuckError, DuckFull
from edgesocket.transforms.sql_compiler import Compiled, Compiler, Output, column_name, fitted
from edgesocket.transforms.sql_tree import QueryRefused, select_of

_ROW = "edgesocket_row"
_REASON_CHARACTERS = 200
_NO_CAST = "Unimplemented type for cast"


class SqlTransform:
    """Runs a query over every batch of rows.

    Guarantees: rows keep order and batch id; comparisons of whole numbers and decimals are exact; one thread; nothing
    outside the rows is read or written.
    """

    def __init__(self, *, query: str, engine: str = "ZETA") -> None:  # noqa: ARG002  there is one dialect
        """Take the query. It is read when the type of the rows is known."""
        self._query = query
        self._duck: Duck | None = None
        self._compiled = Compiled((), "", ())
        self._sql = ""
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Read the query and learn the type of its result, by running it over no rows.

        Raises:
            ConfigError: the query cannot be read, asks for what is not supported, or does not fit the fields.
        """
        if self._duck is None:
            self._duck = Duck()
        try:
            self._compiled = self._compile(self._duck, schema)
            self._sql = _statement(self._compiled)
            made = [self._made_field(schema, output) for output in self._compiled.outputs]
            if self._sql:
                table = self._duck.computed(self._sql)
                computed = [output for output in self._compiled.outputs if output.column is None]
                types = {output.name: _plain(table.schema.types[at]) for at, output in enumerate(computed)}
                made = [
                    pa.field(field.name, types.get(field.name, field.type), metadata=field.metadata) for field in made
                ]
        except QueryRefused as refused:
            raise ConfigError([ConfigProblem("query", refused.message, refused.fix)]) from None
        except DuckError as error:
            raise ConfigError([ConfigProblem("query", f"it does not fit the fields: {_reason(error)}")]) from None
        self._schema = pa.schema(made, metadata=schema.metadata)
        self._try_one_row(schema)
        return self._schema

    def apply(self, rows: Rows) -> Rows | None:
        """The result of the query over these rows.

        Raises:
            BadRecordError: an expression fails for a row; names its batch.
        """
        if not self._sql:
            return rows.with_batch(self._chosen(rows.batch, None, {}))
        try:
            chosen, computed = self._computed(rows.batch)
        except DuckError as error:
            raise self._blamed(rows, error) from None
        if chosen is None:
            return rows.with_batch(self._chosen(rows.batch, None, computed))
        return rows.taken(chosen, self._chosen(rows.batch, chosen, computed))

    def close(self) -> None:
        """Close DuckDB."""
        duck, self._duck = self._duck, None
        if duck is not None:
            duck.close()

    def _compile(self, duck: Duck, schema: pa.Schema) -> Compiled:
        names = [column_name(number) for number in range(len(schema))]
        empty = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)]).empty_table()
        numbered = empty.append_column(_ROW, pa.array([], pa.int64()))
        duck.load(numbered.to_batches()[0] if numbered.to_batches() else _no_rows(numbered.schema))
        select = select_of(duck.parsed(self._query), self._query)
        compiled = Compiler(schema, select.tables, duck.type_of, self._query).compiled(select)
        outputs = [
            output
            if output.column is not None
            else Output(output.name, None, fitted(output.sql, output.name, duck.type_of))
            for output in compiled.outputs
        ]
        return Compiled(tuple(outputs), compiled.where, compiled.used)

    def _try_one_row(self, schema: pa.Schema) -> None:
        """Run the query over a made-up row: DuckDB finds some types that do not go together only then.

        Any other failure says nothing: such a row need not ever come.
        """
        if not self._sql:
            return
        arrays = [_sample(field.type) for field in schema]
        try:
            self._computed(pa.RecordBatch.from_arrays(arrays, schema=schema))
        except DuckError as error:
            if _NO_CAST in str(error):
                raise ConfigError([ConfigProblem("query", f"it does not fit the fields: {_reason(error)}")]) from None

    def _made_field(self, schema: pa.Schema, output: Output) -> pa.Field:
        if output.column is not None:
            return schema.field(output.column).with_name(output.name)
        return pa.field(output.name, pa.null())

    def _computed(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64] | None, dict[str, pa.Array]]:
        """Which rows stay (None: all), and the computed columns for them. What is too large at once goes in halves."""
        try:
            return self._computed_at_once(batch)
        except DuckFull:
            if batch.num_rows < 2:
                raise
        middle = batch.num_rows // 2
        first, columns = self._computed(batch.slice(0, middle))
        second, more = self._computed(batch.slice(middle))
        joined = {name: pa.concat_arrays([columns[name], more[name]]) for name in columns}
        if first is None or second is None:
            return None, joined
        return np.concatenate([first, second + middle]), joined

    def _computed_at_once(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64] | None, dict[str, pa.Array]]:
        assert self._duck is not None
        names = [column_name(number) for number in self._compiled.used]
        arrays = [batch.column(number) for number in self._compiled.used]
        count = pa.array(np.arange(batch.num_rows, dtype=np.int64))
        self._duck.load(pa.RecordBatch.from_arrays([*arrays, count], [*names, _ROW]))
        table = self._duck.computed(self._sql)
        outputs = [output for output in self._compiled.outputs if output.column is None]
        columns = {output.name: table.column(at) for at, output in enumerate(outputs)}
        whole = {name: _one(column.cast(self._schema.field(name).type)) for name, column in columns.items()}
        numbers = _one(table.column(table.num_columns - 1)).to_numpy(zero_copy_only=False)
        if not self._compiled.where:
            return None, whole
        return numbers, whole

    def _chosen(
        self, batch: pa.RecordBatch, chosen: npt.NDArray[np.int64] | None, computed: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        """The result's columns in order: taken from the batch, or computed."""
        indices = None if chosen is None or len(chosen) == batch.num_rows else pa.array(chosen)
        arrays = []
        for output in self._compiled.outputs:
            if output.column is None:
                arrays.append(computed[output.name])
            else:
                column = batch.column(output.column)
                arrays.append(column if indices is None else column.take(indices))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _blamed(self, rows: Rows, error: Exception) -> BadRecordError:
        """Find the first row that the query fails for, by halving."""
        first, last = 0, rows.count
        while last - first > 1:
            middle = (first + last) // 2
            try:
                self._computed(rows.batch.slice(first, middle - first))
                first = middle
            except DuckError as nearer:
                last, error = middle, nearer
        return BadRecordError(rows.id_at(first), f"the query fails: {_reason(error)}")


def _statement(compiled: Compiled) -> str:
    """The query for DuckDB; empty if every column is taken as it is, and every row."""
    computed = [f"{output.sql} AS o{at}" for at, output in enumerate(compiled.outputs) if output.column is None]
    if not computed and not compiled.where:
        return ""
    where = f" WHERE {compiled.where}" if compiled.where else ""
    return f"SELECT {', '.join([*computed, _ROW])} FROM {INPUT}{where}"  # noqa: S608  written by the compiler


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type that rows have for a type of DuckDB."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _plain(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    return type_


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _sample(type_: pa.DataType) -> pa.Array:
    """A column of one value that is not null, if the type has one that is easily made."""
    values: tuple[object, ...] = (0, False, "", b"", [])
    for value in values:
        try:
            return pa.array([value], type_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError):
            continue
    return pa.nulls(1, type_)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _reason(error: Exception) -> str:
    """The first line of what DuckDB says, without its own headings."""
    lines = str(error).splitlines() or ["it gave no reason"]
    text = lines[0].split("Error: ", 1)[-1]
    return text if len(text) <= _REASON_CHARACTERS else text[:_REASON_CHARACTERS] + "..."
