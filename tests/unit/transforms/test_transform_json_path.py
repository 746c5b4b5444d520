"""JsonPath: values out of JSON, their types, and the three ways to handle what is wrong."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import jsonpath
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transform_helpers import applied, batch, check_splits, fails_in_batch, problems, ran, refused, transform

from edgesocket.transforms.json_path import Wrong, plain_steps, walked

DOCUMENT = (
    '{"text":"t","flag":true,"n":42,"f":3.14,"dec":10.50,"day":"2023-10-29","time":"16:12:43.459","list":[1,"b",null],'
    '"o":{"a":[{"v":1},{"v":2}]},"nothing":null,"big":123456789012345678901234567890}'
)


def block(*columns: str, row: str = "") -> str:
    listed = ",\n".join(f"{{ {column} }}" for column in columns)
    return f"columns = [\n{listed}\n]\n" + (f"row_error_handle_way = {row}" if row else "")


def column(path: str, kind: str = "", way: str = "", name: str = "v", source: str = "d") -> str:
    text = f'src_field = {source}, path = "{path}", dest_field = {name}'
    text += f', dest_type = "{kind}"' if kind else ""
    return text + (f", column_error_handle_way = {way}" if way else "")


def taken(path: str, kind: str = "", of: Any = DOCUMENT, type_: pa.DataType | None = None) -> Any:
    step = transform("JsonPath", block(column(path, kind)))
    return ran(step, batch({"d": [of]}, **({"d": type_} if type_ else {})))[0]["v"]


class TestValues:
    @pytest.mark.parametrize(
        ("path", "kind", "value"),
        [
            ("$.text", "", "t"),
            ("$['text']", "string", "t"),
            ("$.flag", "boolean", True),
            ("$.n", "int", 42),
            ("$.n", "", "42"),
            ("$.f", "double", 3.14),
            ("$.dec", "decimal(4,2)", Decimal("10.50")),
            ("$.dec", "", "10.50"),
            ("$.day", "date", dt.date(2023, 10, 29)),
            ("$.time", "time", dt.time(16, 12, 43, 459_000)),
            ("$.list", "array<string>", ["1", "b", None]),
            ("$.list[0]", "bigint", 1),
            ("$.list[-2]", "", "b"),
            ("$.o", "", '{"a":[{"v":1},{"v":2}]}'),
            ("$.o.a", "array<map<string, string>>", [[("v", "1")], [("v", "2")]]),
            ("$.o.a[*].v", "array<int>", [1, 2]),
            ("$..v", "array<int>", [1, 2]),
            ("$.o.a[?(@.v > 1)].v", "array<int>", [2]),
            ("$.o.missing[*]", "array<int>", []),
            ("$.nothing", "int", None),
            ("$.big", "", "123456789012345678901234567890"),
            ("$.big", "decimal(38,0)", Decimal("123456789012345678901234567890")),
        ],
    )
    def test_a_path_finds_its_value_in_the_type_asked_for(self, path: str, kind: str, value: Any) -> None:
        assert taken(path, kind) == value

    def test_a_null_source_makes_nulls(self) -> None:
        assert taken("$.n", "int", None, pa.string()) is None

    def test_bytes_maps_arrays_and_rows_are_sources_too(self) -> None:
        assert taken("$.n", "int", DOCUMENT.encode()) == 42
        assert taken("$.k", "int", [("k", 1)], pa.map_(pa.string(), pa.int32())) == 1
        assert taken("$[1]", "int", [5, 6]) == 6
        assert taken("$.t", "timestamp", {"t": dt.datetime(2024, 1, 1, 2, 3)}) == dt.datetime(2024, 1, 1, 2, 3)
        assert taken("$.m.k", "", {"m": [("k", "v")]}, pa.struct([("m", pa.map_(pa.string(), pa.string()))])) == "v"

    def test_a_row_is_the_array_of_its_fields_for_a_path_with_a_number(self) -> None:
        row = {"name": "a", "age": 18}
        assert taken("$[1]", "int", row) == 18
        assert taken("$.age", "int", row) == 18
        assert taken("$['age']", "int", row) == 18
        assert taken("$[*]", "array<string>", row) == ["a", "18"]

    def test_columns_stand_at_the_end_or_take_the_place_of_a_field(self) -> None:
        step = transform("JsonPath", block(column("$.n", "int", name="x"), column("$.text", name="d")))
        rows = applied(step, batch({"d": [DOCUMENT], "y": [1]}))
        assert rows is not None
        assert rows.batch.to_pylist() == [{"d": "t", "y": 1, "x": 42}]
        assert rows.schema.names == ["d", "y", "x"]

    def test_columns_may_be_written_together_with_semicolons(self) -> None:
        text = 'src_field = d, path = "$.n; $.text", dest_field = "a;b", dest_type = "int;string"'
        assert ran(transform("JsonPath", block(text)), batch({"d": [DOCUMENT]}))[0] == {
            "d": DOCUMENT,
            "a": 42,
            "b": "t",
        }

    def test_a_timestamp_with_a_zone_keeps_its_mark(self) -> None:
        step = transform("JsonPath", block(column("$.t", "timestamp_tz")))
        made = step.bind(pa.schema([("d", pa.string())])).field("v")
        assert made.metadata == {b"edgesocket.type": b"timestamp_tz"}


ROWS = batch({"d": ['{"n":1,"m":1}', '{"m":2}', '{"n":"x","m":3}', None, "{broken", '{"n":6,"m":6}']})


class TestWhatIsWrong:
    def test_fail_is_the_default_and_names_the_first_bad_row(self) -> None:
        step = transform("JsonPath", block(column("$.n", "int")))
        assert fails_in_batch(step, ROWS) == (101, "v: there is nothing at $.n")
        assert fails_in_batch(step, ROWS.slice(2)) == (100, 'v: $.n should be int, and is "x"')
        batch_id, reason = fails_in_batch(step, ROWS.slice(3))
        assert batch_id == 101
        assert reason.startswith("v: the source is no JSON")

    def test_the_first_bad_row_counts_whatever_column_is_wrong(self) -> None:
        step = transform("JsonPath", block(column("$.m", "int", name="m"), column("$.n", "int", name="n")))
        assert fails_in_batch(step, ROWS)[0] == 101

    def test_skip_makes_a_null(self) -> None:
        step = transform("JsonPath", block(column("$.n", "int", "SKIP")))
        assert [row["v"] for row in ran(step, ROWS)] == [1, None, None, None, None, 6]

    def test_skip_row_drops_the_row_and_keeps_the_ids(self) -> None:
        rows = applied(transform("JsonPath", block(column("$.n", "int", "SKIP_ROW"))), ROWS)
        assert rows is not None
        assert rows.id_array().tolist() == [100, 103, 105]
        assert [row["v"] for row in rows.batch.to_pylist()] == [1, None, 6]

    def test_skip_for_rows_drops_them_for_columns_that_say_nothing(self) -> None:
        text = block(column("$.n", "int", name="n"), column("$.m", "int", "SKIP", name="m"), row="SKIP")
        rows = applied(transform("JsonPath", text), ROWS)
        assert rows is not None
        assert rows.batch.select(["n", "m"]).to_pylist() == [{"n": 1, "m": 1}, {"n": None, "m": None}, {"n": 6, "m": 6}]

    def test_a_column_that_fails_wins_over_rows_that_skip(self) -> None:
        step = transform("JsonPath", block(column("$.n", "int", "FAIL"), row="SKIP"))
        assert fails_in_batch(step, ROWS)[0] == 101

    def test_a_row_that_is_dropped_does_not_fail_for_a_later_column(self) -> None:
        text = block(column("$.n", "int", "SKIP_ROW", name="n"), column("$.n", "int", name="m"))
        assert [row["m"] for row in ran(transform("JsonPath", text), ROWS)] == [1, None, 6]

    def test_when_all_rows_are_dropped_there_are_none(self) -> None:
        assert applied(transform("JsonPath", block(column("$.zz", way="SKIP_ROW"))), ROWS.slice(0, 3)) is None

    @pytest.mark.parametrize(
        "document", ['{"n":NaN}', '{"n":1}x', "", " ", "[" * 5000, '{"n":"\\ud800"}', '{"n":1e400}', '{"n":01}']
    )
    def test_odd_documents_are_errors_and_nothing_else(self, document: str) -> None:
        step = transform("JsonPath", block(column("$.n", "double")))
        assert fails_in_batch(step, batch({"d": [document]}))[0] == 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=3),
    max_leaves=12,
)
STEP = st.sampled_from([".a", ".b", ".é", "['a']", '["b"]', "['0']", "[0]", "[1]", "[-1]", "[-2]"])


class TestPlainPaths:
    @given(JSON, st.lists(STEP, max_size=4))
    def test_walking_a_plain_path_finds_what_the_library_finds(self, document: Any, steps: list[str]) -> None:
        path = "$" + "".join(steps)
        found = jsonpath.findall(path, json.dumps(document))
        plain = plain_steps(path)
        assert plain is not None
        if found:
            assert walked(document, plain, path) == found[0]
        else:
            with pytest.raises(Wrong):
                walked(document, plain, path)

    @pytest.mark.parametrize(
        "path", ["a.b", "$..a", "$.*", "$[*]", "$[?@.a]", "$[0:2]", "$['a','b']", "$.a b", "$[01]"]
    )
    def test_any_other_path_is_left_to_the_library(self, path: str) -> None:
        assert plain_steps(path) is None

    def test_a_number_finds_elements_of_arrays_only(self) -> None:
        step = transform("JsonPath", block(column("$[0]")))
        assert fails_in_batch(step, batch({"d": ['{"0":1}']})) == (100, "v: there is nothing at $[0]")

    def test_a_document_that_is_a_text_is_not_read_again(self) -> None:
        assert taken("$[*]", "", '"[1]"') == "[]"

    def test_the_path_of_the_whole_document(self) -> None:
        assert plain_steps("$") == ()
        assert taken("$", "", '{"a": 1.50}') == '{"a":1.50}'


class TestRefused:
    def test_every_fault_is_told_at_once(self) -> None:
        step = transform("JsonPath", block(column("$.n[", "integer", source="dd"), column("$.n", name="v")))
        found = refused(step, batch({"d": ["{}"], "n": [1]}).schema)
        assert [(path, fix) for path, _, fix in found] == [
            ("columns[1].src_field", "did you mean d?"),
            ("columns[1].path", "$.name"),
            ("columns[1].dest_type", "int"),
            ("columns", ""),
        ]

    def test_a_number_is_no_source(self) -> None:
        step = transform("JsonPath", block(column("$.n", source="n")))
        assert refused(step, batch({"n": [1]}).schema)[0][1] == "n is int64, which is no JSON"

    def test_paths_cannot_be_joined(self) -> None:
        step = transform("JsonPath", block(column("$.a | $.b")))
        assert refused(step, batch({"d": [""]}).schema)[0][1] == "paths cannot be joined with | or &"

    def test_options_are_checked(self) -> None:
        assert problems("JsonPath", "") == ["columns: is required, and missing"]
        assert problems("JsonPath", "columns = []") == ["columns: the list is empty"]
        assert problems("JsonPath", block("path = x, dest_field = y")) == [
            "columns[1].src_field: is required, and missing"
        ]
        assert problems("JsonPath", block(column("$.n", way="MAYBE"))) == [
            "columns[1].column_error_handle_way: MAYBE is none of FAIL, SKIP, SKIP_ROW"
        ]
        text = 'src_field = d, path = "$.n;$.m", dest_field = "a;b"'
        assert problems("JsonPath", block(text)) == [
            "columns: path, dest_field and dest_type have different numbers of parts between semicolons"
        ]


@pytest.mark.parametrize(
    "text",
    [
        block(column("$.n", "int", "SKIP")),
        block(column("$.n", "int", "SKIP_ROW")),
        block(column("$.n", "int"), row="SKIP"),
        block(column("$..n", "array<string>", "SKIP")),
    ],
)
def test_how_rows_are_cut_into_batches_makes_no_difference(text: str) -> None:
    check_splits(lambda: transform("JsonPath", text), ROWS)
