"""What the tests of transforms share: options from a piece of a job file, running one, and the property of splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest

from edgesocket.components import registry
from edgesocket.components.transform import Transform
from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.nodes import Report
from edgesocket.config.options import parse_options
from edgesocket.config.plugins.common import COMMON_TRANSFORM
from edgesocket.config.transforms import TRANSFORMS
from edgesocket.errors import BadRecordError, ConfigError
from edgesocket.rows import Rows

FIRST_ID = 100


def _no_files(name: str, including: str, /) -> None:
    return None


def parsed(name: str, block: str) -> tuple[Any, list[str], list[str]]:
    """The options of a transform's block (None if there are problems), its problems and its notes."""
    plugin = TRANSFORMS[name]
    report = Report()
    root = read_document(block, "job.conf", Surroundings(_no_files), report).root
    found = parse_options(plugin.table, root, name, report)
    if plugin.check:
        plugin.check(found, name, report)
    problems = [str(problem).partition("\n")[0] for problem in report.sorted_problems("job.conf")]
    if problems:
        return None, problems, report.notes
    common = {option.key for option in COMMON_TRANSFORM}
    own = {key: value for key, value in found.values.items() if key not in common}
    return plugin.build(**own), [], report.notes


def transform(name: str, block: str) -> Transform:
    """The transform that a block without problems makes, by way of the registry."""
    options, problems, _ = parsed(name, block)
    assert problems == []
    return registry.transforms.factory(name)(**asdict(options))


def problems(name: str, block: str) -> list[str]:
    """The problems of a block, each after its place and the transform's name."""
    return [problem.partition(f"{name}.")[2] for problem in parsed(name, block)[1]]


def notes(name: str, block: str) -> list[str]:
    """The notes on a block."""
    return parsed(name, block)[2]


def batch(columns: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    """A batch of Python values, the columns in this order. `types`: of columns that cannot be guessed."""
    arrays = [pa.array(values, types.get(name)) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def ran(step: Transform, of: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows a transform makes of a batch, as dicts. They have the type it promised."""
    rows = applied(step, of)
    return [] if rows is None else rows.batch.to_pylist()


def applied(step: Transform, of: pa.RecordBatch) -> Rows | None:
    """What a transform makes of a batch whose first row has the id FIRST_ID."""
    before = repr(of.to_pylist())
    schema = step.bind(of.schema)
    rows = step.apply(Rows.of_batch(of, FIRST_ID))
    assert repr(of.to_pylist()) == before, "rows that other branches look at are never changed"
    if rows is not None:
        assert rows.count > 0
        assert rows.batch.schema.equals(schema, check_metadata=True)
        rows.batch.validate(full=True)
    return rows


def refused(step: Transform, schema: pa.Schema) -> list[tuple[str, str, str]]:
    """What `bind` complains about: path, message and fix of each problem."""
    with pytest.raises(ConfigError) as caught:
        step.bind(schema)
    return [(problem.path, problem.message, problem.fix) for problem in caught.value.problems]


def fails_in_batch(step: Transform, of: pa.RecordBatch) -> tuple[int, str]:
    """The batch id and the reason of the row that `apply` refuses."""
    step.bind(of.schema)
    with pytest.raises(BadRecordError) as caught:
        step.apply(Rows.of_batch(of, FIRST_ID))
    return caught.value.batch_id, caught.value.reason


def check_splits(make: Callable[[], Transform], of: pa.RecordBatch, sizes: Sequence[int] = (1, 2, 3, 5)) -> None:
    """Whatever batches the rows come in, the result is the same rows with the same ids."""
    whole = applied(make(), of)
    expected = [] if whole is None else list(zip(whole.id_array().tolist(), whole.batch.to_pylist(), strict=True))
    for size in sizes:
        step = make()
        schema = step.bind(of.schema)
        everything = Rows.of_batch(of, FIRST_ID)
        made: list[tuple[int, dict[str, Any]]] = []
        for start in range(0, of.num_rows, size):
            part = step.apply(everything.part(start, min(start + size, of.num_rows)))
            if part is not None:
                assert part.batch.schema.equals(schema, check_metadata=True)
                made += zip(part.id_array().tolist(), part.batch.to_pylist(), strict=True)
        assert made == expected, f"in batches of {size}"
