"""Between source and sinks: which rows reach which sink, and what does not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from edgesocket.components.transform import Transform
from edgesocket.engine.pipeline import Pipeline
from edgesocket.engine.plan import JobPlan, SinkPlan, TransformPlan
from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.rows import Rows

SCHEMA = pa.schema([pa.field("n", pa.int64())])
TEXT = pa.schema([pa.field("t", pa.string())])


class Adding:
    """Adds to the column n."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def bind(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def apply(self, rows: Rows) -> Rows | None:
        numbers = [n + self.amount for n in rows.batch.column(0).to_pylist()]
        return rows.with_batch(pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=rows.schema))

    def close(self) -> None: ...


class AsText:
    """Makes the column n a text column t."""

    def bind(self, schema: pa.Schema) -> pa.Schema:
        assert schema.equals(SCHEMA)
        return TEXT

    def apply(self, rows: Rows) -> Rows | None:
        return rows.with_batch(pa.RecordBatch.from_arrays([rows.batch.column(0).cast(pa.string())], schema=TEXT))

    def close(self) -> None: ...


class OnlyOdd:
    """Drops even numbers."""

    def bind(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def apply(self, rows: Rows) -> Rows | None:
        numbers = rows.batch.column(0).to_pylist()
        return rows.taken(np.array([index for index, n in enumerate(numbers) if n % 2], dtype=np.int64))

    def close(self) -> None: ...


class Unfit:
    """Fits nothing, for two reasons."""

    def bind(self, schema: pa.Schema) -> pa.Schema:
        raise ConfigError(
            [ConfigProblem("fields", "there is no column x", "name n", "job.conf:3"), ConfigProblem("mode", "is odd")]
        )

    def apply(self, rows: Rows) -> Rows | None:
        raise AssertionError

    def close(self) -> None: ...


def _step(id_: str, transform: Transform, *inputs: str) -> TransformPlan:
    return TransformPlan(id_, lambda: transform, inputs)


def _pipeline(transforms: Sequence[TransformPlan], sinks: dict[str, tuple[str, ...]]) -> Pipeline:
    unused: Any = None
    ends = tuple(SinkPlan(id_, unused, inputs) for id_, inputs in sinks.items())
    return Pipeline(JobPlan("job", Path(), "in", unused, ends, tuple(transforms)), SCHEMA)


def _rows(*numbers: int, first_id: int = 1) -> Rows:
    return Rows.of_batch(pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=SCHEMA), first_id)


def _routed(pipeline: Pipeline, rows: Rows) -> list[tuple[str, list[Any], list[int]]]:
    """For each delivery: the sink, the values of the only column, the batch ids."""
    return [
        (sink_id, part.batch.column(0).to_pylist(), part.id_array().tolist()) for sink_id, part in pipeline.routed(rows)
    ]


def test_without_transforms_every_sink_gets_the_rows_as_they_are() -> None:
    pipeline = _pipeline([], {"a": (), "b": ("in",)})
    rows = _rows(1, 2)
    assert list(pipeline.routed(rows)) == [("a", rows), ("b", rows)]
    assert pipeline.sink_schemas == {"a": SCHEMA, "b": SCHEMA}


def test_each_sink_gets_the_rows_of_its_own_inputs() -> None:
    pipeline = _pipeline(
        [_step("ten", Adding(10), "in"), _step("more", Adding(100), "ten"), _step("text", AsText(), "ten")],
        {"raw": ("in",), "sum": ("more",), "words": ("text",)},
    )
    assert _routed(pipeline, _rows(1, 2, first_id=7)) == [
        ("raw", [1, 2], [7, 8]),
        ("sum", [111, 112], [7, 8]),
        ("words", ["11", "12"], [7, 8]),
    ]
    assert pipeline.sink_schemas == {"raw": SCHEMA, "sum": SCHEMA, "words": TEXT}


