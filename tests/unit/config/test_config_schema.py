"""The `schema` block of a source."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from config_helpers import Files

from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.nodes import ObjectNode, Report
from edgesocket.config.options import Kind, Option, OptionTable, parse_options
from edgesocket.config.schema import read_schema
from edgesocket.schema.types import MAX_TYPE_DEPTH, RowSchema, RowType, SimpleType, parse_type
from edgesocket.schema.types import Kind as Type

_TABLE = OptionTable(
    Option(name="schema", kind=Kind.STRUCTURE, read=read_schema, required=True, description="Columns.")
)


def read(text: str) -> tuple[RowSchema, list[str]]:
    """The schema of a block that has `schema` in it, as a source would read it, and the problems as printed."""
    report = Report()
    document = read_document(text, "job.conf", Surroundings(Files({})), report)
    assert isinstance(document.root, ObjectNode)
    parsed = parse_options(_TABLE, document.root, "source", report)
    problems = [str(problem) for problem in report.sorted_problems("job.conf")]
    schema = parsed.values.get("schema")
    return (schema if schema is not None else RowSchema(())), problems


def good(text: str) -> RowSchema:
    schema, problems = read(text)
    assert problems == []
    return schema


def problem(text: str) -> str:
    """The one problem of a text."""
    _, problems = read(text)
    assert len(problems) == 1, problems
    return problems[0]


def types(schema: RowSchema) -> list[tuple[str, str]]:
    return [(field.name, field.kind.text) for field in schema.fields]


def test_fields_keep_their_order_and_their_types() -> None:
    schema = good('schema { fields { user_id = "int", event = "string", ts = "long" } }')

    assert types(schema) == [("user_id", "int"), ("event", "string"), ("ts", "bigint")]
    assert all(field.nullable and field.default is None for field in schema.fields)


def test_types_need_no_quotes_where_the_dialect_allows_it() -> None:
    assert types(good('schema { fields { a = "Decimal(10, 2)", b = Array<String> } }')) == [
        ("a", "decimal(10,2)"),
        ("b", "array<string>"),
    ]


def test_a_block_as_type_is_a_row() -> None:
    schema = good('schema { fields { info { city = string, tags = "array<string>", geo { lat = double } } } }')

    geo = RowType((("lat", SimpleType(Type.DOUBLE)),))
    assert schema.fields[0].kind == RowType(
        (("city", parse_type("string")), ("tags", parse_type("array<string>")), ("geo", geo))
    )


def test_a_key_with_dots_is_one_column() -> None:
    assert types(good('schema { fields { a.b = int, "c.d" = string, __proto__ = int } }')) == [
        ("a.b", "int"),
        ("c.d", "string"),
        ("__proto__", "int"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "schema.fields.id = int\nschema.fields.name = string",
        "schema.fields { id = int, name = string }",
        "schema { fields.id = int, fields.name = string }",
        "schema { fields { id = int } }\nschema.fields.name = string",
        "schema = { fields = { id = int } }\nschema { fields { name = string } }",
    ],
)
def test_every_spelling_of_a_dotted_path_reaches_the_fields(text: str) -> None:
    assert types(good(text)) == [("id", "int"), ("name", "string")]


def test_columns_with_everything_that_can_be_said() -> None:
    schema = good(
        """schema {
          table = "shop.public.clicks", schema_first = true, comment = "clicks"
          columns = [
            { name = id, type = bigint, nullable = false, comment = "who" }
            { name = "a.b", type = "decimal(10, 2)", columnLength = 10, columnScale = 2, defaultValue = 1.50 }
            { name = info, type = { city = string } }
          ]
          primaryKey { name = pk, columnNames = [id] }
          constraintKeys = [{
            constraintName = by_b, constraintType = UNIQUE_KEY
            constraintColumns = [{ columnName = "a.b", sortType = ASC }]
          }]
        }"""
    )

    assert types(schema) == [("id", "bigint"), ("a.b", "decimal(10,2)"), ("info", "row{city = string}")]
    assert [field.nullable for field in schema.fields] == [False, True, True]
    assert schema.fields[0].comment == "who"
    assert schema.fields[1].default == Decimal("1.50")
    assert (schema.table, schema.primary_key, schema.comment) == ("shop.public.clicks", ("id",), "clicks")


def test_the_documented_spelling_of_the_primary_key_is_accepted_too() -> None:
    assert good("schema { fields { id = int }, primaryKey { name = pk, columns = [id] } }").primary_key == ("id",)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("int", "5", 5),
        ("int", '"5"', 5),
        ("double", "1e3", 1000.0),
        ("boolean", "TRUE", True),
        ("string", "5", "5"),
        ("string", '""', ""),
        ("string", "null", None),
        ("string", '"null"', "null"),
        ("date", '"2022-09-24"', (date(2022, 9, 24) - date(1970, 1, 1)).days),
        ("timestamp", '"1970-01-01 00:00:01"', 1_000_000),
        ("timestamp_tz", '"1970-01-01T00:00:01+01:00"', (-3_599_000_000, 60)),
        ("bytes", '"aGk="', b"hi"),
    ],
)
def test_a_default_is_a_value_of_the_column_type(kind: str, written: str, value: object) -> None:
    schema = good(f"schema {{ columns = [{{ name = c, type = {kind}, defaultValue = {written} }}] }}")

    assert schema.fields[0].default == value
    assert type(schema.fields[0].default) is type(value)


@pytest.mark.parametrize(
    ("kind", "written", "message"),
    [
        ("int", "7.5", "7.5 is not int (has a fraction)"),
        ("tinyint", "200", "200 is not tinyint (out of range)"),
        ("boolean", "yes", "yes is not boolean"),
        ("timestamp", '"2022-02-30 00:00:00"', '"2022-02-30 00:00:00" is not timestamp (there is no such day)'),
        ('"decimal(3,1)"', "1.25", "1.25 is not decimal(3,1) (more than 1 digits behind the point)"),
        ('"array<int>"', "1", "1 is not array<int> (only columns of simple types have defaults)"),
    ],
)
def test_a_default_that_does_not_fit_is_a_problem_with_its_line(kind: str, written: str, message: str) -> None:
    text = f"schema {{ columns = [\n{{ name = c, type = {kind},\n defaultValue = {written} }}] }}"

    assert problem(text).startswith(f"job.conf:3: source.schema.columns[1].defaultValue: {message}\n      fix: ")


def test_fields_and_columns_together_are_a_problem() -> None:
    text = "schema {\n fields { id = int }\n columns = [{ name = id, type = int }]\n}"

    assert problem(text) == (
        "job.conf:3: source.schema.columns: fields and columns cannot be used together\n      fix: keep one of them"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema {}", "source.schema: names no columns"),
        ("schema { table = t }", "source.schema: names no columns"),
        ("schema { fields {} }", "source.schema.fields: names no columns"),
        ("schema { columns = [] }", "source.schema.columns: names no columns"),
        ("schema { fields { info {} } }", "source.schema.fields.info: names no columns"),
        ("schema = int", "source.schema: needs a block, not a single value"),
        ("schema { fields = [] }", "source.schema.fields: needs a block of names and types, not a list"),
        ("schema { columns { name = id } }", "source.schema.columns: needs a list of blocks, not a block"),
        ("schema { columns = [id] }", "source.schema.columns[1]: needs a block, not a single value"),
        ("schema { fields { tags = [string] } }", "source.schema.fields.tags: needs the name of a type, not a list"),
        ("schema { fields { x = null } }", "source.schema.fields.x: has no type"),
        ('schema { fields { "" = int } }', "source.schema.fields: a column has no name"),
        ('schema { columns = [{ name = " ", type = int }] }', "source.schema.columns[1].name: the name is blank"),
        ("schema { columns = [{ type = int }] }", "source.schema.columns[1].name: is required, and missing"),
        ("schema { columns = [{ name = x }] }", "source.schema.columns[1].type: is required, and missing"),
        (
            "schema { columns = [{ name = x, type = int, defaultValue = [1] }] }",
            "source.schema.columns[1].defaultValue: needs a single value, not a list: "
            "only columns of simple types have defaults",
        ),
        (
            "schema { columns = [{ name = x, type = int }, { name = x, type = string }] }",
            "source.schema.columns[2]: x is named twice",
        ),
        (
            "schema { fields { id = int }, primaryKey { columnNames = [ID] } }",
            "source.schema.primaryKey.columnNames: there is no column ID",
        ),
        (
            "schema { fields { id = int }, primaryKey { name = pk } }",
            "source.schema.primaryKey.columnNames: is required, and missing",
        ),
        (
            "schema { fields { id = int }, constraintKeys = [{ constraintColumns = [{ columnName = x }] }] }",
            "source.schema.constraintKeys[1].constraintColumns: there is no column x",
        ),
        (
            "schema { fields { id = int }, constraintKeys = [{ constraintType = VECTOR_INDEX_KEY, "
            "constraintColumns = [{ columnName = id }] }] }",
            "source.schema.constraintKeys[1].constraintType: VECTOR_INDEX_KEY is not supported: there are no vectors",
        ),
        ('schema { fields { id = int }, table = "a.b.c.d" }', "source.schema.table: a.b.c.d is not a table name"),
        (
            "schema { fields { id = int }, metadata_table_id = 5 }",
            "source.schema.metadata_table_id: is not supported yet: columns are named here, not looked up elsewhere",
        ),
    ],
)
def test_what_cannot_be_is_a_problem_that_names_the_place(text: str, message: str) -> None:
    assert problem(text).startswith(f"job.conf:1: {message}")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("integer", "int"), ("varchar", "string"), ("datetime", "timestamp"), ("bool", "boolean"), ("strng", "string")],
)
def test_an_unknown_type_names_field_line_and_what_was_meant(written: str, meant: str) -> None:
    assert problem(f"schema {{ fields {{\n id = int\n info {{ x = {written} }}\n}} }}") == (
        f"job.conf:3: source.schema.fields.info.x: there is no type {written}\n      fix: did you mean {meant}?"
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("schema { feilds { id = int } }", "fields"),
        ("schema { fields { id = int }, primarykey { columnNames = [id] } }", "primaryKey"),
        ("schema { columns = [{ name = id, typ = int }] }", "type"),
        ("schema { columns = [{ name = id, type = int, defaultvalue = 1 }] }", "defaultValue"),
    ],
)
def test_an_unknown_name_gets_a_hint(text: str, meant: str) -> None:
    _, problems = read(text)

    assert f"fix: did you mean {meant}?" in problems[0]


def test_every_problem_is_reported_not_only_the_first() -> None:
    _, problems = read("schema { columns = [\n{ name = a, type = integer }\n{ name = b, type = varchar }\n] }")

    assert [text.partition(": ")[0] for text in problems] == ["job.conf:2", "job.conf:3"]


def test_rows_in_rows_have_a_limit() -> None:
    depth = MAX_TYPE_DEPTH + 1
    text = "schema { fields { " + "a { " * depth + "b = int" + " }" * depth + " } }"

    assert f"types are nested more than {MAX_TYPE_DEPTH} deep" in problem(text)


def test_names_that_seatunnel_has_and_we_do_not_need_are_ignored_with_a_note() -> None:
    assert types(good("schema { fields { id = int }, partition_keys = [id] }")) == [("id", "int")]


def test_a_value_whose_fault_is_known_gets_no_second_problem() -> None:
    for text in (
        "schema = ${nothing}",
        "schema { fields = ${nothing} }",
        "schema { fields { id = ${nothing} } }",
        "schema { columns = ${nothing} }",
        "schema { columns = [${nothing}] }",
        "schema { columns = [{ name = id, type = int, defaultValue = ${nothing} }] }",
    ):
        assert "nothing" in problem(text)
