"""What happens to rows between the source and the sinks: transforms, wired by the names of what they put out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from edgesocket.components.transform import Transform
from edgesocket.engine.plan import JobPlan
from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.rows import Rows

Routed = tuple[str, Rows]
"""A sink's id, and rows for it."""


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
        problems: list[ConfigProblem] = []
        for step in plan.transforms:
            try:
                self._add(step.inputs, step.make(), step.transform_id)
            except ConfigError as error:
                path = f"transform.{step.transform_id}"
                problems += [ConfigProblem(f"{path}.{p.path}", p.message, p.fix, p.location) for p in error.problems]
                break  # what follows would only complain of what is not there
        if problems:
            raise ConfigError(problems)
        self._sinks = [(sink.sink_id, sink.inputs or (plan.source_id,)) for sink in plan.sinks]
        self.sink_schemas = {
            sink_id: self._common_schema(f"sink.{sink_id}.plugin_input", inputs) for sink_id, inputs in self._sinks
        }

    def routed(self, rows: Rows) -> Iterator[Routed]:
        """What becomes of rows of the source: for each sink, its rows in order."""
        made: dict[str, list[Rows]] = {self._source_id: [rows]}
        for inputs, transform, output in self._steps:
            results = (transform.apply(rows) for name in inputs for rows in made[name])
            made[output] = [result for result in results if result is not None]
        for sink_id, inputs in self._sinks:
            for name in inputs:
                for result in made[name]:
                    yield sink_id, result

    def _add(self, inputs: Sequence[str], transform: Transform, output: str) -> None:
        self._schemas[output] = transform.bind(self._common_schema("plugin_input", inputs))
        self._steps.append((inputs, transform, output))

    def _common_schema(self, path: str, inputs: Sequence[str]) -> pa.Schema:
        first = self._schemas[inputs[0]]
        for name in inputs[1:]:
            if not self._schemas[name].equals(first):
                columns = f"{first.names} and {self._schemas[name].names}"
                message = f"{inputs[0]} and {name} have different columns: {columns}"
                raise ConfigError([ConfigProblem(path, message, "make them alike with FieldMapper, or use two sinks")])
        return first
