"""The options of the Assert sink: what is read and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from edgesocket.config.document import Surroundings, no_files, read_document
from edgesocket.config.nodes import ObjectNode, Report
from edgesocket.config.options import ParsedOptions, parse_options
from edgesocket.config.plugins.assert_ import ASSERT, check_assert


def read(text: str) -> tuple[ParsedOptions, Report]:
    report = Report()
    document = read_document(f"x {{ {text} }}", "job.conf", Surroundings(no_files, {}, {}), report)
    block = document.root.fields["x"].node
    assert isinstance(block, ObjectNode)
    parsed = parse_options(ASSERT, block, "sink.Assert", report)
    check_assert(parsed, "sink.Assert", report)
    return parsed, report


def rules(text: str) -> dict[str, Any]:
    parsed, report = read(f"rules {{ {text} }}")
    assert not report.problems
    value: dict[str, Any] = parsed.values["rules"]
    return value


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read(text)[1].sorted_problems("job.conf")]


def test_a_job_of_seatunnel_is_read() -> None:
    read_rules = rules("""
      row_rules = [{ rule_type = MAX_ROW, rule_value = 10 }, { rule_type = min_row, rule_value = 5 }]
      field_rules = [
        { field_name = name, field_type = String, field_value = [
            { rule_type = NOT_NULL }, { rule_type = MIN_LENGTH, rule_value = 2 } ] },
        { field_name = age, field_type = long, field_value = [
            { rule_type = MIN, rule_value = 0.5 }, { equals_to = 23 } ] }
      ]
      catalog_table_rule { column_rule = [{ name = id, type = "decimal( 3, 1 )", nullable = false, comment = x }] }
    """)
    assert read_rules["row_rules"] == (
        {"rule_type": "MAX_ROW", "rule_value": 10},
        {"rule_type": "MIN_ROW", "rule_value": 5},
    )
    name, age = read_rules["field_rules"]
    assert (name["field_type"], age["field_type"]) == ("string", "bigint")
    assert name["field_value"][1] == {"rule_type": "MIN_LENGTH", "rule_value": Decimal(2), "equals_to": None}
    assert age["field_value"][0]["rule_value"] == Decimal("0.5")
    assert age["field_value"][1] == {"rule_type": None, "rule_value": None, "equals_to": "23"}
    assert read_rules["catalog_table_rule"] == {
        "column_rule": ({"name": "id", "type": "decimal(3,1)", "nullable": False},)
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "rules: is required"),
        ("rules {}", "holds no rule"),
        ("rules { row_rules = [{ rule_type = MOST_ROW, rule_value = 1 }] }", "none of MIN_ROW, MAX_ROW"),
        ("rules { row_rules = [{ rule_type = MAX_ROW }] }", "rule_value: is required"),
        ("rules { row_rules = [{ rule_type = MAX_ROW, rule_value = 1.5 }] }", "not a whole number"),
        (
            "rules { row_rules = [{rule_type = MIN_ROW, rule_value = 2}, {rule_type = MAX_ROW, rule_value = 1}] }",
            "cannot both hold",
        ),
        ("rules { field_rules = [{ field_value = [{ rule_type = NULL }] }] }", "field_name: is required"),
        ("rules { field_rules = [{ field_name = a, field_type = integer }] }", "integer"),
        ("rules { field_rules = [{ field_name = a, field_value = [{}] }] }", "neither rule_type nor equals_to"),
        ("rules { field_rules = [{ field_name = a, field_value = [{ rule_type = MIN }] }] }", "MIN has no rule_value"),
        (
            "rules { field_rules = [{ field_name = a, field_value = [{ rule_type = NULL, rule_value = 1 }] }] }",
            "means nothing to NULL",
        ),
        (
            "rules { field_rules = [{field_name = a, field_value = [{rule_type = MIN_LENGTH, rule_value = 1.5}]}] }",
            "1.5 is not a length",
        ),
        ("rules { row_rules = [{ rule_type = MAX_ROW, rule_value = 1 }], table-names = [a] }", "there is one table"),
        (
            "rules { row_rules = [{ rule_type = MAX_ROW, rule_value = 1 }], tables_configs = [{}] }",
            "there is one table",
        ),
        (
            "rules { catalog_table_rule { column_rule = [{ name = a, type = int }], primary_key_rule { a = b } } }",
            "rows have no keys",
        ),
        ("rules { row_rule = [] }", "did you mean row_rules"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text)), problems(text)
