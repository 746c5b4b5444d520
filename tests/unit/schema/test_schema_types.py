"""Names of types, and their Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from schema_helpers import row_of, schema_of

from edgesocket.schema.types import MAX_TYPE_DEPTH, RowSchema, SchemaField, TypeTextError, parse_type


@pytest.mark.parametrize(
    ("text", "canonical", "arrow"),
    [
        ("string", "string", pa.string()),
        ("BOOLEAN", "boolean", pa.bool_()),
        ("tinyint", "tinyint", pa.int8()),
        ("byte", "tinyint", pa.int8()),
        ("smallint", "smallint", pa.int16()),
        ("short", "smallint", pa.int16()),
        (" Int ", "int", pa.int32()),
        ("bigint", "bigint", pa.int64()),
        ("long", "bigint", pa.int64()),
        ("float", "float", pa.float32()),
        ("double", "double", pa.float64()),
        ("Decimal ( 10 , 2 )", "decimal(10,2)", pa.decimal128(10, 2)),
        ("decimal(38,38)", "decimal(38,38)", pa.decimal128(38, 38)),
        ("date", "date", pa.date32()),
        ("time", "time", pa.time64("us")),
        ("timestamp", "timestamp", pa.timestamp("us")),
        (
            "TIMESTAMP_TZ",
            "timestamp_tz",
            pa.struct([("utc", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int16())]),
        ),
        ("bytes", "bytes", pa.binary()),
        ("null", "null", pa.null()),
        ("array< long >", "array<bigint>", pa.list_(pa.int64())),
        ("map<string, string>", "map<string,string>", pa.map_(pa.string(), pa.string())),
        (
            "map<decimal(3,1), map<int, array<decimal(5, 2)>>>",
            "map<decimal(3,1),map<int,array<decimal(5,2)>>>",
            pa.map_(pa.decimal128(3, 1), pa.map_(pa.int32(), pa.list_(pa.decimal128(5, 2)))),
        ),
    ],
)
def test_a_type_is_read_in_any_case_and_with_blanks(text: str, canonical: str, arrow: pa.DataType) -> None:
    kind = parse_type(text)

    assert kind.text == canonical
    assert kind.arrow == arrow
    assert parse_type(kind.text) == kind


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("integer", "there is no type integer", "int"),
        ("varchar", "there is no type varchar", "string"),
        ("varchar(20)", "there is no type varchar(20)", "string"),
        ("datetime", "there is no type datetime", "timestamp"),
        ("text", "there is no type text", "string"),
        ("bool", "there is no type bool", "boolean"),
        ("number", "there is no type number", "double, or decimal(p, s) for exact digits"),
        ("bigitn", "there is no type bigitn", "bigint"),
        ("timestmap", "there is no type timestmap", "timestamp"),
        ("xyz", "there is no type xyz", ""),
        ("", "the type is empty", "string"),
        ("decimal", "a decimal needs two numbers, digits in all and digits behind the point", "decimal(10, 2)"),
        ("decimal(10)", "a decimal needs two numbers, digits in all and digits behind the point", "decimal(10, 2)"),
        ("decimal(39,2)", "a decimal has 1 to 38 digits, not 39", "decimal(38, 2)"),
        ("decimal(0,0)", "a decimal has 1 to 38 digits, not 0", "decimal(38, 2)"),
        ("decimal(3,4)", "a decimal of 3 digits cannot have 4 behind the point", "decimal(10, 2)"),
        ("array", "array is not complete", "array<string>"),
        ("array<", "array< is not complete", "array<string>"),
        ("array<>", "the type is empty", "string"),
        ("array<varchar>", "there is no type varchar", "string"),
        ("map<string>", "a map needs two types, one for keys and one for values", "map<string, string>"),
        ("map<array<int>,int>", "the key of a map must be of a simple type, not array<int>", "map<string, string>"),
        ("map<null,int>", "the key of a map must be of a simple type, not null", "map<string, string>"),
        ("row<int>", "a row is written as a block, not as text", "{ name = string, count = int }"),
        ("float_vector", "float_vector is not supported: there are no vectors", ""),
        ("int int", "there is no type intint", ""),
    ],
)
def test_what_names_no_type_is_refused_with_a_hint(text: str, message: str, fix: str) -> None:
    with pytest.raises(TypeTextError) as caught:
        parse_type(text)

    assert (str(caught.value), caught.value.fix) == (message, fix)


def test_types_in_types_have_a_limit() -> None:
    depth = MAX_TYPE_DEPTH - 1
    assert parse_type("array<" * depth + "int" + ">" * depth).arrow is not None

    with pytest.raises(TypeTextError, match="nested more than"):
        parse_type("array<" * 100_000 + "int" + ">" * 100_000)


def test_the_arrow_schema_keeps_order_names_and_lets_every_column_be_null() -> None:
    schema = RowSchema((SchemaField("a.b", parse_type("int"), nullable=False), SchemaField("é", row_of(x="double"))))

    assert schema.arrow == pa.schema([("a.b", pa.int32()), ("é", pa.struct([("x", pa.float64())]))])
    assert all(field.nullable for field in schema.arrow)
    assert schema.names == ("a.b", "é")


def test_a_timestamp_with_its_zone_is_marked_in_the_arrow_field() -> None:
    schema = schema_of(t="timestamp_tz", u="timestamp")

    assert schema.arrow.field("t").metadata == {b"edgesocket.type": b"timestamp_tz"}
    assert schema.arrow.field("u").metadata is None


def test_the_fingerprint_tells_schemas_apart_by_what_they_decode_to() -> None:
    base = SchemaField("a", parse_type("int"))
    schemas = [
        RowSchema((base,)),
        RowSchema((SchemaField("b", base.kind),)),
        RowSchema((SchemaField("a", parse_type("bigint")),)),
        RowSchema((SchemaField("a", base.kind, default=1),)),
        RowSchema((SchemaField("a", row_of(x="int")),)),
        RowSchema((SchemaField("a", row_of(**{"x = int, y": "int"})),)),
        RowSchema((SchemaField("a", row_of(x="int", y="int")),)),
        RowSchema((base, SchemaField("b", base.kind))),
        RowSchema((SchemaField("b", base.kind), base)),
    ]

    assert len({schema.fingerprint for schema in schemas}) == len(schemas)
    commented = RowSchema((SchemaField("a", base.kind, nullable=False, comment="x"),), table="t", comment="y")
    assert commented.fingerprint == schemas[0].fingerprint
