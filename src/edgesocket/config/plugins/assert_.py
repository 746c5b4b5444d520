"""The options of the Assert sink."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from edgesocket.config.convert import Refused
from edgesocket.config.nodes import Report
from edgesocket.config.options import LONG_MAX, Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.common import COMMON

ROW_RULE_TYPES = ("MIN_ROW", "MAX_ROW")
VALUE_RULE_TYPES = ("NOT_NULL", "NULL", "MIN", "MAX", "MIN_LENGTH", "MAX_LENGTH")
_LENGTHS = ("MIN_LENGTH", "MAX_LENGTH")


def _check_type(text: str) -> str:
    from edgesocket.schema.types import TypeTextError, parse_type  # loaded where it is needed: it takes pyarrow

    try:
        return parse_type(text).text
    except TypeTextError as error:
        raise Refused(str(error), error.fix) from None


def _check_name(name: str) -> str:
    if not name:
        raise Refused("the name of a field is empty")
    return name


def _value_rule(rule_type: str | None, rule_value: Decimal | None, equals_to: str | None) -> dict[str, Any]:
    """One of field_value, if it makes sense."""
    if rule_type is None and equals_to is None:
        raise Refused("a rule has neither rule_type nor equals_to", "{ rule_type = NOT_NULL }")
    needs_value = rule_type not in (None, "NOT_NULL", "NULL")
    if needs_value and rule_value is None:
        raise Refused(f"{rule_type} has no rule_value", f"{{ rule_type = {rule_type}, rule_value = 1 }}")
    if not needs_value and rule_value is not None:
        raise Refused(f"rule_value means nothing to {rule_type or 'equals_to'}", "leave rule_value out")
    if rule_type in _LENGTHS and rule_value is not None and (rule_value < 0 or rule_value != int(rule_value)):
        raise Refused(f"{rule_value} is not a length", f"{{ rule_type = {rule_type}, rule_value = 10 }}")
    return {"rule_type": rule_type, "rule_value": rule_value, "equals_to": equals_to}


_ROW_RULE = OptionTable(
    Option(
        name="rule_type",
        kind=Kind.CHOICE,
        required=True,
        choices=ROW_RULE_TYPES,
        example="MAX_ROW",
        description="Whether rule_value is the least or the most number of rows.",
    ),
    Option(
        name="rule_value",
        kind=Kind.INTEGER,
        required=True,
        minimum=0,
        maximum=LONG_MAX,
        example="100",
        description="Number of rows in one run of the job.",
    ),
)
_VALUE_RULE = OptionTable(
    Option(
        name="rule_type",
        kind=Kind.CHOICE,
        choices=VALUE_RULE_TYPES,
        example="NOT_NULL",
        description="What is asked of the value.",
    ),
    Option(
        name="rule_value",
        kind=Kind.DECIMAL,
        example="1",
        description="Inclusive limit: a number for MIN and MAX, characters (of bytes: bytes) for the lengths.",
    ),
    Option(
        name="equals_to",
        kind=Kind.TEXT,
        example='"edge"',
        description="The value must be this one, read as the field's type.",
    ),
)
_FIELD_RULE = OptionTable(
    Option(
        name="field_name",
        kind=Kind.TEXT,
        required=True,
        check=_check_name,
        example='"age"',
        description="The field.",
    ),
    Option(
        name="field_type",
        kind=Kind.TEXT,
        check=_check_type,
        example="int",
        description="The type the field must have, checked when the job starts.",
    ),
    Option(
        name="field_value",
        kind=Kind.BLOCKS,
        default=(),
        table=_VALUE_RULE,
        build=_value_rule,
        example="[{ rule_type = NOT_NULL }]",
        description="Rules for every value. All must hold.",
    ),
)
_COLUMN = OptionTable(
    Option(name="name", kind=Kind.TEXT, required=True, check=_check_name, example='"age"', description="Its name."),
    Option(name="type", kind=Kind.TEXT, required=True, check=_check_type, example="int", description="Its type."),
    Option(
        name="nullable",
        kind=Kind.BOOLEAN,
        example="true",
        description="Whether the column may hold null.",
    ),
    ignored={
        "column_length": "columns have no length here",
        "default_value": "the source has filled it in",
        "comment": "comments are not compared",
    },
)
_CATALOG_TABLE = OptionTable(
    Option(
        name="column_rule",
        kind=Kind.BLOCKS,
        default=(),
        table=_COLUMN,
        example="[{ name = id, type = bigint }]",
        description="Every column of the rows, in order.",
    ),
    Option(name="primary_key_rule", kind=Kind.LATER, description="rows have no keys"),
    Option(name="constraint_key_rule", kind=Kind.LATER, description="rows have no keys"),
    ignored={"table_path": "there is one table"},
)
_RULES = OptionTable(
    Option(
        name="row_rules",
        kind=Kind.BLOCKS,
        default=(),
        table=_ROW_RULE,
        example="[{ rule_type = MAX_ROW, rule_value = 100 }]",
        description="Rules for the number of rows.",
    ),
    Option(
        name="field_rules",
        kind=Kind.BLOCKS,
        default=(),
        table=_FIELD_RULE,
        example="[{ field_name = age, field_value = [{ rule_type = NOT_NULL }] }]",
        description="Rules for fields.",
    ),
    Option(
        name="catalog_table_rule",
        kind=Kind.BLOCK,
        table=_CATALOG_TABLE,
        example="{ column_rule = [{ name = id, type = bigint }] }",
        description="What the columns must be, checked when the job starts.",
    ),
    Option(name="table-names", kind=Kind.LATER, description="there is one table"),
    Option(name="tables_configs", kind=Kind.LATER, description="there is one table; write its rules into rules"),
)

ASSERT = OptionTable(
    Option(
        name="rules",
        kind=Kind.BLOCK,
        required=True,
        table=_RULES,
        example="{ row_rules = [{ rule_type = MAX_ROW, rule_value = 100 }] }",
        description="What must hold: row_rules, field_rules, catalog_table_rule.",
    ),
    Option(name="tables_configs", kind=Kind.LATER, description="there is one table; write its rules into rules"),
    *COMMON,
)


def check_assert(options: ParsedOptions, path: str, report: Report) -> None:
    """Report rules that ask for nothing."""
    if not options.has("rules"):
        return
    rules = options.values["rules"]
    if not any(rules.values()):
        fix = "row_rules = [{ rule_type = MAX_ROW, rule_value = 100 }]"
        report.problem(options.place("rules"), f"{path}.rules", "holds no rule", fix)
    lowest = [rule["rule_value"] for rule in rules["row_rules"] if rule["rule_type"] == "MIN_ROW"]
    highest = [rule["rule_value"] for rule in rules["row_rules"] if rule["rule_type"] == "MAX_ROW"]
    if lowest and highest and max(lowest) > min(highest):
        message = f"MIN_ROW {max(lowest)} and MAX_ROW {min(highest)} cannot both hold"
        report.problem(options.place("rules"), f"{path}.rules.row_rules", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertOptions:
    """What the Assert sink is made with, checked.

    Attributes:
        rules: `row_rules`, `field_rules`: tuples of dicts with the keys of the job file; `catalog_table_rule`: None, or
            a dict with `column_rule`.
    """

    rules: dict[str, Any]
