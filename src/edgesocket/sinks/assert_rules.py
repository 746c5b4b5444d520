"""Field rules as checks of whole columns.

A rule becomes one vectorised expression over a column when the sink is opened, once its type is known. Null passes
NULL alone: it has no size, no length and equals nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from edgesocket.errors import ConfigProblem
from edgesocket.schema.types import parse_type

Mask = npt.NDArray[np.bool_]
Expression = Callable[[pa.Array], pa.Array]

SHOWN_CHARACTERS = 200
"""Most characters of a value that a message shows."""

_EXACT = Context(prec=400)
_MAX_DIGITS = 38


class _UnfitError(Exception):
    """The rule makes no sense for the column."""


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """One rule for one column.

    Attributes:
        column: index of the column.
        name: of the field.
        rule: as a message names it: `MIN 3`.
    """

    column: int
    name: str
    rule: str
    _holds: Expression

    def failures(self, batch: pa.RecordBatch) -> Mask:
        """Which rows break the rule."""
        held = pc.fill_null(self._holds(batch.column(self.column)), False)
        broken: Mask = ~held.to_numpy(zero_copy_only=False)
        return broken

    def explain(self, batch: pa.RecordBatch, row: int) -> str:
        """What is wrong with a row that breaks it."""
        return f'field "{self.name}" breaks the rule {self.rule}: {shown(batch.column(self.column)[row].as_py())}'


def shown(value: object) -> str:
    """A value for a message, with at most 200 characters of it."""
    if value is None:
        return "it is null"
    text = str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def compile_rules(
    rules: Mapping[str, Any], schema: pa.Schema, path: str
) -> tuple[list[FieldCheck], list[ConfigProblem]]:
    """The checks of all field rules, and everything in the rules that does not fit the columns.

    Args:
        rules: as `config.plugins.assert_.AssertOptions` describes them.
        schema: the columns.
        path: where the rules stand, for problems.
    """
    checks: list[FieldCheck] = []
    problems: list[ConfigProblem] = []
    for number, rule in enumerate(rules.get("field_rules") or (), 1):
        name, where = rule["field_name"], f"{path}.field_rules[{number}]"
        column = schema.get_field_index(name)
        if column < 0:
            problems.append(_no_such_field(f"{where}.field_name", name, schema.names))
            continue
        problems += _type_problems(f"{where}.field_type", rule.get("field_type"), schema.field(column))
        for position, value_rule in enumerate(rule.get("field_value") or (), 1):
            try:
                checks += [
                    FieldCheck(column, name, text, holds)
                    for text, holds in _expressions(value_rule, schema.field(column).type)
                ]
            except _UnfitError as unfit:
                problems.append(ConfigProblem(f"{where}.field_value[{position}]", f'field "{name}": {unfit}'))
    table = rules.get("catalog_table_rule")
    if table and table.get("column_rule"):
        problems += _column_problems(f"{path}.catalog_table_rule.column_rule", table["column_rule"], schema)
    return checks, problems


def _no_such_field(path: str, name: str, known: Sequence[str]) -> ConfigProblem:
    near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in known], 1)
    guess = [one for one in known if one.casefold() in near]
    fix = f"did you mean {guess[0]}?" if guess else f"the fields are {', '.join(known)[:SHOWN_CHARACTERS]}"
    return ConfigProblem(path, f'there is no field "{name[:SHOWN_CHARACTERS]}"', fix)


def _type_problems(path: str, wanted: str | None, field: pa.Field) -> Iterator[ConfigProblem]:
    if wanted is not None and not parse_type(wanted).arrow.equals(field.type):
        yield ConfigProblem(path, f'field "{field.name}" is {field.type} in Arrow, not {wanted}')


def _column_problems(path: str, wanted: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Iterator[ConfigProblem]:
    names = [rule["name"] for rule in wanted]
    if names != schema.names:
        yield ConfigProblem(path, f"the columns are {', '.join(schema.names)}", f"not {', '.join(names)}")
        return
    for number, (rule, field) in enumerate(zip(wanted, schema, strict=True), 1):
        yield from _type_problems(f"{path}[{number}].type", rule["type"], field)
        nullable = rule.get("nullable")
        if nullable is not None and nullable != field.nullable:
            message = f'column "{field.name}" may {"" if field.nullable else "not "}hold null'
            fix = "leave nullable out; the field rule NOT_NULL checks values" if field.nullable else "nullable = false"
            yield ConfigProblem(f"{path}[{number}].nullable", message, fix)


# Expressions


def _expressions(rule: Mapping[str, Any], kind: pa.DataType) -> Iterator[tuple[str, Expression]]:
    """What a rule asks for, by the name of each part."""
    rule_type, value = rule.get("rule_type"), rule.get("rule_value")
    if rule_type is not None:
        text = rule_type if value is None else f"{rule_type} {value}"
        yield text, _BY_TYPE[rule_type](value, kind)
    if rule.get("equals_to") is not None:
        yield f"equals_to {shown(rule['equals_to'])}", _equals(rule["equals_to"], kind)


def _not_null(_: object, __: pa.DataType) -> Expression:
    return _is_valid


def _is_valid(column: pa.Array) -> pa.Array:
    return pc.is_valid(column)


def _is_null(column: pa.Array) -> pa.Array:
    return pc.is_null(column)


def _null(_: object, __: pa.DataType) -> Expression:
    return _is_null


def _minimum(limit: Decimal, kind: pa.DataType) -> Expression:
    return _compared(pc.greater_equal, limit, kind, ROUND_CEILING, at_least=True)


def _maximum(limit: Decimal, kind: pa.DataType) -> Expression:
    return _compared(pc.less_equal, limit, kind, ROUND_FLOOR, at_least=False)


def _compared(compare: Any, limit: Decimal, kind: pa.DataType, rounding: str, *, at_least: bool) -> Expression:
    """A comparison that is exact: the limit is moved to the next value that the column can hold."""
    if pa.types.is_floating(kind):
        bound = pa.scalar(float(limit), pa.float64())
        return lambda column: compare(column.cast(pa.float64()), bound)
    if pa.types.is_integer(kind):
        target, scale = kind, 0
    elif pa.types.is_decimal(kind):
        target, scale = pa.decimal128(_MAX_DIGITS, kind.scale), kind.scale
    else:
        raise _UnfitError(f"{'MIN' if at_least else 'MAX'} compares numbers, and it is {kind}")
    rounded = limit.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)
    try:
        bound = pa.scalar(int(rounded) if scale == 0 and target is kind else rounded, target)
    except (pa.ArrowInvalid, OverflowError, InvalidOperation):
        # Beyond every value of the column: all of them are on one side of it.
        return _is_valid if (limit < 0) == at_least else _never
    return lambda column: compare(column, bound)


def _never(column: pa.Array) -> pa.Array:
    return pa.array(np.zeros(len(column), dtype=bool))


def _shortest(limit: Decimal, kind: pa.DataType) -> Expression:
    length, bound = _length(kind), pa.scalar(_clamped(limit), pa.int32())
    return lambda column: pc.greater_equal(length(column), bound)


def _longest(limit: Decimal, kind: pa.DataType) -> Expression:
    length, bound = _length(kind), pa.scalar(_clamped(limit), pa.int32())
    return lambda column: pc.less_equal(length(column), bound)


def _clamped(limit: Decimal) -> int:
    return int(min(limit, Decimal(2**31 - 1)))


def _length(kind: pa.DataType) -> Expression:
    if pa.types.is_string(kind):
        return lambda column: pc.utf8_length(column)
    if pa.types.is_binary(kind):
        return lambda column: pc.binary_length(column)
    raise _UnfitError(f"only string and bytes have a length, and it is {kind}")


def _equals(text: str, kind: pa.DataType) -> Expression:
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise _UnfitError(f"equals_to compares single values, and it is {kind}")
    try:
        if pa.types.is_time(kind):  # Arrow reads no time of day
            value = pa.scalar(time.fromisoformat(text), kind)
        else:
            value = pa.scalar(text, pa.string()).cast(kind)
    except (ValueError, pa.ArrowNotImplementedError):
        raise _UnfitError(f"{shown(text)} cannot be read as {kind}") from None
    return lambda column: pc.equal(column, value)


_BY_TYPE: dict[str, Callable[[Any, pa.DataType], Expression]] = {
    "NOT_NULL": _not_null,
    "NULL": _null,
    "MIN": _minimum,
    "MAX": _maximum,
    "MIN_LENGTH": _shortest,
    "MAX_LENGTH": _longest,
}
