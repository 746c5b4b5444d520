"""What happens to rows between the source and the sinks: transforms, wired by the names of what they put out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa

from edgesocket.components.transform import Transform
from edgesocket.engine.plan import JobPlan, TransformPlan
from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.rows import Rows

Routed = tuple[str, Rows]
"""A sink's id, and rows for it."""


class RowsFor(Rows):
    """Rows that go to one sink as they are: a replay gives such, as it has been through the transforms itself.

    Attributes:
        sink_id: the sink; the rows have its type.
    """

    __slots__ = ("sink_id",)
    sink_id: str

    @classmethod
    def of(cls, sink_id: str, rows: Rows) -> RowsFor:
        """The same rows, for one sink."""
        made = cls(rows.schema, rows.count, rows.first_id, rows.ids, lambda: rows.batch, rows.records)
        made.sink_id = sink_id
        return made


class Pipeline:
    """The transforms of one job, made and bound to the type of the source's rows.

    Args:
        plan: the job. Its transforms stand in an order in which every input is there before it is needed.
        schema: the type of the source's rows.

    Raises:
        ConfigError: a transform does not fit the rows it gets, or what meets in one place has several types. Names
            every problem that can be found.

    Attributes:
        sink_schemas: the type of the rows of each sink, by its id.
    """

    def __init__(self, plan: JobPlan, schema: pa.Schema) -> None:
        self._source_id = plan.source_id
        self._schemas: dict[str, pa.Schema] = {plan.source_id: schema}
        self._steps: list[tuple[Sequence[str], Transform, str]] = []
        self._closing = ExitStack()
        self._sinks = [(sink.sink_id, sink.inputs or (plan.source_id,)) for sink in plan.sinks]
        self.sink_schemas: dict[str, pa.Schema] = {}
        with ExitStack() as unless_done:
            unless_done.callback(self.close)
            problems = [*self._bind_transforms(plan.transforms), *self._bind_sinks()]
            if problems:
                raise ConfigError(problems)
            unless_done.pop_all()

    def close(self) -> None:
        """Close every transform, also where one of them fails at that."""
        self._closing.close()

    def routed(self, rows: Rows) -> Iterator[Routed]:
        """What becomes of rows of the source: for each sink, its rows in order."""
        if isinstance(rows, RowsFor):
            yield rows.sink_id, rows
            return
        made: dict[str, list[Rows]] = {self._source_id: [rows]}
        for inputs, transform, output in self._steps:
            results = (transform.apply(rows) for name in inputs for rows in made[name])
            made[output] = [result for result in results if result is not None]
        for sink_id, inputs in self._sinks:
            for name in inputs:
                for result in made[name]:
                    yield sink_id, result

    def _bind_transforms(self, steps: Sequence[TransformPlan]) -> Iterator[ConfigProblem]:
        """Make and bind them. One whose input has a fault is left out: it would only complain of what is not there."""
        for step in steps:
            if not all(name in self._schemas for name in step.inputs):
                continue
            transform = step.make()
            self._closing.callback(transform.close)
            try:
                schema = transform.bind(self._common_schema("plugin_input", step.inputs))
            except ConfigError as error:
                for p in error.problems:
                    yield ConfigProblem(f"transform.{step.transform_id}.{p.path}", p.message, p.fix, p.location)
                continue
            self._schemas[step.transform_id] = schema
            self._steps.append((step.inputs, transform, step.transform_id))

    def _bind_sinks(self) -> Iterator[ConfigProblem]:
        for sink_id, inputs in self._sinks:
            if all(name in self._schemas for name in inputs):
                try:
                    self.sink_schemas[sink_id] = self._common_schema(f"sink.{sink_id}.plugin_input", inputs)
                except ConfigError as error:
                    yield from error.problems

    def _common_schema(self, path: str, inputs: Sequence[str]) -> pa.Schema:
        first = self._schemas[inputs[0]]
        for name in inputs[1:]:
            if not self._schemas[name].equals(first):
                columns = f"{first.names} and {self._schemas[name].names}"
                message = f"{inputs[0]} and {name} have different columns: {columns}"
                raise ConfigError([ConfigProblem(path, message, "make them alike with FieldMapper, or use two sinks")])
        return first
