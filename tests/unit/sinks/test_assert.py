"""AssertSink: what each rule refuses, what it says of it, and when rows are counted."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from edgesocket.components.sink import RejectedRow, SinkContext
from edgesocket.errors import BadRecordError, ComponentError, ConfigError, ExitCode, RuleBrokenError
from edgesocket.rows import Rows, text_schema
from edgesocket.sinks.assert_ import AssertSink
from edgesocket.testing.sink_story import listed_block


def field_rule(name: str, *values: dict[str, Any], field_type: str | None = None) -> dict[str, Any]:
    return {"field_rules": ({"field_name": name, "field_type": field_type, "field_value": values},)}


def value_rule(rule_type: str | None = None, value: Any = None, *, equals_to: str | None = None) -> dict[str, Any]:
    number = None if value is None else Decimal(str(value))
    return {"rule_type": rule_type, "rule_value": number, "equals_to": equals_to}


def row_rules(**limits: int) -> dict[str, Any]:
    return {"row_rules": tuple({"rule_type": name, "rule_value": value} for name, value in limits.items())}


def opened(rules: dict[str, Any], schema: pa.Schema, reject: Any = None) -> AssertSink:
    sink = AssertSink(rules=rules)
    more = {"reject": reject} if reject else {}
    sink.open(SinkContext(job="job", epoch=1, sink_id="Assert", schema=schema, **more))
    return sink


def column(kind: pa.DataType, *values: Any, first_id: int = 1) -> Rows:
    return Rows.of_batch(pa.record_batch([pa.array(values, kind)], names=["x"]), first_id)


def refused(rules: dict[str, Any], rows: Rows) -> list[RejectedRow]:
    rejected: list[RejectedRow] = []
    opened(rules, rows.schema, rejected.append).write(rows)
    return rejected


def passing(rule: dict[str, Any], kind: pa.DataType, *values: Any) -> list[Any]:
    """The values that a rule lets through."""
    out = {row.batch_id for row in refused(field_rule("x", rule), column(kind, *values, first_id=0))}
    return [value for number, value in enumerate(values) if number not in out]


def problems(rules: dict[str, Any], schema: pa.Schema) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        opened(rules, schema)
    return [f"{problem.path}: {problem.message} / {problem.fix}" for problem in caught.value.problems]


# Field rules


@pytest.mark.parametrize(
    ("rule", "kind", "values", "expected"),
    [
        (value_rule("NOT_NULL"), pa.string(), ["a", None, ""], ["a", ""]),
        (value_rule("NULL"), pa.int64(), [1, None, 0], [None]),
        (value_rule("NULL"), pa.list_(pa.int64()), [[1], None, []], [None]),
        (value_rule("MIN", 2), pa.int32(), [1, 2, 3, None], [2, 3]),
        (value_rule("MIN", "1.5"), pa.int32(), [1, 2, None], [2]),
        (value_rule("MAX", "-1.5"), pa.int8(), [-3, -2, -1], [-3, -2]),
        (value_rule("MIN", "1e30"), pa.int64(), [1, None], []),
        (value_rule("MAX", "1e30"), pa.int64(), [1, None], [1]),
        (value_rule("MIN", "-1e30"), pa.int64(), [1, None], [1]),
        (value_rule("MAX", "-300"), pa.int8(), [1, None], []),
        (value_rule("MAX", 2), pa.float64(), [1.5, 2.0, 2.5, float("inf"), None], [1.5, 2.0]),
        (value_rule("MIN", 2**53 + 1), pa.int64(), [2**53, 2**53 + 1], [2**53 + 1]),
        (value_rule("MIN", "0.5"), pa.float32(), [0.25, 0.5], [0.5]),
        (
            value_rule("MIN", "1.005"),
            pa.decimal128(10, 2),
            [Decimal("1.00"), Decimal("1.01"), None],
            [Decimal("1.01")],
        ),
        (value_rule("MAX", "1e60"), pa.decimal128(38, 0), [Decimal(10) ** 37, None], [Decimal(10) ** 37]),
        (value_rule("MIN", 3), pa.decimal128(5, 0), [Decimal(2), Decimal(3)], [Decimal(3)]),
        (value_rule("MIN_LENGTH", 2), pa.string(), ["ü", "üü", "", None], ["üü"]),
        (value_rule("MAX_LENGTH", 1), pa.string(), ["\U0001f98a", "ab", "", None], ["\U0001f98a", ""]),
        (value_rule("MAX_LENGTH", 1), pa.binary(), [b"a", b"\xc3\xbc"], [b"a"]),
        (value_rule("MAX_LENGTH", "1e20"), pa.string(), ["abc"], ["abc"]),
        (value_rule(equals_to="7"), pa.int16(), [7, 8, None], [7]),
        (value_rule(equals_to="edge"), pa.string(), ["edge", "Edge", None], ["edge"]),
        (value_rule(equals_to="true"), pa.bool_(), [True, False], [True]),
        (value_rule(equals_to="1.50"), pa.decimal128(5, 2), [Decimal("1.50"), Decimal("1.51")], [Decimal("1.50")]),
        (
            value_rule(equals_to="2026-01-02"),
            pa.date32(),
            [datetime.date(2026, 1, 2), datetime.date(2026, 1, 3)],
            [datetime.date(2026, 1, 2)],
        ),
        (
            value_rule(equals_to="2026-01-02T03:04:05"),
            pa.timestamp("us"),
            [datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.datetime(2026, 1, 2)],
            [datetime.datetime(2026, 1, 2, 3, 4, 5)],
        ),
        (value_rule(equals_to="03:04:05"), pa.time64("us"), [datetime.time(3, 4, 5)], [datetime.time(3, 4, 5)]),
        (value_rule("MIN", 5, equals_to="7"), pa.int64(), [4, 6, 7], [7]),
    ],
)
def test_what_a_rule_lets_through(rule: dict[str, Any], kind: pa.DataType, values: list[Any], expected: Any) -> None:
    assert passing(rule, kind, *values) == expected


def test_not_a_number_passes_no_limit() -> None:
    assert passing(value_rule("MIN", 0), pa.float64(), float("nan")) == []
    assert passing(value_rule("MAX", 0), pa.float64(), float("nan")) == []


def test_a_refusal_names_field_rule_value_and_batch() -> None:
    (row,) = refused(field_rule("x", value_rule("NOT_NULL"), value_rule("MIN", 18)), column(pa.int64(), 20, 3))
    assert row.batch_id == 2
    assert row.reason == 'field "x" breaks the rule MIN 18: 3'
    assert row.row == b'{"x": 3}' or row.row == b'{"x":3}'


def test_a_refusal_of_null_says_so() -> None:
    (row,) = refused(field_rule("x", value_rule("NOT_NULL")), column(pa.int64(), None))
    assert row.reason == 'field "x" breaks the rule NOT_NULL: it is null'


def test_a_refusal_shows_no_more_than_200_characters_of_the_value() -> None:
    (row,) = refused(field_rule("x", value_rule("MAX_LENGTH", 3)), column(pa.string(), "y" * 1000))
    assert row.reason.count("y") == 200


def test_a_row_that_breaks_several_rules_is_refused_once_for_the_first() -> None:
    rules = {"field_rules": field_rule("x", value_rule("MIN", 5))["field_rules"] * 2, **row_rules(MIN_ROW=1)}
    assert len(refused(rules, column(pa.int64(), 1))) == 1


def test_a_refused_payload_is_given_back_as_it_came() -> None:
    rejected: list[RejectedRow] = []
    sink = opened(field_rule("value", value_rule("MAX_LENGTH", 3)), text_schema(), rejected.append)
    sink.write(Rows.of_records(listed_block([b"abc", b'{"a": 1}'], first_id=5)))
    assert [(row.batch_id, row.row) for row in rejected] == [(6, b'{"a": 1}')]


def test_without_dead_letters_the_first_bad_row_ends_the_job() -> None:
    sink = opened(field_rule("x", value_rule("MIN", 5)), column(pa.int64(), 0).schema)
    with pytest.raises(BadRecordError) as caught:
        sink.write(column(pa.int64(), 6, 1, 2, first_id=11))
    assert caught.value.batch_id == 12


def test_rows_are_refused_in_order_and_once_although_a_rejection_fails() -> None:
    taken: list[int] = []
    faults = [ComponentError("full")]

    def reject(row: RejectedRow) -> None:
        if row.batch_id == 3 and faults:
            raise faults.pop()
        taken.append(row.batch_id)

    rows = column(pa.int64(), 1, 9, 2, 3)
    sink = opened({**field_rule("x", value_rule("MIN", 5)), **row_rules(MAX_ROW=4)}, rows.schema, reject)
    with pytest.raises(ComponentError):
        sink.write(rows)
    sink.write(rows)
    assert taken == [1, 3, 4], "and the rows of the failed write are counted once"


# Row counts


def test_every_row_above_max_row_is_refused_as_it_comes() -> None:
    rejected: list[RejectedRow] = []
    rows = column(pa.int64(), 1, 2)
    sink = opened(row_rules(MAX_ROW=3), rows.schema, rejected.append)
    sink.write(rows)
    sink.write(column(pa.int64(), 3, 4, 5, first_id=3))
    sink.write(column(pa.int64(), 6, first_id=6))
    assert [row.batch_id for row in rejected] == [4, 5, 6]
    assert rejected[0].reason == "row 4 of this run breaks the rule MAX_ROW 3"


def test_max_row_0_refuses_every_row() -> None:
    assert len(refused(row_rules(MAX_ROW=0), column(pa.int64(), 1, 2))) == 2


def test_too_few_rows_are_a_failure_of_a_graceful_end() -> None:
    rows = column(pa.int64(), 1, 2)
    sink = opened(row_rules(MIN_ROW=3), rows.schema)
    sink.write(rows)
    sink.prepare(1)
    with pytest.raises(RuleBrokenError, match=r"MIN_ROW 3 is broken: 2 rows") as caught:
        sink.close()
    assert caught.value.exit_code == ExitCode.BAD_DATA
    sink.close()


def test_no_row_at_all_is_too_few() -> None:
    with pytest.raises(RuleBrokenError, match="0 rows came"):
        opened(row_rules(MIN_ROW=1), text_schema()).close()


def test_enough_rows_end_without_a_word() -> None:
    rows = column(pa.int64(), 1, 2)
    sink = opened(row_rules(MIN_ROW=3), rows.schema)
    sink.write(rows)
    sink.write(rows)
    sink.prepare(1)
    sink.close()


def test_a_run_that_was_cut_short_is_not_blamed() -> None:
    rows = column(pa.int64(), 1)
    sink = opened(row_rules(MIN_ROW=3), rows.schema)
    sink.prepare(1)
    sink.write(rows)
    sink.close()
    AssertSink(rules=row_rules(MIN_ROW=3)).close()


# Rules that do not fit the rows

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("us")),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            field_rule("Nam", value_rule("NULL")),
            'field_rules[1].field_name: there is no field "Nam" / did you mean name',
        ),
        (field_rule("zz", value_rule("NULL")), "the fields are id, name, at, tags"),
        (field_rule("name", field_type="int"), "field_rules[1].field_type"),
        (field_rule("name", value_rule("MIN", 1)), "MIN compares numbers, and it is string"),
        (field_rule("at", value_rule("NULL"), value_rule("MAX", 1)), "field_value[2]"),
        (field_rule("id", value_rule("MAX_LENGTH", 1)), "only string and bytes have a length"),
        (field_rule("id", value_rule(equals_to="many")), "many cannot be read as int64"),
        (field_rule("at", value_rule(equals_to="soon")), "soon cannot be read as"),
        (field_rule("tags", value_rule(equals_to="a")), "single values"),
    ],
)
def test_a_rule_that_does_not_fit_is_a_problem_when_the_sink_opens(rules: dict[str, Any], said: str) -> None:
    (problem,) = problems(rules, SCHEMA)
    assert problem.startswith("sink.Assert.rules.")
    assert said in problem


def test_all_problems_are_named() -> None:
    rules = {"field_rules": (*field_rule("a")["field_rules"], *field_rule("b")["field_rules"])}
    assert len(problems(rules, SCHEMA)) == 2


def columns(*rules: tuple[str, str, bool | None]) -> dict[str, Any]:
    entries = tuple({"name": name, "type": kind, "nullable": nullable} for name, kind, nullable in rules)
    return {"catalog_table_rule": {"column_rule": entries}}


ALL = (("id", "bigint", False), ("name", "string", True), ("at", "timestamp", None), ("tags", "array<string>", None))


def test_columns_as_they_are_pass() -> None:
    opened({**columns(*ALL), **field_rule("id", field_type="bigint")}, SCHEMA).close()


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (columns(*ALL[:3]), "the columns are id, name, at, tags"),
        (columns(ALL[1], ALL[0], *ALL[2:]), "not name, id, at, tags"),
        (columns(("id", "int", None), *ALL[1:]), "column_rule[1].type"),
        (columns(("id", "bigint", True), *ALL[1:]), 'column "id" may not hold null'),
        (columns(ALL[0], ("name", "string", False), *ALL[2:]), 'column "name" may hold null'),
    ],
)
def test_columns_that_differ_are_a_problem(rules: dict[str, Any], said: str) -> None:
    assert said in problems(rules, SCHEMA)[0]