def test_rows_of_equal_types_meet_in_a_sink_and_in_a_transform() -> None:
    pipeline = _pipeline(
        [_step("ten", Adding(10), "in"), _step("odd", OnlyOdd(), "in", "ten")],
        {"all": ("in", "ten"), "odd": ("odd",)},
    )
    assert _routed(pipeline, _rows(1, 2)) == [
        ("all", [1, 2], [1, 2]),
        ("all", [11, 12], [1, 2]),
        ("odd", [1], [1]),
        ("odd", [11], [1]),
    ]


def test_what_a_transform_drops_reaches_nobody_behind_it() -> None:
    pipeline = _pipeline(
        [_step("odd", OnlyOdd(), "in"), _step("text", AsText(), "odd")],
        {"raw": ("in",), "words": ("text",)},
    )
    assert _routed(pipeline, _rows(2, 4)) == [("raw", [2, 4], [1, 2])]
    assert _routed(pipeline, _rows(2, 3)) == [("raw", [2, 3], [1, 2]), ("words", ["3"], [2])], "not for ever"


def test_a_sink_cannot_take_rows_of_different_types() -> None:
    with pytest.raises(ConfigError) as caught:
        _pipeline([_step("text", AsText(), "in")], {"out": ("in", "text")})
    (problem,) = caught.value.problems
    assert problem.path == "sink.out.plugin_input"
    assert "in and text have different columns: ['n'] and ['t']" in problem.message


def test_a_transform_cannot_take_rows_of_different_types() -> None:
    with pytest.raises(ConfigError) as caught:
        _pipeline([_step("text", AsText(), "in"), _step("both", OnlyOdd(), "in", "text")], {"out": ("both",)})
    (problem,) = caught.value.problems
    assert problem.path == "transform.both.plugin_input"
    assert "different columns" in problem.message


def test_a_transform_that_does_not_fit_is_named_in_the_path_and_what_follows_keeps_quiet() -> None:
    with pytest.raises(ConfigError) as caught:
        _pipeline([_step("wrong", Unfit(), "in"), _step("next", Unfit(), "wrong")], {"out": ("next",)})
    assert caught.value.problems == (
        ConfigProblem("transform.wrong.fields", "there is no column x", "name n", "job.conf:3"),
        ConfigProblem("transform.wrong.mode", "is odd"),
    )


class Remembering(Adding):
    """Remembers that it was closed; raises if it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(0)
        self.closed = 0
        self.error = error

    def close(self) -> None:
        self.closed += 1
        if self.error:
            raise self.error


def test_every_transform_is_closed_once() -> None:
    steps = [Remembering(), Remembering()]
    pipeline = _pipeline([_step("a", steps[0], "in"), _step("b", steps[1], "a")], {"out": ("b",)})
    pipeline.close()
    pipeline.close()
    assert [step.closed for step in steps] == [1, 1]


def test_those_made_before_a_fault_are_closed_too() -> None:
    step = Remembering()
    with pytest.raises(ConfigError):
        _pipeline([_step("a", step, "in"), _step("wrong", Unfit(), "a")], {"out": ("wrong",)})
    assert step.closed == 1


def test_one_that_cannot_be_closed_keeps_none_from_being_closed() -> None:
    steps = [Remembering(), Remembering(RuntimeError("no"))]
    pipeline = _pipeline([_step("a", steps[0], "in"), _step("b", steps[1], "a")], {"out": ("b",)})
    with pytest.raises(RuntimeError):
        pipeline.close()
    assert [step.closed for step in steps] == [1, 1]


def test_faults_of_transforms_that_do_not_hang_on_each_other_are_all_named() -> None:
    with pytest.raises(ConfigError) as caught:
        _pipeline([_step("one", Unfit(), "in"), _step("two", Unfit(), "in")], {"out": ("in",)})
    assert [problem.path for problem in caught.value.problems] == [
        "transform.one.fields",
        "transform.one.mode",
        "transform.two.fields",
        "transform.two.mode",
    ]
